"""The kernels of FusedTopK, against definitions in plain Python."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.arrays import Codes
from skyband.fused.kernels.guard import guard_keys, live_slots, remember
from skyband.fused.kernels.live_reports import Log
from skyband.fused.kernels.sla import first_of_lists, move_in_lists
from skyband.fused.kernels.sweep import (
    best_values,
    compact,
    dominated,
    instances,
    live_streams,
)

pytestmark = pytest.mark.nojit

NONE = float("nan")


# The guard ----------------------------------------------------------------------------------------


def test_keys_of_objects_and_streams_differ() -> None:
    hashes = np.repeat(np.arange(40, dtype=np.uint64), 3)
    streams = np.tile(np.arange(3, dtype=np.int32), 40)
    keys = guard_keys(hashes, streams)
    assert len(set(keys.tolist())) == 120
    assert (keys != 0).all()
    assert guard_keys(hashes[::-1].copy(), streams[::-1].copy()).tolist() == keys[::-1].tolist()


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 7, 8, 15, 16]), st.integers(0, 2)), max_size=14),
    st.integers(1, 3),
)
def test_reports_beyond_the_most(reports: list[tuple[int, int]], most: int) -> None:
    """Keys that meet in the last of eight slots, and panes that only grow."""
    panes = list(itertools.accumulate((ahead for _, ahead in reports), initial=5))[1:]
    keys = np.array([key for key, _ in reports], np.uint64)
    pane = np.array(panes, np.int64)
    table = (np.zeros(8, np.uint64), np.full((8, most), 99))
    bad = np.zeros(len(keys), np.bool_)
    half = len(keys) // 2
    new = remember(keys, pane, pane - 2, table, bad, 0, half)
    new += remember(keys, pane, pane - 2, table, bad, half, len(keys))
    assert new == len(set(keys.tolist()))
    taken: list[tuple[int, int]] = []
    for key, at, is_bad in zip(keys.tolist(), panes, bad.tolist(), strict=True):
        live = sum(other == key and then >= at - 2 for other, then in taken)
        assert is_bad == (live >= most)
        if not is_bad:
            taken.append((key, at))
    oldest = (panes[-1] if panes else 5) - 1
    wider = (np.zeros(16, np.uint64), np.full((16, most), 99))
    count = live_slots(table, oldest, wider)
    live_keys = {key for key, at in taken if at >= oldest}
    assert count == len(live_keys)
    assert {int(key) for key in wider[0] if key} == live_keys
    for slot in np.flatnonzero(wider[0]):
        newest = sorted(at for key, at in taken if key == wider[0][slot])[-most:]
        column = wider[1][slot].tolist()
        assert column == sorted(column)
        assert [at for at in column if at > 0] == newest


# Lists of the threshold algorithm -----------------------------------------------------------------

VALUE = st.sampled_from([NONE, 0.0, 0.25, 0.5])


@given(st.lists(st.tuples(st.integers(0, 4), VALUE, VALUE), max_size=25), st.integers(0, 4))
def test_lists_stay_sorted(moves: list[tuple[int, float, float]], depth: int) -> None:
    known = np.full((5, 2), NONE)
    values, codes = np.full((2, 6), -1.0), np.full((2, 6), -1, np.int32)
    sizes, work = np.zeros(2, np.int64), np.zeros(2, np.int64)
    model = [[NONE, NONE] for _ in range(5)]
    wanted_work = [0, 0]
    for code, *new in moves:
        touched, rows = np.array([code], np.int32), np.array([new])
        move_in_lists(touched, rows, known, values, codes, sizes, work)
        for s in range(2):
            was, now = model[code][s], new[s]
            if was != now and not (math.isnan(was) and math.isnan(now)):
                wanted_work[0] += not math.isnan(now)
                wanted_work[1] += not math.isnan(was)
        model[code] = new
        for s in range(2):
            there = [(-v[s], c) for c, v in enumerate(model) if not math.isnan(v[s])]
            n = int(sizes[s])
            found = zip((-values[s, :n]).tolist(), codes[s, :n].tolist(), strict=True)
            assert list(found) == sorted(there)
        assert np.array_equal(known, np.array(model), equal_nan=True)
    assert work.tolist() == wanted_work
    mark = np.zeros(5, np.int64)
    first, read = first_of_lists(depth, codes, sizes, mark, 7)
    heads = [codes[s, : min(depth, sizes[s])].tolist() for s in range(2)]
    assert read == sum(map(len, heads))
    assert first.tolist() == list(dict.fromkeys(heads[0] + heads[1]))
    assert {code for code in range(5) if mark[code] == 7} == set(first.tolist())


# The sweep ----------------------------------------------------------------------------------------

REPORTS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 1), st.integers(0, 3)),
    max_size=10,
)
"""How many panes after the report before, object, stream, value."""
LOW, HIGH = np.array([0.5, 0.25]), np.array([4.0, 8.0])


def log_of(reports: list[tuple[int, int, int, int]], head: int) -> tuple[Log, int, int, Codes]:
    """A log that begins at ``head``; each report is chained to the next of its object."""
    size = head + len(reports)
    code, stream = np.full(size, -5, np.int32), np.full(size, -5, np.int32)
    value, pane = np.full(size, 99.0), np.full(size, -99)
    chain = np.full(size, -1, np.int32)
    links = np.full((4, 2), -1, np.int32)
    panes = itertools.accumulate((ahead for ahead, _, _, _ in reports), initial=3)
    next(panes)
    for at, ((_, object_, s, v), p) in enumerate(zip(reports, panes, strict=True), head):
        code[at], stream[at], value[at], pane[at] = object_, s, float(v), p
        if links[object_, 0] < 0:
            links[object_, 0] = at
        else:
            chain[links[object_, 1]] = at
        links[object_, 1] = at
    return (code, stream, value, pane, chain), head, size, links


@given(REPORTS, st.sampled_from([0, 2]))
def test_instances_of_a_log(reports: list[tuple[int, int, int, int]], begin: int) -> None:
    log, head, size, links = log_of(reports, begin)
    code, stream, value, pane, chain = log
    mark = np.zeros(4, np.int64)
    who, owner, stamps, offsets, values, seen = instances(log, head, size, mark, 0, LOW)
    there = range(head, size)
    wanted = list(dict.fromkeys((int(pane[r]), int(code[r])) for r in there))
    panes = sorted({p for p, _ in wanted})
    assert stamps.tolist() == panes
    assert offsets.tolist() == [*(min(i for i, w in enumerate(wanted) if w[0] == p) for p in panes),
                                len(wanted)]  # fmt: skip
    assert who.tolist() == [object_ for _, object_ in wanted]
    for r in there:
        assert wanted[owner[r - head]] == (pane[r], code[r])
    for i, (p, object_) in enumerate(wanted):
        for s in range(2):
            mine = [
                value[r] for r in there if (code[r], stream[r]) == (object_, s) and pane[r] >= p
            ]
            assert seen[i, s] == len(mine)
            assert values[i, s] == (sum(mine) if mine else LOW[s])
    masks = live_streams(who, links, chain, stream)
    for i, (_, object_) in enumerate(wanted):
        assert masks[i] == sum({1 << int(stream[r]) for r in there if code[r] == object_})


def test_what_instances_can_still_come_to() -> None:
    values = np.array([[3.0, 0.25], [1.5, 2.0], [0.5, 2.0]])
    seen = np.array([[1, 0], [2, 1], [0, 1]], np.int32)
    share = np.array([[0.5, 0.25], [0.125, 0.75], [0.5, 0.5]])
    for told in (seen, np.array([[1, 2], [2, 1], [2, 3]], np.int32)):
        for most, likely in itertools.product((1, 2, 3), (False, True)):
            given = share if likely else np.zeros((0, 2))
            got = best_values(values, seen, told, most, LOW, HIGH, given)
            for i, s in itertools.product(range(3), range(2)):
                more = max(most - told[i, s], 0) * HIGH[s]
                unseen = LOW[s] + share[i, s] * (more - LOW[s]) if likely else more
                want = values[i, s] + more if seen[i, s] else unseen if more else LOW[s]
                assert got[i, s] == want


PANES = st.lists(
    st.dictionaries(st.integers(0, 3), st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=4),
    max_size=4,
)
"""Of each pane the objects, with their current and their best score."""


@given(PANES, st.integers(1, 3))
def test_instances_that_can_never_be_answered(
    panes: list[dict[int, tuple[int, int]]], k: int
) -> None:
    who = np.array([object_ for pane in panes for object_ in pane], np.int32)
    current = np.array([float(c) for pane in panes for c, _ in pane.values()])
    best = np.array([float(b) for pane in panes for _, b in pane.values()])
    offsets = np.cumsum([0, *map(len, panes)])
    # A current score grows with older panes: an object is never on the board with less.
    for i in range(len(who) - 1, -1, -1):
        newer = [current[j] for j in range(i + 1, len(who)) if who[j] == who[i]]
        current[i] = max([current[i], *newer])
    key = np.array([4, 2, 3, 1], np.int64)
    lost, work = dominated(who, offsets, current, best, key, k)
    for pane, i in ((p, i) for p in range(len(panes)) for i in range(offsets[p], offsets[p + 1])):
        scores: dict[int, float] = {}
        for j in range(offsets[pane], len(who)):
            scores[int(who[j])] = max(scores.get(int(who[j]), -1.0), float(current[j]))
        before = sum((-score, key[o]) < (-best[i], key[who[i]]) for o, score in scores.items())
        assert lost[i] == (before >= k)
    assert work == comparisons(who.tolist(), offsets.tolist(), current.tolist(), key.tolist(), k)


def comparisons(
    who: list[int], offsets: list[int], current: list[float], key: list[int], k: int
) -> int:
    """One per instance, and one per place that it moves forward on the board."""
    board: list[tuple[float, int]] = []
    work = 0
    for first, last in reversed(list(itertools.pairwise(offsets))):
        for i in range(first, last):
            entry = (-current[i], key[who[i]])
            old = [at for at, (_, name) in enumerate(board) if name == entry[1]]
            work += 1
            if not old and len(board) == k and board[-1] < entry:
                continue
            at = old[0] if old else min(len(board), k - 1)
            board[at : at + 1] = []
            board.append(entry)
            board.sort()
            work += at - board.index(entry)
    return work


@given(REPORTS, st.integers(0, 2**10 - 1), st.sampled_from([0, 2]))
def test_reports_of_lost_instances_are_dropped(
    reports: list[tuple[int, int, int, int]], bits: int, begin: int
) -> None:
    log, head, size, links = log_of(reports, begin)
    code, stream, value, pane, chain = log
    mark = np.zeros(4, np.int64)
    who, owner, *_ = instances(log, head, size, mark, 0, LOW)
    lost = np.array([bits >> i & 1 for i in range(len(who))], np.bool_)
    before = [
        (int(code[r]), int(stream[r]), float(value[r]), int(pane[r])) for r in range(head, size)
    ]
    # Only the oldest instances of an object go.
    goes = [all(lost[j] for j in range(i + 1) if who[j] == who[i]) for i in range(len(who))]
    kept, dead, some = compact(log, head, size, lost.copy(), owner, links, who)
    wanted = [report for n, report in enumerate(before) if not goes[owner[n]]]
    after = [(int(code[r]), int(stream[r]), float(value[r]), int(pane[r])) for r in range(kept)]
    assert after == wanted
    hit = {report[0] for n, report in enumerate(before) if goes[owner[n]]}
    left = {report[0] for report in wanted}
    assert sorted(dead.tolist()) == sorted(hit - left)
    assert sorted(some.tolist()) == sorted(hit & left)
    for object_ in range(4):
        mine = [r for r in range(kept) if code[r] == object_]
        assert links[object_].tolist() == ([mine[0], mine[-1]] if mine else [-1, -1])
        assert [int(chain[r]) for r in mine] == [*mine[1:], -1][: len(mine)]
