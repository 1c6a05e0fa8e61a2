"""The plot of the paper's radar readings (Table 1) that the docs show."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

__all__ = ["draw", "rank_chances"]

SPEEDS = (8, 6, 5, 2)
CHANCES = (0.4, 0.5, 0.8, 0.4)
THRESHOLD = 0.3
K = 2


def rank_chances() -> list[list[float]]:
    """Each reading's probability of being the fastest and the second, over all possible worlds.

    >>> [[round(chance, 3) for chance in ranks] for ranks in rank_chances()]
    [[0.4, 0.0], [0.3, 0.2], [0.24, 0.4], [0.024, 0.136]]
    """
    found = [[0.0] * K for _ in SPEEDS]
    for world in itertools.product((True, False), repeat=len(SPEEDS)):
        chance = math.prod(p if there else 1 - p for p, there in zip(CHANCES, world, strict=True))
        for rank, reading in enumerate(list(itertools.compress(range(len(SPEEDS)), world))[:K]):
            found[reading][rank] += chance
    return found


def draw(path: Path) -> None:
    """Draw each reading's probability of being among the fastest two."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.7, 3.3), layout="constrained")
    places = range(len(SPEEDS))
    first, second = zip(*rank_chances(), strict=True)
    axes.bar(places, CHANCES, 0.62, color="#e8e8e8", label="is there at all")
    axes.bar(places, first, 0.62, color="#2a6f97", label="is the fastest")
    axes.bar(places, second, 0.62, bottom=first, color="#89c2d9", label="is second")
    for place, one, two in zip(places, first, second, strict=True):
        axes.text(place, one + two + 0.015, f"{one + two:.2f}", ha="center")
    axes.axhline(THRESHOLD, color="#bc3908", linestyle=":", linewidth=1)
    axes.text(3.45, THRESHOLD + 0.01, f"threshold {THRESHOLD}", color="#bc3908", fontsize=8,
              ha="right")  # fmt: skip
    labels = [f"speed {speed}\n(p = {p})" for speed, p in zip(SPEEDS, CHANCES, strict=True)]
    axes.set_xticks(places, labels)
    axes.set(ylim=(0, 0.95), ylabel="probability")
    axes.set_title(f"Among the fastest two (k = {K}), from the fastest reading down")
    axes.legend(ncols=3, loc="upper center", fontsize="small", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)
    plt.close(figure)
