"""The parts of FSW's kernel that end a pane, let one expire, and take panes counted elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.arrays import Codes
from skyband.frequency.kernels import fsw
from skyband.frequency.kernels.fsw import HEAPED, LOST, NEVER, REMOVALS, SIZE, UPDATES, Sketch
from support.uncompiled import UNCOMPILED

pytestmark = UNCOMPILED

A, B, C = range(3)


def sketch(cells: int = 2, ratio: int = 3, errors: bool = False) -> Sketch:
    """Three monitored items with counts of 5, 0 and 2 in the open pane 7; windows of four panes."""
    query = sb.HeavyHitters(
        k=1, item="item", window=sb.CountWindow(12, slide=3), algorithm="fsw-r", capacity=4,
        cells=cells, ratio=ratio,
    )  # fmt: skip
    monitor = sb.Monitor(query)
    monitor.push(pa.table({"item": ["a", "b", "c"]}))
    synopsis: Any = monitor.session.synopsis
    if errors:
        synopsis.keep_errors()
    s: Sketch = synopsis.one(0)
    for each in (s.base, s.cur, s.err, s.ecur, s.item_hist, s.item_err, s.cell_hist, s.marks):
        each[:] = 0
    s.hist[:], s.held[:], s.seen[:] = 0, NEVER, NEVER
    s.control[SIZE], s.control[HEAPED] = 3, 1
    s.heap[:3] = [C, A, B]
    s.cur[:3] = [5, 0, 2]
    return s


def room(s: Sketch) -> Codes:
    """Room for the list of what a pane has counted."""
    return np.empty(max(len(s.item), len(s.hist)), np.int32)


def test_a_cell_keeps_the_greatest_of_its_fine_counters() -> None:
    s = sketch()
    s.hist[:] = [10, 20]
    s.fine[:] = [1, 5, 2, 0, 3, 9]
    fsw._close(s, 7, room(s))
    assert s.cell_hist[0, :, 7 % 4].tolist() == [5, 9]
    assert s.hist.tolist() == [15, 29]
    assert s.marks[7 % 4].tolist() == [1, 1]
    assert not s.fine.any()
    s.fine[:] = [0, 0, 0, 4, 0, 0]
    s.cell_hist[0, :, 0] = 0
    fsw._close(s, 8, room(s))
    assert s.cell_hist[0, :, 0].tolist() == [0, 4]
    assert s.marks[0].tolist() == [0, 1]
    assert s.hist.tolist() == [15, 33]
    assert s.held.tolist() == [8, NEVER, NEVER, 7]


def test_counts_of_a_pane_become_a_bucket() -> None:
    s = sketch(errors=True)
    s.base[:3], s.ecur[:3] = [1, 1, 1], [3, 0, 1]
    fsw._close(s, 7, room(s))
    assert s.item_hist[0, :3, 3].tolist() == [5, 0, 2]
    assert s.item_err[0, :3, 3].tolist() == [3, 0, 1]
    assert s.base[:3].tolist() == [6, 1, 3]
    assert s.seen[:3].tolist() == [7, NEVER, 7], "b did not occur"
    assert not s.cur.any()
    assert not s.ecur.any()


def test_what_a_list_from_elsewhere_lacks_raises_all_bounds() -> None:
    s = sketch()
    s.fine[:] = [1, 0, 0, 0, 0, 2]
    fsw._lift(s, 4, 7)
    assert s.fine.tolist() == [5, 4, 4, 4, 4, 6]
    # a and c are in the list; b may have occurred up to four times.
    assert s.cur[:3].tolist() == [5, 4, 2]
    assert s.err[:3].tolist() == s.ecur[:3].tolist() == [0, 4, 0]
    assert s.control[HEAPED] == 0
    s.seen[B], s.cur[B] = 7, 0
    fsw._lift(s, 4, 7)
    assert s.cur[B] == 0, "seen in this pane, at a weight of 0"


@pytest.mark.parametrize("errors", [False, True])
def test_a_pane_that_expires_leaves_all_sums(errors: bool) -> None:
    s = sketch(errors=errors)
    fsw._close(s, 6, room(s))
    s.cur[:3], s.fine[:] = [1, 2, 0], [0, 0, 0, 8, 0, 0]
    fsw._close(s, 7, room(s))
    s.err[:3] = [3, 0, 2]
    if errors:
        s.item_err[0, :3, 2] = [3, 0, 2]
    s.control[UPDATES] = 0
    fsw._drop_before(s, 7, True, room(s))
    assert s.held.tolist() == [NEVER, NEVER, NEVER, 7]
    assert s.base[:2].tolist() == [1, 2]
    assert s.err[:2].tolist() == [0, 0], "no error is left of the count, or of its pane"
    assert s.item_hist[0, :2].tolist() == [[0, 0, 0, 1], [0, 0, 0, 2]]
    assert s.hist.tolist() == [0, 8]
    assert s.control[UPDATES] == 2, "a and c had something in that pane"
    assert (s.control[SIZE], s.control[REMOVALS]) == (2, 1)
    assert sorted(s.heap[:2].tolist()) == [A, B]
    fsw._drop_before(s, 8, True, room(s))
    assert s.hist.tolist() == [0, 0]
    assert not s.marks.any()
    assert s.control[SIZE] == 0


def test_an_error_is_at_most_what_is_left_of_the_count() -> None:
    """Where errors are not kept by pane, those of the oldest panes go first."""
    s = sketch()
    s.cur[:3] = [5, 1, 2]
    fsw._close(s, 6, room(s))
    s.cur[:3] = [4, 1, 1]
    fsw._close(s, 7, room(s))
    s.err[:3] = [7, 0, 3]
    fsw._drop_before(s, 7, True, room(s))
    assert s.err[:3].tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("spoil", "proven"),
    [
        (lambda s: None, True),
        (lambda s: s.hist.__setitem__(1, 1), False),
        (lambda s: s.err.__setitem__(C, 1), False),
        (lambda s: s.err.__setitem__(3, 1), True),  # a free slot
        (lambda s: s.control.__setitem__(LOST, 6), True),
        (lambda s: s.control.__setitem__(LOST, 7), False),
    ],
)
def test_when_an_answer_is_proven_exact(spoil: Any, proven: bool) -> None:
    s = sketch()
    s.control[LOST] = NEVER
    spoil(s)
    assert fsw._proven(s, 7, s.hist.max()) is proven
