"""Queries that differ only in k and in the size of their windows: each answers as it does alone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.contract.tumbling import Tumbling
from skyband.frequency import listed
from skyband.frequency.block_sums import BlockSums
from skyband.frequency.pane_sums import CodeSums, OwnWindows, PaneSums

ROWS = 300


def stream(seed: int, rows: int, items: int, late: int = 0, groups: int = 5) -> pa.Table:
    """Groups come and go, items tie, and some rows have no weight."""
    made = np.random.default_rng(seed)
    time = np.cumsum(made.choice([0, 1, 2, 25], rows, p=[0.8, 0.1, 0.09, 0.01]))
    item = (items * made.random(rows) ** 2).astype(np.int64)
    group = (made.random(rows) ** 2 * groups).astype(np.int64) + time // 30
    return pa.table(
        {
            "t": time - made.integers(0, late + 1, rows),
            "g": [f"g{n % 97}" for n in group],
            "n": item,
            # Long names with a common beginning: order keys do not decide between them.
            "id": [f"a long common beginning {i:03}" for i in item],
            # Keys that do not fit half of an integer beside a count.
            "wide": (item - items // 2) << 40,
            "w": made.integers(0, 5, rows),
            "heavy": made.integers(0, 5, rows) << 40,
            "f": made.random(rows),
        }
    )


def board(sizes: list[tuple[int, int]], slide: int, rest: int, counts: bool, **more: Any) -> Any:
    """Queries by name: each k, and each size in slides."""
    found = {}
    for k, many in sizes:
        size = many * slide + rest
        window: Any = sb.TimeWindow(size, slide=slide, lateness=2)
        if counts:
            window = sb.CountWindow(size, slide=slide)
        found[f"{k} of {many}"] = sb.HeavyHitters(k=k, time="t", window=window, **more)
    return found


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Rows whose floating-point sums are cut to nine digits, of which all orders agree."""
    columns = {n: table[n].to_pylist() for n in table.column_names}
    for name, column in columns.items():
        if name in ("count", "error") and pa.types.is_floating(table[name].type):
            columns[name] = [None if v is None else float(f"{v:.8e}") for v in column]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def shown(answers: Any) -> list[Any]:
    return [
        (
            a.start, a.end, rows_of(a.table), rows_of(a.changes), pytest.approx(a.total), a.exact,
            {name: pytest.approx(value) for name, value in a.bounds.items()},
        )
        for a in answers
    ]  # fmt: skip


def state(monitor: sb.Monitor) -> Any:
    """The state of the only fold."""
    (session,) = monitor.board.sessions
    synopsis: Any = session.synopsis
    return synopsis.counts


class Pair:
    """A board, and each of its queries alone."""

    def __init__(self, named: dict[str, sb.HeavyHitters]) -> None:
        self.together = sb.Monitor(named)
        self.alone = {name: sb.Monitor(query) for name, query in named.items()}

    def push(self, batch: pa.Table, item: str) -> None:
        """Push to all, and compare all that can be read."""
        answers = self.together.push(batch)
        for name, monitor in self.alone.items():
            own = monitor.push(batch)
            assert shown([a for a in answers if a.name == name]) == shown(own), name
            for count in ("rows_late", "rows_unused", "windows_out"):
                assert self.together.stats()[name][count] == monitor.stats()[count], (name, count)
            monitor._check()
        self.together._check()
        self.look(batch, item)

    def look(self, batch: pa.Table, item: str) -> None:
        for name, monitor in self.alone.items():
            for last in (None, min(3, monitor.query.window.panes.size)):
                assert shown([self.together.peek(name, last)]) == shown([monitor.peek(last=last)])
            if not len(batch):
                continue
            group = (batch["g"][0].as_py(),) if monitor.query.groups else ()
            here = self.together.position(batch[item][0].as_py(), group, name=name)
            there = monitor.position(batch[item][0].as_py(), group)
            assert (here is None) == (there is None)
            if here is not None and there is not None:
                assert here.rank == there.rank
                assert here.of == there.of
                assert here.value == pytest.approx(there.value)

    def restart(self, gone: list[str]) -> None:
        """Continue all from snapshots, without some queries of the board."""
        self.alone = {
            name: sb.Monitor.restore(monitor.snapshot())
            for name, monitor in self.alone.items()
            if name not in gone
        }
        if not gone:
            self.together = sb.Monitor.restore(self.together.snapshot())
            return
        left = {name: monitor.query for name, monitor in self.alone.items()}
        self.together, diff = sb.Monitor.resume(self.together.snapshot(), left)
        assert sorted(diff.removed) == sorted(gone)

    def flush(self) -> None:
        answers = self.together.flush()
        for name, monitor in self.alone.items():
            assert shown([a for a in answers if a.name == name]) == shown(monitor.flush()), name


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 9)), min_size=2, max_size=5, unique=True
    ),
    slide=st.sampled_from([1, 3]),
    rest=st.sampled_from([0, 0, 1]),
    counts=st.booleans(),
    by=st.sampled_from([(), ("g",)]),
    item=st.sampled_from(["n", "id", "wide"]),
    weight=st.sampled_from([None, "w", "heavy", "f"]),
    keep=st.sampled_from([(), (), ("f",)]),
    items=st.sampled_from([3, 40]),
    late=st.sampled_from([0, 2, 9]),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, ROWS), max_size=4),
    restarts=st.booleans(),
    removed=st.integers(0, 2),
    few=st.booleans(),
)
def test_each_query_answers_as_it_does_alone(
    sizes: list[tuple[int, int]], slide: int, rest: int, counts: bool, by: tuple[str, ...],
    item: str, weight: str | None, keep: tuple[str, ...], items: int, late: int, seed: int,
    cuts: list[int], restarts: bool, removed: int, few: bool,
) -> None:  # fmt: skip
    more = {"item": item, "weight": weight, "keep": keep, "by": by, "proof": seed % 3 == 0}
    pair = Pair(board(sizes, slide, rest % slide, counts, **more))
    assert len(pair.together.board.sessions) == 1
    table, gone = stream(seed, ROWS, items, late), sorted(pair.alone)
    np.random.default_rng(seed).shuffle(gone)
    gone = gone[: min(removed, len(gone) - 1)]
    with pytest.MonkeyPatch.context() as patch:
        limits = {"_FEWEST": 6, "_PER_RANK": 1, "_WORTH": 1, "_RARE": 0, "_TRIAL": 1}
        for name, value in limits.items() if few else ():
            patch.setattr(listed, name, value)
        for low, high in pairwise(sorted({0, *cuts, ROWS})):
            pair.push(table.slice(low, high - low), item)
            if restarts or (gone and high > ROWS // 2):
                pair.restart(gone if high > ROWS // 2 else [])
                gone = [] if high > ROWS // 2 else gone
                pair.look(table.slice(low, 1), item)
                pair.together._check()
        pair.flush()


TEN = [(k, n) for k, n in zip((1, 2, 3, 5, 8, 10, 20, 30, 4, 6), range(2, 12), strict=True)]
SHAPES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "items": (PaneSums, CodeSums, {}),
    "fractions": (PaneSums, CodeSums, {"weight": "f"}),
    "groups": (PaneSums, BlockSums, {"by": ("g",)}),
    "fractions of groups": (PaneSums, CodeSums, {"by": ("g",), "weight": "f"}),
    "arrivals of groups": (OwnWindows, CodeSums, {"by": ("g",), "counts": True}),
}


def lists_of(counts: Any) -> int:
    """Bytes of the lists and the items."""
    return int(counts.nbytes) - sum(int(each.nbytes) for each in counts.sums)


def entries_of(counts: Any) -> int:
    """How many entries the lists have."""
    return len(counts.entries)


@pytest.mark.parametrize("shape", SHAPES)
def test_lists_and_items_are_kept_once(shape: str) -> None:
    kind, sums, more = SHAPES[shape]
    settings: dict[str, Any] = {"item": "id", "counts": False, **more}
    named = board(TEN, 40, 0, **settings)
    ten, largest = sb.Monitor(named), sb.Monitor(named["6 of 11"])
    table = stream(3, 20_000, 2_000)
    for low in range(0, 20_000, 1_000):
        ten.push(table.slice(low, 1_000))
        largest.push(table.slice(low, 1_000))
    ten._check()
    assert type(state(ten)) is kind
    assert {type(each) for each in state(ten).sums} == {sums}
    assert len(state(ten).sums) == 10
    assert lists_of(state(ten)) == lists_of(state(largest))
    assert all(each.nbytes <= state(largest).nbytes for each in state(ten).sums)
    total = ten.stats()["state_bytes"]
    assert sum(ten.stats()[name]["state_bytes"] for name in named) == total


def test_queries_whose_windows_are_equal_share_their_sums() -> None:
    named = board([(1, 5), (9, 5), (3, 5)], 3, 0, False, item="n")
    pair = Pair(named)
    table = stream(4, ROWS, 40)
    for low in range(0, ROWS, 60):
        pair.push(table.slice(low, 60), "n")
    assert [each.k for each in state(pair.together).sums] == [9]
    pair.restart(["9 of 5"])
    assert [each.k for each in state(pair.together).sums] == [3]
    pair.flush()


@pytest.mark.parametrize("shape", SHAPES)
def test_when_the_longest_query_goes_its_panes_go(shape: str) -> None:
    kind, sums, more = SHAPES[shape]
    settings: dict[str, Any] = {"item": "n", "counts": False, **more}
    pair = Pair(board([(2, 9), (3, 4), (5, 2)], 10, 0, **settings))
    table = stream(5, 3_000, 40)
    table = table.set_column(1, "g", pa.array([f"g{i % 4}" for i in range(3_000)]))
    for low in range(0, 2_000, 250):
        pair.push(table.slice(low, 250), "n")
    before = entries_of(state(pair.together))
    pair.restart(["2 of 9"])
    for low in range(2_000, 3_000, 250):
        pair.push(table.slice(low, 250), "n")
    left = state(pair.together)
    assert type(left) is kind
    assert {type(each) for each in left.sums} == {sums}
    assert len(left.sums) == 2
    assert before > entries_of(left) == entries_of(state(pair.alone["3 of 4"])) > 0
    pair.flush()


@pytest.mark.parametrize("by", [(), ("g",)])
def test_windows_of_one_pane_keep_it_as_it_came(by: tuple[str, ...]) -> None:
    pair = Pair(board([(1, 1), (6, 1), (3, 1)], 5, 0, False, item="id", by=by, keep=("f",)))
    table = stream(6, ROWS, 40)
    for low in range(0, ROWS, 50):
        pair.push(table.slice(low, 50), "id")
        pair.restart(["3 of 1"] if low == 150 else [])
    assert isinstance(state(pair.together), Tumbling)
    pair.flush()
