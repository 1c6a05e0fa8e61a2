"""The runs of the skyline join experiments: settings, and algorithms timed over 30 windows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lab.datasets.skyline import points, rooms, two_streams
from lab.experiments.lsj_paper import PaperIsj, PaperLsj
from skyband import registry
from skyband.embedded.monitor import Monitor
from skyband.embedded.run import watch
from skyband.errors import EngineError
from skyband.query import Skyline, SkylineJoin
from skyband.window import CountWindow, TimeWindow

__all__ = [
    "AUTO", "ISJ", "LSJ", "LSJ1", "NAIVE", "OURS", "PAPER_ISJ", "PAPER_LSJ", "PAPER_LSJ1",
    "WINDOWS", "Plan", "Setting", "Times", "draw_moving", "layers_of", "local_comparisons", "lsj",
    "overlaps", "timed",
]  # fmt: skip

WINDOWS = 30


class Plan(NamedTuple):
    """An algorithm, the layers that it shares, and whether it is the paper's form of it."""

    algorithm: str
    layers: int | None = None
    paper: bool = False


ALL = 10**6
"""More layers than any window has."""
NAIVE, ISJ, OURS = Plan("naive"), Plan("isj"), Plan("gsj")
LSJ1, LSJ, AUTO = Plan("lsj", 1), Plan("lsj", ALL), Plan("lsj")
PAPER_ISJ, PAPER_LSJ1, PAPER_LSJ = (
    Plan("isj", None, True), Plan("lsj", 1, True), Plan("lsj", ALL, True),
)  # fmt: skip


def lsj(layers: int) -> Plan:
    """LSJ that shares so many layers."""
    return Plan("lsj", layers)


@contextmanager
def _standing_in(plan: Plan) -> Iterator[None]:
    """Register the paper's form of an algorithm under its name for a while."""
    before = registry.registered("SkylineJoin", plan.algorithm)
    if plan.paper:
        form = {"isj": PaperIsj, "lsj": PaperLsj}[plan.algorithm]
        registry.register("SkylineJoin", plan.algorithm, form, *before[1:])
    try:
        yield
    finally:
        registry.register("SkylineJoin", plan.algorithm, *before)


@dataclass(frozen=True)
class Setting:
    """Two streams and a window over them; columns of the two sides have different names."""

    streams: Mapping[str, pa.Table]
    on: str
    prefer: Mapping[str, str]
    size: int
    slide: int
    windows: int = WINDOWS

    @staticmethod
    def drawn(
        size: int, slide: int, dimensions: int = 2, windows: int = WINDOWS, **how: Any
    ) -> Setting:
        """Synthetic streams of so many windows."""
        streams = two_streams(size + windows * slide, dimensions=dimensions, **how)
        names = [f"{letter}{i}" for letter in "ab" for i in range(dimensions)]
        return Setting(streams, "key", dict.fromkeys(names, "min"), size, slide, windows)

    @staticmethod
    def sensors(size: int, slide: int, windows: int = 10, start: int = 0) -> Setting:
        """The building's rooms, sizes in minutes."""
        end = start + size + windows * slide
        streams = {}
        for side, table in rooms().items():
            minute = table["ts"].to_numpy()
            low, high = np.searchsorted(minute, (start, end))
            streams[side] = table.slice(int(low), int(high - low)).drop_columns(["room"])
        prefer = {"temperature_c": "max", "co2_ppm": "max", "humidity_pct": "max", "light": "max"}
        return Setting(streams, "zone", prefer, size, slide, windows)

    def query(self, plan: Plan) -> SkylineJoin:
        left, right = self.streams
        return SkylineJoin(
            left=left,
            right=right,
            on=self.on,
            time="ts",
            prefer=self.prefer,
            window=TimeWindow(self.size, slide=self.slide),
            algorithm=plan.algorithm,
            layers=plan.layers,
        )

    def monitor(self, plan: Plan) -> Monitor:
        with _standing_in(plan):
            return Monitor(self.query(plan))

    def pushes(self) -> list[dict[str, pa.Table]]:
        """One push per slide; the first one holds a full window."""
        minutes = {side: table["ts"].to_numpy() for side, table in self.streams.items()}
        start = min(int(ts[0]) for ts in minutes.values()) // self.slide * self.slide
        edges = [start, *(start + self.size + i * self.slide for i in range(self.windows + 1))]
        found = []
        for low, high in pairwise(edges):
            cuts = {side: np.searchsorted(ts, (low, high)) for side, ts in minutes.items()}
            found.append(
                {
                    s: t.slice(int(cuts[s][0]), int(np.diff(cuts[s])[0]))
                    for s, t in self.streams.items()
                }
            )
        return found


@dataclass
class Times:
    """CPU seconds of each plan over the full windows of a setting: the least of all turns."""

    fold: dict[Plan, float] = field(default_factory=dict)
    """From sealed panes to answers."""
    own: dict[Plan, float] = field(default_factory=dict)
    """Without what all algorithms do alike: storing the rows and writing the answer's columns."""
    local: dict[Plan, float] = field(default_factory=dict)
    """For local skylines, which are all that sharing can save."""

    def ratio(self, a: Plan, b: Plan, whole: bool = False) -> float:
        """The time of one plan as a share of the other's; their own, or from panes to answers."""
        times = self.fold if whole else self.own
        return times[a] / times[b]

    def gain(self, a: Plan, b: Plan, whole: bool = False) -> float:
        """How much of the time of ``b`` plan ``a`` saves, in %."""
        return (1 - self.ratio(a, b, whole)) * 100

    def local_share(self, plan: Plan) -> float:
        """The share of local skylines in a plan's own time, in %."""
        return 100 * self.local[plan] / self.own[plan]


def timed(setting: Setting, plans: Sequence[Plan], repeat: int = 2) -> Times:
    """The times of plans that run in turns; their answers must agree."""
    found = Times()
    answers = []
    pushes = setting.pushes()
    turns = [plan for turn in range(repeat) for plan in plans if plan != NAIVE or not turn]
    for plan in turns:
        monitor = setting.monitor(plan)
        monitor.push(pushes[0])
        rows = []
        clock = _Clocks(monitor.session.synopsis)
        for push in pushes[1:]:
            rows += [answer.table.num_rows for answer in monitor.push(push)]
        spent = clock.spent
        own = spent["fold"] - spent["side_rows"] - spent["append"] - spent["answer"]
        if own < found.own.get(plan, np.inf):
            found.fold[plan], found.own[plan] = spent["fold"], own
            found.local[plan] = spent["local"]
        answers.append(rows)
    if any(each != answers[0] for each in answers):
        raise EngineError("two algorithms gave different answers; please report this as a bug")
    return found


class _Clocks:
    """The CPU time that a synopsis spends in some of its methods."""

    def __init__(self, synopsis: Any) -> None:
        self.spent = dict.fromkeys(("fold", "side_rows", "append", "answer", "local"), 0.0)
        for name in ("fold", "side_rows", "answer", "local"):
            if hasattr(synopsis, name):
                setattr(synopsis, name, self._timing(name, getattr(synopsis, name)))
        for side in getattr(synopsis, "live", ()):
            side.append = self._timing("append", side.append)

    def _timing(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            began = time.process_time()
            found = method(*args)
            self.spent[name] += time.process_time() - began
            return found

        return timed


def local_comparisons(setting: Setting, plan: Plan) -> int:
    """Comparisons made for local skylines."""
    monitor = setting.monitor(plan)
    for push in setting.pushes():
        monitor.push(push)
    return int(monitor.stats()["local_comparisons"])


def layers_of(setting: Setting, plan: Plan, windows: int = 5) -> list[int]:
    """The number of layers of some windows."""
    monitor = setting.monitor(plan)
    found = []
    for push in setting.pushes()[: windows + 1]:
        monitor.push(push)
        found.append(len(monitor.session.synopsis.layers))  # type: ignore[attr-defined]
    return found[1:]


def overlaps(setting: Setting, windows: int) -> list[list[float]]:
    """For each layer above the first, the % of rows that it shares with the previous window."""
    monitor = setting.monitor(LSJ)
    found, before = [], None
    for push in setting.pushes()[: windows + 1]:
        monitor.push(push)
        fabric = monitor.session.synopsis.fabric  # type: ignore[attr-defined]
        layers = [[sky.known for sky in both] for both in fabric]
        if before is not None:
            found.append([_common(*pair) for pair in zip(before, layers, strict=False)])
        before = layers
    return found


def _common(before: list[Any], now: list[Any]) -> float:
    """The mean over both sides."""
    both = [np.isin(b, a).mean() for a, b in zip(before, now, strict=True) if len(b)]
    return 100 * float(np.mean(both))


def draw_moving(path: Path) -> None:
    """Draw four windows of one stream: live rows, those that have left, the skyline."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    size, slide = 60, 15
    made = points("independent", size + 3 * slide, 2, np.random.default_rng(4))
    table = pa.table({"price": made[:, 0], "volume": made[:, 1]})
    window = CountWindow(size, slide=slide)
    query = Skyline(prefer={"price": "min", "volume": "max"}, window=window)
    answers = [answer for answer in watch(table, query) if answer.end >= size]
    figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained", sharey=True)
    for axis, answer in zip(axes, answers, strict=True):
        gone, live = made[: answer.start], made[answer.start : answer.end]
        axis.scatter(*gone.T, s=6, color="0.85")
        axis.scatter(*live.T, s=8, color="tab:blue", alpha=0.5)
        best = np.array([answer.table["price"], answer.table["volume"]])
        # The answer is sorted by price, and a higher price buys more volume: the line climbs.
        steps = np.hstack([best, [[1.0], [best[1, -1]]]])
        axis.step(*steps, where="post", color="tab:red", linewidth=1)
        axis.scatter(*best, s=16, color="tab:red")
        axis.set(title=f"rows {answer.start} to {answer.end}", xlabel="price")
    axes[0].set_ylabel("volume")
    figure.savefig(path, dpi=110)
    plt.close(figure)
