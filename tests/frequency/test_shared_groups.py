"""HeavyHitters of a board with groups that keep one set of pane counts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.engine import who_shares
from skyband.frequency import shared_groups
from skyband.frequency.grouped import GroupedCounts
from skyband.frequency.shared_groups import GroupView, SharedGroups


def stream(seed: int, count: int, items: int, groups: int, late: int = 0) -> pa.Table:
    """Groups come and go; many items tie, and some rows have no weight."""
    made = np.random.default_rng(seed)
    time = np.cumsum(made.choice([0, 1, 2, 25], count, p=[0.8, 0.1, 0.09, 0.01]))
    item = (items * made.random(count) ** 2).astype(np.int64)
    group = (made.random(count) ** 2 * groups).astype(np.int64) + time // 30
    return pa.table(
        {
            "t": time - made.integers(0, late + 1, count),
            "g": [f"g{n % 97}" for n in group],
            "n": item,
            # Long names with a common beginning: order keys do not decide between them.
            "id": [f"a long common beginning {i:03}" for i in item],
            # Keys that do not fit half of an integer beside a count.
            "wide": (item - items // 2) << 40,
            "w": made.integers(0, 5, count),
            "heavy": made.integers(0, 5, count) << 40,
            "f": made.random(count),
        }
    )


def board(windows: list[Any], **settings: Any) -> dict[str, sb.HeavyHitters]:
    return {
        f"q{i}": sb.HeavyHitters(k=1 + 2 * i, time="t", by=("g",), window=window, **settings)
        for i, window in enumerate(windows)
    }


def states(monitor: sb.Monitor) -> list[Any]:
    sessions = monitor.board.sessions.values()
    return [session.synopsis.counts for session in sessions]  # type: ignore[attr-defined]


def shown(answers: Any) -> list[Any]:
    return [
        (a.start, a.end, a.table.to_pylist(), a.changes.to_pylist(), a.total, a.exact, a.bounds)
        for a in answers
    ]


@st.composite
def differing_windows(draw: st.DrawFn) -> list[sb.TimeWindow]:
    slides = draw(st.sampled_from([[3], [2, 3, 4, 6], [5, 10, 20]]))
    found = []
    for _ in range(draw(st.integers(2, 4))):
        slide = draw(st.sampled_from(slides))
        size, offset = draw(st.integers(slide + 1, 40)), draw(st.sampled_from([0, 0, 1]))
        found.append(sb.TimeWindow(size, slide=slide, lateness=2, offset=offset))
    return found


def alike(together: sb.Monitor, alone: dict[str, sb.Monitor], batch: pa.Table, item: str) -> None:
    """Push a batch to a board and to each query alone, and compare all that can be read."""
    found = together.push(batch)
    for name, monitor in alone.items():
        own = monitor.push(batch)
        assert shown([a for a in found if a.name == name]) == shown(own), name
        counts, mine = together.stats()[name], monitor.stats()
        for count in ("retained", "rows_late", "rows_unused", "windows_out"):
            assert counts[count] == mine[count], (name, count)
        for last in (None, 4):
            assert shown([together.peek(name, last)]) == shown([monitor.peek(last)]), name
        if len(batch):
            key, group = batch[item][0].as_py(), batch["g"][0].as_py()
            place = together.position(key, group=group, name=name)
            assert place == monitor.position(key, group=group)
    together._check()


@settings(max_examples=40, deadline=None)
@given(
    windows=differing_windows(),
    item=st.sampled_from(["n", "id", "wide"]),
    weight=st.sampled_from([None, "w", "heavy"]),
    keep=st.sampled_from([(), (), ("f",)]),
    groups=st.sampled_from([1, 4, 60]),
    items=st.sampled_from([3, 40]),
    late=st.sampled_from([0, 2, 2, 9]),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 300), max_size=4),
    step=st.sampled_from([0, 0, 4]),
    room=st.sampled_from([1, 1 << 24]),
)
def test_boards_answer_as_their_queries_do(
    windows: list[sb.TimeWindow], item: str, weight: str | None, keep: tuple[str, ...],
    groups: int, items: int, late: int, seed: int, cuts: list[int], step: int, room: int,
) -> None:  # fmt: skip
    """With rows that are late for some queries and not for others, they part, and go on alone."""
    named = board(windows, item=item, weight=weight, keep=keep, proof=seed % 3 == 0)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    together = sb.Monitor(named)
    table = stream(seed, 300, items, groups, late)
    edges = sorted({0, *cuts, 300, *(range(0, 40, step) if step else ())})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_groups, "_MOST_ROOM", room)
        for low, high in pairwise(edges):
            alike(together, alone, table.slice(low, high - low), item)
            if seed % 2:
                together = sb.Monitor.restore(together.snapshot())
                for name, monitor in alone.items():
                    assert shown([together.peek(name)]) == shown([monitor.peek()]), name
        found = together.flush()
        for name, monitor in alone.items():
            assert shown([a for a in found if a.name == name]) == shown(monitor.flush()), name
