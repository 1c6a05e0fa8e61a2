"""What the sketches of HeavyHitters list and count, on streams that can be followed by hand."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.frequency.kernels.item_heap import PaneItems, table_size
from skyband.frequency.kernels.spacesaving import (
    COUNTS,
    HITS,
    INSERTS,
    REMOVALS,
    SIZE,
    list_panes,
)
from skyband.kernels.borrow import frozen
from skyband.kernels.hashing import mix

pytestmark = pytest.mark.nojit

SKETCHES = ("ss", "fss", "fsp", "fsw", "fsw-r")


def watching(algorithm: str, size: int, slide: int, **more: Any) -> sb.Monitor:
    window = sb.CountWindow(size, slide=slide)
    asked: dict[str, Any] = {
        "k": 2,
        "item": "item",
        "window": window,
        "algorithm": algorithm,
    } | more
    return sb.Monitor(sb.HeavyHitters(**asked))


# Lists of panes -----------------------------------------------------------------------------------


def listed(panes: list[str], capacity: int) -> tuple[Any, ...]:
    """The (item, row, count, error) of each pane's list, μ, whether it lacks items, operations."""
    text = "".join(panes)
    hash_of = {item: int(mix(np.uint64(ord(item)))) for item in set(text)}
    hashes = np.array([hash_of[item] for item in text], np.uint64)
    none = np.zeros(0, np.int64)
    pushed = PaneItems(
        np.arange(len(panes)), hashes, none, np.cumsum([0, *map(len, panes)]),
        none.astype(np.uint64), none, none,
        np.zeros(len(panes) + 1, np.int64), np.zeros(len(panes), np.int64),
    )  # fmt: skip
    words, shift = table_size(capacity)
    total = np.zeros(COUNTS, np.int64)
    found, row, value, absent, lacks, ends = list_panes(
        PaneItems(*map(frozen, pushed)), capacity, 1, words, shift, total
    )
    item_of = {hash_: item for item, hash_ in hash_of.items()}
    lists = [
        sorted((item_of[int(found[i])], int(row[i]), *value[i].tolist()) for i in range(a, b))
        for a, b in itertools.pairwise(ends)
    ]
    return lists, absent.tolist(), lacks.tolist(), total.tolist()


def test_an_item_that_cannot_reach_the_least_count_stays_out() -> None:
    """Space-Saving would evict an item of count 2 for ``c``; the filter only notes that it came."""
    lists, absent, lacks, total = listed(["aabbc", "cab", "d"], 2)
    assert lists[0] == [("a", 0, 2, 0), ("b", 2, 2, 0)]
    # In a new pane nothing of the last one is left: c and a are listed, b may reach their count.
    assert lists[1] in (
        [("b", 7, 1, 0), ("c", 5, 1, 0)],
        [("a", 6, 1, 0), ("b", 7, 1, 0)],
    )
    assert lists[2] == [("d", 8, 1, 0)]
    assert absent == [1, 1, 0]
    assert lacks == [True, True, False]
    assert total[SIZE] == 2 + 2 + 1
    assert (total[INSERTS], total[REMOVALS], total[HITS]) == (2 + 3 + 1, 1, 2)


def test_a_newcomer_that_reaches_the_least_count_takes_its_place() -> None:
    # c comes twice: its bound is 1, then 2, which equals the least count.
    lists, absent, lacks, total = listed(["aabbbcc"], 2)
    assert lists == [[("b", 2, 3, 0), ("c", 6, 2, 1)]]
    assert (absent, lacks) == ([2], [True])
    assert (total[INSERTS], total[REMOVALS], total[HITS]) == (3, 1, 3)


def test_items_that_were_counted_before_are_not_raised() -> None:
    """Any other item may have occurred twice, so that a newcomer begins with that bound."""
    keys = [mix(np.uint64(number)) for number in (1, 2, 3)]
    pushed = PaneItems(
        np.arange(1), np.array(keys[2:], np.uint64), np.zeros(0, np.int64), np.array([0, 1]),
        np.array(keys[:2], np.uint64), np.array([5, 4]), np.array([1, 0]), np.array([0, 2]),
        np.array([2]),
    )  # fmt: skip
    words, shift = table_size(3)
    total = np.zeros(COUNTS, np.int64)
    found, row, value, absent, lacks, _ = list_panes(
        PaneItems(*map(frozen, pushed)), 3, 1, words, shift, total
    )
    assert found.tolist() == keys
    assert row.tolist() == [0, 1, 2]
    assert value.tolist() == [[5, 1], [4, 0], [3, 2]]
    assert (absent.tolist(), lacks.tolist()) == ([2], [True])


# Answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [*SKETCHES, "fsw-f"])
def test_very_many_answers_in_one_push(algorithm: str) -> None:
    """Four windows of a hundred items are more than the room that answers begin with."""
    items = [number * 7 % 130 for number in range(400)]
    more: dict[str, Any] = {"filter_bits": 64} if algorithm == "fsw-f" else {}
    monitor = watching(algorithm, 200, 100, k=100, capacity=200, **more)
    exact = watching("exact", 200, 100, k=100)
    table = pa.table({"item": items})
    answers, wanted = monitor.push(table), exact.push(table)
    assert len(answers) == len(wanted) == 4
    assert sum(answer.table.num_rows for answer in answers) == 400
    for answer, want in zip(answers, wanted, strict=True):
        if algorithm == "fsw-f":  # nothing was ignored, but it cannot know that
            true = Counter(items[answer.start : answer.end])
            for row in answer.table.to_pylist():
                assert row["count"] - row["error"] == true[row["item"]]
        else:
            assert answer.table == want.table
            assert answer.exact


@pytest.mark.parametrize("algorithm", ["fsw", "fsw-r", "fsw-f"])
def test_an_answer_is_what_a_glance_shows(algorithm: str) -> None:
    """Right after a window's last row, ``peek`` reads the same window from the same state."""
    items = "aabcadaebbafcaggabhaacbdaabbiajkb" * 3
    more: dict[str, Any] = {"filter_bits": 64} if algorithm == "fsw-f" else {}
    monitor = watching(algorithm, 12, 3, k=3, capacity=4, cells=5, **more)
    lifted = 0
    for at in range(0, len(items), 3):
        (answer,) = monitor.push(pa.table({"item": list(items[at : at + 3])}))
        glance = monitor.peek()
        assert (answer.start, answer.end, answer.total) == (glance.start, glance.end, glance.total)
        assert answer.exact == glance.exact
        counts = {row["item"]: row for row in answer.table.to_pylist()}
        for row in glance.table.to_pylist():
            if row["item"] in counts:
                mine = counts[row["item"]]
                assert row["count"] == mine["count"]
                assert row["error"] == mine["error"]
                lifted += row["error"] > 0
    assert lifted


def test_no_digits_are_lost_when_a_heavy_pane_expires() -> None:
    """1e16 + 1 is 1e16 as a float, so that taking 1e16 away again would leave nothing."""
    for algorithm in ("fsw", "fsw-r"):
        monitor = watching(algorithm, 6, 3, k=1, capacity=1, cells=1, weight="w")
        heavy = {"item": ["a", "a", "b"], "w": [4e16, 1.0, 1e16]}
        light = {"item": ["a", "a", "c"], "w": [2.0, 1.0, 1.0]}
        for rows in (heavy, light, light):
            (answer,) = monitor.push(pa.table(rows))
            monitor._check()
        assert answer.table.select(["item", "count"]).to_pylist() == [{"item": "a", "count": 6.0}]
        assert monitor.session.synopsis.hist.tolist() == [[2.0]]  # type: ignore[attr-defined]


# Counters -----------------------------------------------------------------------------------------


def test_what_fsw_counts_while_items_come_and_go() -> None:
    """Windows of two panes of two rows; the list has room for all items."""
    monitor = watching("fsw", 4, 2, capacity=4)
    wanted = {
        # pane       inserts hits removals updates retained
        "aa": (1, 1, 0, 0, 1),
        "ab": (2, 2, 0, 0, 2),
        "bc": (3, 3, 0, 1, 3),  # the two rows of a in the first pane expire
        "dd": (4, 4, 1, 3, 3),  # a and b of the second pane expire; a is not seen any more
        "ee": (5, 5, 3, 5, 2),  # b and c of the third pane expire, and neither is seen any more
    }
    names = ("inserts", "hits", "removals", "updates", "retained")
    found = {}
    for pane in wanted:
        monitor.push(pa.table({"item": list(pane)}))
        stats = monitor.stats()
        found[pane] = tuple(stats[name] for name in names)
    assert found == wanted
    stays = {name: stats[f"stayed_{name}"] for name in (0, 1, 2, "more")}
    # In panes 0 and 1 there was a, which left at pane 3; b stayed from 1 to 4, c from 2 to 4.
    assert stays == {0: 0, 1: 0, 2: 1, "more": 2}


def test_how_long_items_stay_in_windows_of_one_pane() -> None:
    monitor = watching("fsw", 2, 2, capacity=2)
    for pane in ("aa", "bc", "cd", "dd"):
        monitor.push(pa.table({"item": list(pane)}))
    stats = monitor.stats()
    # Before a pane is counted, all items of the one before it leave.
    assert (stats["inserts"], stats["removals"], stats["retained"]) == (6, 5, 1)
    stays = {name: stats[f"stayed_{name}"] for name in (0, 1, 2, "more")}
    assert stays == {0: 0, 1: 5, 2: 0, "more": 0}
    # An item that is evicted in the pane that it came in has stayed for no pane at all.
    monitor = watching("fsw", 4, 4, k=1, capacity=1, cells=1)
    monitor.push(pa.table({"item": list("abbb")}))
    stats = monitor.stats()
    assert (stats["removals"], stats["stayed_0"]) == (1, 1)
