"""The runs of the skyline join experiments: settings, and algorithms timed over 30 windows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lab.datasets.skyline import rooms, two_streams
from lab.experiments.lsj_paper import OneCornerJoin, PaperJoin
from lab.experiments.lsj_stepwise import StepwiseJoin
from lab.experiments.lsj_witness import WitnessIsj
from lab.experiments.seeds import SEEDS, Sample
from skyband import registry
from skyband.embedded.monitor import Monitor
from skyband.errors import EngineError
from skyband.query import SkylineJoin
from skyband.window import TimeWindow

__all__ = [
    "AUTO", "CORNER_ISJ", "CORNER_LSJ", "CORNER_LSJ1", "ISJ", "LSJ", "LSJ1", "NAIVE", "OURS",
    "PAPER_ISJ", "PAPER_LSJ", "PAPER_LSJ1",
    "STEP_ISJ", "WINDOWS", "WITNESS", "Plan", "Setting", "Times", "layers_of",
    "local_comparisons", "lsj", "over_seeds", "overlaps", "seeded", "settled_share", "timed",
]  # fmt: skip

WINDOWS = 30


class Plan(NamedTuple):
    """An algorithm, the layers that it shares, and in which form; "" is ours."""

    algorithm: str
    layers: int | None = None
    form: str = ""


FORMS: dict[str, type] = {
    "paper": PaperJoin,
    "corner": OneCornerJoin,
    "step": StepwiseJoin,
    "witness": WitnessIsj,
}


ALL = 10**6
"""More layers than any window has."""
NAIVE, ISJ, OURS = Plan("naive"), Plan("isj"), Plan("gsj")
LSJ1, LSJ, AUTO = Plan("lsj", 1), Plan("lsj", ALL), Plan("lsj")
PAPER_ISJ, PAPER_LSJ1, PAPER_LSJ = (
    Plan("isj", None, "paper"), Plan("lsj", 1, "paper"), Plan("lsj", ALL, "paper"),
)  # fmt: skip
CORNER_ISJ, CORNER_LSJ1, CORNER_LSJ = (
    Plan("isj", None, "corner"), Plan("lsj", 1, "corner"), Plan("lsj", ALL, "corner"),
)  # fmt: skip
STEP_ISJ, WITNESS = Plan("isj", None, "step"), Plan("isj", None, "witness")


def lsj(layers: int) -> Plan:
    """The paper's LSJ that shares so many layers."""
    return Plan("lsj", layers, "paper")


@contextmanager
def _standing_in(plan: Plan) -> Iterator[None]:
    """Register another form of an algorithm under its name for a while."""
    before = registry.registered("SkylineJoin", plan.algorithm)
    if plan.form:
        form = FORMS[plan.form]
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
    """CPU seconds of each plan over the full windows of a setting, with each seed."""

    fold: dict[Plan, Sample] = field(default_factory=dict)
    """From sealed panes to answers."""
    own: dict[Plan, Sample] = field(default_factory=dict)
    """Without what all algorithms do alike: storing the rows and writing the answer's columns."""
    local: dict[Plan, Sample] = field(default_factory=dict)
    """For local skylines, which are all that sharing can save; of the stepwise forms only."""
    windows: int = 1
    """The windows over which these times were taken."""

    def millis(self, plan: Plan, whole: bool = False) -> Sample:
        """Milliseconds per window: its own, or from panes to answers."""
        return (self.fold if whole else self.own)[plan] * (1000 / self.windows)

    def ratio(self, a: Plan, b: Plan, whole: bool = False) -> Sample:
        """The time of one plan as a share of the other's; their own, or from panes to answers."""
        times = self.fold if whole else self.own
        return times[a] / times[b]

    def gain(self, a: Plan, b: Plan, whole: bool = False) -> Sample:
        """How much of the time of ``b`` plan ``a`` saves, in %."""
        return (Sample.of(1) - self.ratio(a, b, whole)) * 100

    def local_share(self, plan: Plan) -> Sample:
        """The share of local skylines in a plan's own time, in %; of ours as of its steps."""
        plan = STEP_ISJ if plan == ISJ else plan
        return self.local[plan] / self.own[plan] * 100

    @staticmethod
    def of_seeds(each: Sequence[Times]) -> Times:
        """The times of one setting with several seeds."""
        found = Times(windows=each[0].windows)
        for name in ("fold", "own", "local"):
            for plan in each[0].own:
                values = tuple(getattr(times, name)[plan].mean for times in each)
                getattr(found, name)[plan] = Sample(values)
        return found


MOST, ENOUGH = 5, 0.2
"""A setting is run up to five times, by each plan until it has run for so many CPU seconds."""


def over_seeds(
    plans: Sequence[Plan], size: int, slide: int, dimensions: int, windows: int, **how: Any
) -> Times:
    """The times of plans on one stream of each seed, which is run once."""
    settings = seeded(size, slide, dimensions, windows, **how)
    return Times.of_seeds([timed(each, plans, 1) for each in settings])


def seeded(*sizes: int, **how: Any) -> Iterator[Setting]:
    """One setting with each seed."""
    return (Setting.drawn(*sizes, seed=seed, **how) for seed in range(1, SEEDS + 1))


def timed(setting: Setting, plans: Sequence[Plan], most: int = MOST) -> Times:
    """The times of plans; their answers must agree.

    The plans take turns with every push, so that a disturbance hits all of them. A window's time is
    the median of its times in all repetitions.
    """
    pushes = setting.pushes()
    taken: dict[Plan, list[Any]] = {plan: [] for plan in plans}
    chosen = list(plans)
    for _ in range(most):
        _one_turn(setting, pushes, chosen, taken)
        chosen = [p for p in chosen if np.array(taken[p])[..., 0].sum() < ENOUGH]
    found = Times(windows=setting.windows)
    for plan, each in taken.items():
        found.fold[plan], found.own[plan], found.local[plan] = map(
            Sample.of, np.median(np.array(each), axis=0).sum(axis=0).tolist()
        )
    return found


def _one_turn(
    setting: Setting, pushes: Sequence[dict[str, pa.Table]], plans: Sequence[Plan],
    taken: dict[Plan, list[Any]],
) -> None:  # fmt: skip
    monitors = {plan: setting.monitor(plan) for plan in plans}
    for monitor in monitors.values():
        monitor.push(pushes[0])
    clocks = {plan: _Clocks(monitor.session.synopsis) for plan, monitor in monitors.items()}
    windows: dict[Plan, list[list[float]]] = {plan: [] for plan in plans}
    for push in pushes[1:]:
        answers = []
        for plan, monitor in monitors.items():
            answers.append([answer.table.num_rows for answer in monitor.push(push)])
            spent = clocks[plan].taken()
            own = spent["fold"] - spent["side_rows"] - spent["append"] - spent["answer"]
            windows[plan].append([spent["fold"], own, spent["local"]])
        if any(each != answers[0] for each in answers):
            raise EngineError("two algorithms gave different answers; please report this as a bug")
    for plan, each in windows.items():
        taken[plan].append(each)


class _Clocks:
    """The CPU time that a synopsis spends in some of its methods."""

    def __init__(self, synopsis: Any) -> None:
        self.spent = dict.fromkeys(("fold", "side_rows", "append", "answer", "local"), 0.0)
        for name in ("fold", "side_rows", "answer", "local"):
            if hasattr(synopsis, name):
                setattr(synopsis, name, self._timing(name, getattr(synopsis, name)))
        for side in getattr(synopsis, "live", ()):
            side.append = self._timing("append", side.append)

    def taken(self) -> dict[str, float]:
        """The times since the last call."""
        found = dict(self.spent)
        self.spent.update(dict.fromkeys(self.spent, 0.0))
        return found

    def _timing(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            began = time.process_time()
            found = method(*args)
            self.spent[name] += time.process_time() - began
            return found

        return timed


def settled_share(setting: Setting) -> float:
    """Of the rows of a window, the % that shared pruning settles before the first layer."""
    monitor = setting.monitor(WITNESS)
    shares = []
    for push in setting.pushes():
        monitor.push(push)
        synopsis: Any = monitor.session.synopsis
        shares.append(100 * synopsis.settled / sum(map(len, synopsis.live)))
    return float(np.mean(shares[1:]))


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
    monitor = setting.monitor(PAPER_LSJ)
    found, before = [], None
    for push in setting.pushes()[: windows + 1]:
        monitor.push(push)
        synopsis: Any = monitor.session.synopsis
        last = 2 + synopsis.fabric.entries // 2
        layers = [[synopsis.rows_of(n, at)[0] for at in (0, 1)] for n in range(2, last)]
        if before is not None:
            found.append([_common(*pair) for pair in zip(before, layers, strict=False)])
        before = layers
    return found


def _common(before: list[Any], now: list[Any]) -> float:
    """The mean over both sides."""
    both = [np.isin(b, a).mean() for a, b in zip(before, now, strict=True) if len(b)]
    return 100 * float(np.mean(both))
