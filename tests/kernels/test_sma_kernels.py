"""The parts of SMA's kernel: the grid and its queues, the threshold, the band."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from skyband.data.order import sortable
from skyband.kernels.select import PaneRows
from skyband.topk.kernels import sma
from skyband.topk.kernels.sma import (
    BAND,
    BUILT,
    CELLS,
    COMPUTED,
    DOMINATORS,
    FLOATS,
    FLOOR_KEY,
    FLOOR_TIE,
    HEAD,
    KEY,
    LIVE,
    LOW,
    NEXT,
    PANE,
    RESCANS,
    SCANNED,
    SLOT,
    TIE,
    SmaState,
    cell_of,
    fold_monitored,
    new_monitored,
    rebuild,
)
from support.uncompiled import UNCOMPILED

pytestmark = UNCOMPILED

LOWEST, HIGHEST = -(2**63), 2**63 - 1
Row = tuple[int, int, int, int]
"""Key, tie, slot, pane."""
Found = tuple[int, ...]


def keys_of(scores: list[float] | list[int]) -> list[int]:
    return [int(key) for key in sortable(np.array(scores))]


def pushed(
    state: SmaState, k: int, rows: list[Row], windows: list[tuple[int, int]] | None = None
) -> tuple[SmaState, list[list[Found]]]:
    """Push rows, a run per pane, and read windows: the (key, tie, slot) that each one found."""
    panes = sorted({row[3] for row in rows})
    offsets = np.cumsum([0, *(sum(row[3] == pane for row in rows) for pane in panes)])
    key, tie, slot = (np.array([row[c] for row in rows], np.int64) for c in range(3))
    first, end = (np.array([w[c] for w in windows or []], np.int64) for c in (0, 1))
    runs = PaneRows(np.array(panes, np.int64), offsets, key, tie, slot)
    state, found, cuts = fold_monitored(state, k, runs, first, end)
    listed: list[Found] = [tuple(row) for row in found.tolist()]
    return state, [listed[a:b] for a, b in itertools.pairwise(cuts)]


def holding(keys: list[int], k: int = 2, floats: bool = False, room: int = 0) -> SmaState:
    """A state whose cells are laid out over rows with these keys."""
    state = new_monitored(k)
    state.meta[FLOATS] = floats
    state, _ = pushed(state, k, [(key, i, i, 0) for i, key in enumerate(keys)])
    return rebuild(state, room)


def place(state: SmaState, key: int) -> int:
    """The cell of a key, which is a number of numpy's in a kernel."""
    cell: int = cell_of(state, np.int64(key))  # type: ignore[arg-type]
    return cell


def queues(state: SmaState) -> dict[int, list[int]]:
    """The slots in each cell, in order of arrival."""
    found: dict[int, list[int]] = {}
    for cell in range(CELLS):
        at = int(state.cells[cell, 0])
        while at >= 0:
            found.setdefault(cell, []).append(int(state.live[at, SLOT]))
            last, at = at, int(state.live[at, NEXT])
            if at < 0:
                assert state.cells[cell, 1] == last
    return found


# The grid -----------------------------------------------------------------------------------------


def test_cells_divide_the_range_of_the_scores_evenly() -> None:
    state = holding(keys_of([100.0, -512.0, 512.0, 3.5]), floats=True)
    assert state.meta[LOW] == keys_of([-512.0])[0]
    for score, cell in (
        (-512.0, 0), (-511.5, 0), (-511.0, 1), (-1.0, 511), (0.0, 512), (0.5, 512), (511.0, 1023),
        (512.0, 1023), (513.0, 1023), (-513.0, 0), (1e308, 1023), (-1e308, 0),
        (np.inf, 1023), (-np.inf, 0),
    ):  # fmt: skip
        assert place(state, keys_of([score])[0]) == cell, score


def test_cells_of_integers_are_two_wide_at_least() -> None:
    state = holding([100, -512, 512, 3])
    assert state.meta[LOW] == -512
    for key in range(-512, 512, 37):
        assert place(state, key) == 2 * (key // 2) + 512
    assert [place(state, key) for key in (-600, 512, 9999)] == [0, 1023, 1023]


def test_the_widest_range_fits() -> None:
    state = holding(keys_of([-1.7e308, 1.7e308]), floats=True)
    assert place(state, keys_of([0.0])[0]) == 512
    state = holding([LOWEST, HIGHEST])
    assert [place(state, key) for key in (LOWEST, 0, HIGHEST)] == [0, 512, 1023]


@pytest.mark.parametrize("scores", [[7.0], [7.0, 7.0], [7.0, np.inf, -np.inf]])
def test_a_single_finite_score_is_in_the_first_cell(scores: list[float]) -> None:
    state = holding(keys_of(scores), floats=True)
    assert state.meta[LOW] == keys_of([7.0])[0]
    assert state.step[0] == 1.0
    assert queues(state)[0][0] == 0


def test_without_finite_scores_the_cells_begin_at_zero() -> None:
    state = holding(keys_of([np.inf, -np.inf]), floats=True)
    assert (state.meta[LOW], state.step[0]) == (0, 1.0)
    assert queues(state) == {CELLS - 1: [0], 0: [1]}
    assert (holding([]).meta[LOW], holding([]).step[0]) == (0, 1.0)


def test_a_layout_keeps_the_live_rows_in_order() -> None:
    state = holding([0, 1024, 512, 513, 0], room=100)
    assert queues(state) == {0: [0, 4], 512: [2, 3], 1023: [1]}
    assert (state.meta[HEAD], state.meta[LIVE], state.meta[BUILT], len(state.live)) == (
        0,
        5,
        0,
        100,
    )
    # The ring goes around: rows that were written at its end and at its beginning.
    ring = holding([0, 1024, 512, 513, 0])
    assert len(ring.live) == 64
    ring.live[:] = np.roll(ring.live, 62, axis=0)
    ring.meta[HEAD] = 62
    again = rebuild(ring, 64)
    assert queues(again) == {0: [0, 4], 512: [2, 3], 1023: [1]}
    assert again.meta[HEAD] == 0


def test_a_ring_grows_when_it_is_full() -> None:
    state, _ = pushed(new_monitored(1), 1, [(i, i, i, 0) for i in range(64)])
    assert len(state.live) == 64
    assert state.meta[BUILT] == 64
    state, _ = pushed(state, 1, [(i, i, i, 1) for i in range(64, 70)])
    assert len(state.live) == 140
    assert (state.meta[LIVE], state.meta[BUILT]) == (70, 6)
    assert sorted(slot for each in queues(state).values() for slot in each) == list(range(70))


def test_cells_are_laid_out_again_when_as_many_rows_came_as_are_live() -> None:
    """Windows of four panes of a row each. Three live rows and a new one make four."""
    state, built, heads = new_monitored(2), [], []
    for pane in range(12):
        window = (pane - 3, pane + 1)
        state, _ = pushed(state, 2, [(pane % 5, pane, pane, pane)], [window])
        built.append(int(state.meta[BUILT]))
        heads.append(int(state.meta[HEAD]))
        assert state.meta[LIVE] == min(pane + 1, 4)
    assert built == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2]
    assert heads == [0, 0, 0, 0, 1, 0, 1, 2, 3, 4, 0, 1]


def test_rows_leave_their_queues_when_they_expire() -> None:
    state = holding([0, 1024, 0, 0, 1024])
    state.live[:5, PANE] = [0, 0, 1, 2, 2]
    sma._expire(state, 1)
    assert queues(state) == {0: [2, 3], 1023: [4]}
    assert (state.meta[HEAD], state.meta[LIVE]) == (2, 3)
    sma._expire(state, 1)
    assert state.meta[LIVE] == 3
    sma._expire(state, 9)
    assert queues(state) == {}
    assert (state.meta[HEAD], state.meta[LIVE]) == (5, 0)


# The threshold ------------------------------------------------------------------------------------


def test_a_rescan_reads_cells_from_the_best_until_it_has_enough() -> None:
    # Cells from the best: {900}, {800, 801}, {5, 4}, {0}.
    state = holding([5, 900, 0, 800, 4, 801], k=2)
    state.meta[BAND] = 1
    state = sma._rescan(state, 2)
    assert state.band[: state.meta[BAND], KEY].tolist() == [900, 801]
    assert (state.meta[FLOOR_KEY], state.meta[FLOOR_TIE]) == (801, 5)
    assert (state.meta[RESCANS], state.meta[SCANNED], state.meta[COMPUTED]) == (1, 3, 6)
    state = sma._rescan(state, 3)
    assert state.band[: state.meta[BAND], KEY].tolist() == [900, 801, 800]
    assert (state.meta[FLOOR_KEY], state.meta[FLOOR_TIE]) == (800, 3)
    assert (state.meta[RESCANS], state.meta[SCANNED]) == (2, 6), "three rows are enough"
    state = sma._rescan(state, 1)
    assert (state.meta[BAND], state.meta[SCANNED]) == (1, 7)
    assert (state.meta[FLOOR_KEY], state.meta[FLOOR_TIE]) == (900, 1)


def test_a_rescan_of_fewer_than_k_rows_sets_no_threshold() -> None:
    state = sma._rescan(holding([5, 900, 0], k=4), 4)
    assert state.band[: state.meta[BAND], KEY].tolist() == [900, 5, 0]
    assert (state.meta[FLOOR_KEY], state.meta[FLOOR_TIE]) == (LOWEST, LOWEST)
    assert (state.meta[SCANNED], state.meta[COMPUTED]) == (3, 3)
    state = sma._rescan(holding([5, 900, 0], k=3), 3)
    assert (state.meta[FLOOR_KEY], state.meta[FLOOR_TIE]) == (0, 2)


def test_equal_keys_are_ranked_by_tie_and_then_stay_in_order() -> None:
    state = holding([7, 7, 7, 7])
    state.live[:4, TIE] = [1, 2, 2, 3]
    state = sma._rescan(state, 3)
    assert state.band[:3, SLOT].tolist() == [3, 1, 2]
    assert state.meta[FLOOR_TIE] == 2
    # The greatest numbers of all, more of them than are wanted.
    state = holding([LOWEST, HIGHEST - 1, HIGHEST])
    assert sma._rescan(state, 1).band[:1, KEY].tolist() == [HIGHEST]
    state = holding([7, 7])
    state.live[:2, TIE] = [HIGHEST - 1, HIGHEST]
    assert sma._rescan(state, 1).band[:1, TIE].tolist() == [HIGHEST]


@pytest.mark.parametrize(
    ("band", "live", "computed", "floor", "stale"),
    [
        (3, 10, 8, (5, 5), False),
        (3, 11, 8, (5, 5), True),  # the window has grown by more than a quarter
        (2, 10, 8, (5, 5), True),  # the band has run dry
        (2, 2, 8, (5, 5), False),  # all live rows are in it
        (2, 2, 2, (LOWEST, LOWEST), False),  # too few rows for a threshold
        (3, 3, 3, (LOWEST, LOWEST), True),  # just enough
        (3, 3, 3, (LOWEST, 5), False),
        (3, 3, 3, (5, LOWEST), False),
        (0, 0, 0, (LOWEST, LOWEST), False),
    ],
)
def test_when_the_threshold_is_stale(
    band: int, live: int, computed: int, floor: tuple[int, int], stale: bool
) -> None:
    state = new_monitored(3)
    state.meta[BAND], state.meta[LIVE], state.meta[COMPUTED] = band, live, computed
    state.meta[FLOOR_KEY], state.meta[FLOOR_TIE] = floor
    assert bool(sma._stale(state, 3)) is stale


def test_rows_at_or_above_the_threshold_enter_the_band() -> None:
    state, answers = pushed(new_monitored(2), 2, [(9, 0, 0, 0), (8, 1, 1, 0)], [(0, 1)])
    assert answers == [[(9, 0, 0), (8, 1, 1)]]
    for key, tie, enters in ((8, 1, 1), (8, 0, 0), (7, 9, 0), (9, 0, 1), (8, 2, 1)):
        copies: Any = [each.copy() for each in state]
        copy = SmaState(*copies)
        more, _ = pushed(copy, 9, [(key, tie, 7, 1)])
        assert more.meta[BAND] == 2 + enters, (key, tie)


def test_before_the_first_reading_no_row_enters_the_band() -> None:
    state, _ = pushed(new_monitored(2), 2, [(HIGHEST - 1, 0, 0, 0), (8, 1, 1, 0)])
    assert state.meta[BAND] == 0


# The band -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_band_holds_what_fewer_than_k_better_rows_outlive(k: int) -> None:
    rng = random.Random(k)
    for _ in range(12):
        state, rows, pane = new_monitored(k), list[Row](), 0
        for slot in range(14):
            pane += rng.randrange(2)
            row = (rng.randrange(5), pane, slot, pane)
            state = sma._enter(state, k, *row)
            rows.append(row)
            ranked = sorted(rows, key=lambda r: (-r[0], -r[1], r[2]))
            counts = {
                r[2]: sum(other[3] >= r[3] for other in ranked[:at]) for at, r in enumerate(ranked)
            }
            wanted = [r for r in ranked if counts[r[2]] < k]
            band = state.band[: state.meta[BAND]]
            assert [tuple(r[:4]) for r in band.tolist()] == wanted
            assert band[:, DOMINATORS].tolist() == [counts[r[2]] for r in wanted]
        first = pane - 1
        sma._expire(state, first)
        assert state.band[: state.meta[BAND], SLOT].tolist() == [
            r[2] for r in wanted if r[3] >= first
        ]


def test_a_band_grows_beyond_its_first_room() -> None:
    state: Any = new_monitored(1)
    assert len(state.band) == 65
    for pane in range(70):
        state = sma._enter(state, 1, -pane, pane, pane, pane)
    assert state.band[: state.meta[BAND], KEY].tolist() == [-pane for pane in range(70)]
