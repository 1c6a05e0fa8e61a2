"""Open panes: which summaries are combined."""

from __future__ import annotations

import numpy as np

from skyband.contract.runs import Part, Runs, offsets_of
from skyband.engine.open_panes import OpenPanes


def summaries(*panes: int, rows: int = 3) -> Runs:
    offsets = offsets_of(np.full(len(panes), rows))
    part = Part(offsets, {"x": np.repeat(panes, rows)})
    return Runs(np.array(panes), np.zeros(len(panes), np.int32), {"rows": part})


class Combining:
    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def __call__(self, runs: Runs) -> Runs:
        self.seen.append(runs.stamp.tolist())
        return runs.united()


def held(open_panes: OpenPanes) -> list[tuple[int, list[int]]]:
    whole = open_panes.whole()
    assert whole is not None
    part = whole.parts["rows"]
    cuts = zip(part.offsets[:-1], part.offsets[1:], strict=True)
    return [
        (int(stamp), part["x"][low:high].tolist())
        for stamp, (low, high) in zip(whole.stamp, cuts, strict=True)
    ]


def test_only_the_pane_that_chunks_share_is_combined() -> None:
    combining = Combining()
    panes = OpenPanes(combining)
    panes.take(summaries(0, 1, 2, 3))
    panes.take(summaries(3, 4, 5))
    assert held(panes) == [(p, [p] * (6 if p == 3 else 3)) for p in range(6)]
    assert combining.seen == [[3, 3]]


def test_all_are_combined_if_most_are_shared() -> None:
    combining = Combining()
    panes = OpenPanes(combining)
    panes.take(summaries(0, 1, 2))
    panes.take(summaries(0, 2))
    assert held(panes) == [(0, [0] * 6), (1, [1] * 3), (2, [2] * 6)]
    assert combining.seen == [[0, 0, 1, 2, 2]]


def test_panes_between_shared_ones_are_not_combined() -> None:
    combining = Combining()
    panes = OpenPanes(combining)
    for first in (0, 6, 12):
        panes.take(summaries(*range(first, first + 7)))
    panes.take(summaries(18, rows=1))
    wanted = [(p, [p] * {6: 6, 12: 6, 18: 4}.get(p, 3)) for p in range(19)]
    assert held(panes) == wanted
    assert combining.seen == [[6, 6, 12, 12, 18, 18]]


def test_many_shared_panes_are_combined_with_what_is_between() -> None:
    combining = Combining()
    panes = OpenPanes(combining)
    panes.take(summaries(*range(1_000)))
    panes.take(summaries(*range(300, 700, 5), rows=1))
    shared = range(300, 700, 5)
    assert held(panes) == [(p, [p] * (4 if p in shared else 3)) for p in range(1_000)]
    assert [seen[0] for seen in combining.seen] == [300]
    assert [seen[-1] for seen in combining.seen] == [695]
