"""A picture of a skyline that moves with its window."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from lab.datasets.skyline import points
from skyband.embedded.run import watch
from skyband.query import Skyline
from skyband.window import CountWindow

__all__ = ["draw_moving"]


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
