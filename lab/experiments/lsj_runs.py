"""The runs of the skyline join experiments: settings, and algorithms timed over 30 windows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lab.datasets.skyline import points, rooms, two_streams
from skyband.embedded.monitor import Monitor
from skyband.embedded.run import watch
from skyband.errors import EngineError
from skyband.query import Skyline, SkylineJoin
from skyband.window import CountWindow, TimeWindow

__all__ = [
    "ALL", "AUTO", "ISJ", "LSJ", "LSJ1", "NAIVE", "OURS", "WINDOWS", "Plan", "Setting",
    "draw_moving", "gain", "local_comparisons", "overlaps", "seconds",
]  # fmt: skip

WINDOWS = 30
ALL = 10**6
"""More layers than any window has."""
Plan = tuple[str, int | None]
NAIVE, ISJ, LSJ1, LSJ, OURS = (
    ("naive", None),
    ("isj", None),
    ("lsj", 1),
    ("lsj", ALL),
    ("gsj", None),
)
AUTO: Plan = ("lsj", None)


@dataclass(frozen=True)
class Setting:
    """Two streams and a window over them; columns of the two sides have different names."""

    streams: Mapping[str, pa.Table]
    on: str
    prefer: Mapping[str, str]
    size: int
    slide: int

    @staticmethod
    def drawn(size: int, slide: int, dimensions: int = 2, **how: Any) -> Setting:
        """Synthetic streams of 30 windows."""
        streams = two_streams(size + WINDOWS * slide, dimensions=dimensions, **how)
        names = [f"{letter}{i}" for letter in "ab" for i in range(dimensions)]
        return Setting(streams, "key", dict.fromkeys(names, "min"), size, slide)

    @staticmethod
    def sensors(size: int, slide: int, start: int = 0) -> Setting:
        """The building's rooms, sizes in minutes."""
        end = start + size + WINDOWS * slide
        streams = {}
        for side, table in rooms().items():
            minute = table["ts"].to_numpy()
            low, high = np.searchsorted(minute, (start, end))
            streams[side] = table.slice(int(low), int(high - low)).drop_columns(["room"])
        prefer = {"temperature_c": "max", "co2_ppm": "max", "humidity_pct": "max", "light": "max"}
        return Setting(streams, "zone", prefer, size, slide)

    def query(self, plan: Plan) -> SkylineJoin:
        left, right = self.streams
        return SkylineJoin(
            left=left,
            right=right,
            on=self.on,
            time="ts",
            prefer=self.prefer,
            window=TimeWindow(self.size, slide=self.slide),
            algorithm=plan[0],
            layers=plan[1],
        )

    def pushes(self) -> list[dict[str, pa.Table]]:
        """One push per slide; the first one holds a full window."""
        minutes = {side: table["ts"].to_numpy() for side, table in self.streams.items()}
        start = min(int(ts[0]) for ts in minutes.values()) // self.slide * self.slide
        edges = [start, *(start + self.size + i * self.slide for i in range(WINDOWS + 1))]
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


def seconds(setting: Setting, plans: Sequence[Plan], repeat: int = 3) -> dict[Plan, float]:
    """Each plan's least time over the full windows, run in turns; their answers must agree."""
    found: dict[Plan, float] = {}
    answers = []
    pushes = setting.pushes()
    turns = [plan for turn in range(repeat) for plan in plans if plan != NAIVE or not turn]
    for plan in turns:
        monitor = Monitor(setting.query(plan))
        monitor.push(pushes[0])
        rows = []
        clock = _Clock(monitor.session.synopsis)
        for push in pushes[1:]:
            rows += [answer.table.num_rows for answer in monitor.push(push)]
        found[plan] = min(found.get(plan, np.inf), clock.seconds)
        answers.append(rows)
    if any(each != answers[0] for each in answers):
        raise EngineError("two algorithms gave different answers; please report this as a bug")
    return found


class _Clock:
    """The time that a synopsis spends on panes and windows, without reading batches."""

    def __init__(self, synopsis: Any) -> None:
        self.seconds = 0.0
        self.fold = synopsis.fold
        synopsis.fold = self.timed

    def timed(self, *args: Any) -> Any:
        began = time.process_time()
        found = self.fold(*args)
        self.seconds += time.process_time() - began
        return found


def local_comparisons(setting: Setting, plan: Plan) -> int:
    """Comparisons made for local skylines."""
    monitor = Monitor(setting.query(plan))
    for push in setting.pushes():
        monitor.push(push)
    return int(monitor.stats()["local_comparisons"])


def gain(times: Mapping[Plan, float], a: Plan, b: Plan) -> float:
    """How much of the time of ``b`` plan ``a`` saves, in %."""
    return (1 - times[a] / times[b]) * 100


def overlaps(setting: Setting, windows: int) -> list[list[float]]:
    """For each layer above the first, the % of rows that it shares with the previous window."""
    monitor = Monitor(setting.query(LSJ))
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
