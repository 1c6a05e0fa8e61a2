"""Rows of small pushes wait in a buffer; answers are those of the general way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband import registry
from skyband.contract.synopsis import Synopsis
from skyband.engine import row_buffer
from skyband.topk.skyband import SkybandTopK
from support.results import COUNTED

WINDOW = sb.TimeWindow(20, slide=5, lateness=3)
COMMON: dict[str, Any] = {"time": "t", "window": WINDOW}
QUERIES: dict[str, sb.Query] = {
    "topk": sb.TopK(k=2, score="x", id="id", keep=("w",), **COMMON),
    "groups": sb.TopK(k=2, score="x", id="id", by=("g",), **COMMON),
    "latest": sb.TopK(k=2, score="w", id="id", distinct="latest", **COMMON),
    "smallest": sb.TopK(k=2, score="w", largest=False, window=sb.CountWindow(7, slide=3)),
    "slide 1": sb.TopK(k=2, score="x", id="id", window=sb.CountWindow(4, slide=1)),
    "decayed": sb.TopK(k=2, score="x", id="id", time="t", window=sb.DecayWindow(10, slide=5)),
    "landmark": sb.TopK(
        k=2, score="x", id="id", time="t", window=sb.LandmarkWindow(slide=5, since=4)
    ),
    "items": sb.HeavyHitters(k=2, item="id", weight="w", **COMMON),
    "item groups": sb.HeavyHitters(k=2, item="w", by=("g",), **COMMON),
    "item counts": sb.HeavyHitters(k=2, item="id", keep=("x",), window=sb.CountWindow(9, slide=4)),
    "uncertain": sb.UncertainTopK(k=2, score="x", probability="p", id="id", **COMMON),
    "fused": sb.FusedTopK(
        k=2, id="id", stream="g", value="p", streams=("a", "b"), recurrences=50, **COMMON
    ),
    "skyline": sb.Skyline(prefer={"x": "min", "w": "max"}, id="id", **COMMON),
}
FILTERED: dict[str, sb.Query] = {
    "some": sb.TopK(k=2, score="x", id="id", where={"g": "a"}, **COMMON),
    "some items": sb.HeavyHitters(k=2, item="id", weight="w", where={"id": ["a", "c"]}, **COMMON),
    "some counts": sb.TopK(
        k=2, score="x", where={"w": [1, 2, 5]}, window=sb.CountWindow(5, slide=2)
    ),
}


def batch(rng: random.Random, n: int, now: int, odd: float) -> pa.Table:
    """Rows around a moment; ``odd`` is how often they are late, out of order, null or bad."""

    def maybe(value: Any, *others: Any) -> Any:
        return rng.choice(others) if others and rng.random() < odd else value

    times = [now + i // 3 for i in range(n)]
    if rng.random() < odd:
        rng.shuffle(times)
    times = [maybe(t, t - 2, t - 12, t - 40, None) for t in times]
    texts = [maybe(rng.choice("abc"), None) for _ in range(n)]
    ids: Any = pa.array(texts, rng.choice([pa.string(), pa.string(), pa.large_string()]))
    if ids.type == pa.large_string():  # another type of the same values
        ids = pa.array(texts, pa.string()).dictionary_encode()
    columns = {
        "t": pa.array(times, pa.int64()),
        "id": ids,
        "g": pa.array([maybe(rng.choice("ab"), "z") for _ in range(n)]),
        "x": pa.array(
            [maybe(float(rng.randrange(6)), None, float("nan"), -1.0) for _ in range(n)],
            pa.float64(),
        ),
        "w": pa.array([maybe(rng.randrange(9), -5) for _ in range(n)], pa.int64()),
        "p": pa.array([maybe(rng.choice([0.25, 0.5, 1.0]), 0.0, 2.0) for _ in range(n)]),
    }
    return pa.table(columns)


def general(monitor: sb.Monitor) -> sb.Monitor:
    """The same monitor without the short way."""
    monitor.session._buffer = (None,)
    return monitor


def shown(answers: list[sb.Answer]) -> list[str]:
    """Answers as text, in which NaN equals NaN; sums of fading weights may be rounded otherwise."""
    return [f"{a.table.schema} {a.table.to_pydict()} {a.total:.9g} {a.exact}" for a in answers]


def pushed(monitor: sb.Monitor, rows: Any) -> tuple[list[str], str]:
    try:
        return shown(monitor.push(rows)), ""
    except sb.SkybandError as error:
        return [], str(error)


@given(
    name=st.sampled_from(sorted(QUERIES | FILTERED)),
    seed=st.integers(0, 10_000),
    odd=st.sampled_from([0.0, 0.0, 0.02, 0.2]),
    on_bad=st.sampled_from(["raise", "skip"]),
)
@settings(max_examples=25, deadline=None)
def test_both_ways_answer_alike(name: str, seed: int, odd: float, on_bad: str) -> None:
    check_both_ways(name, seed, odd, on_bad)


def counted(name: str, monitor: sb.Monitor) -> list[Any]:
    """The statistics that are the same both ways."""
    found = monitor.stats()
    return [found[n] for n in COUNTED if n != "retained" or name != "uncertain"]


def check_both_ways(name: str, seed: int, odd: float, on_bad: Any) -> None:
    rng = random.Random(seed)
    query = (QUERIES | FILTERED)[name]
    short, long = sb.Monitor(query, on_bad=on_bad), general(sb.Monitor(query, on_bad=on_bad))
    now = 0
    for step in range(24):
        rows = batch(rng, rng.choice([1, 1, 2, 5]), now, odd)
        if step > 3 and rng.random() < odd / 2:
            rows = rows.drop_columns([rng.choice(["t", "x", "id"])])
        if rng.random() < 0.2:
            rows = rows.select(rows.column_names[::-1]) if name != "skyline" else rows
        if rng.random() < 0.3 and rows.num_rows:
            rows = rows.combine_chunks().to_batches()[0]
        now += rng.choice([0, 0, 1, 1, 4, 11])
        (mine, said), (theirs, theirs_said) = pushed(short, rows), pushed(long, rows)
        assert (mine, said) == (theirs, theirs_said)
        action = rng.random()
        if action < 0.1:
            short = sb.Monitor.restore(short.snapshot())
            long = general(sb.Monitor.restore(long.snapshot()))
        elif action < 0.2:
            assert counted(name, short) == counted(name, long)
        short._check()
    last = [shown(m.flush()) for m in (short, long)]
    assert last[0] == last[1]
    assert counted(name, short) == counted(name, long)


def test_a_buffer_that_is_emptied_at_other_times_answers_alike() -> None:
    """How much a buffered queue holds depends on how many calls its panes come in."""
    check_both_ways("uncertain", 125, 0.0, "raise")


@pytest.mark.parametrize("name", sorted(set(QUERIES) - {"slide 1"}))
def test_one_plan_per_schema_and_no_summary_before_a_pane_ends(name: str) -> None:
    monitor = sb.Monitor(QUERIES[name])
    rng = random.Random(5)
    made: list[int] = []
    summarise = type(monitor.session.synopsis).summarise

    def spy(self: Any, rows: Any) -> Any:
        made.append(len(rows))
        return summarise(self, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(monitor.session.synopsis), "summarise", spy)
        plain = batch(rng, 1, 20, 0.0).cast(batch(random.Random(1), 1, 0, 0.0).schema)
        for i in range(101):
            monitor.push(plain.set_column(0, "t", pa.array([20 + i // 10], pa.int64())))
    buffer = monitor.session.buffer
    assert buffer is not None
    assert buffer.plans_made == 1
    assert buffer.pushes_kept >= 33
    ended = 100 - buffer.pushes_kept  # the first push binds the columns
    assert len(made) <= 1 + 2 * ended  # each has summaries of its own, and of what waited
    assert sum(made) + buffer.rows == 101


@pytest.fixture
def monitor() -> Iterator[sb.Monitor]:
    found = sb.Monitor(QUERIES["topk"])
    found.push(batch(random.Random(1), 3, 10, 0.0))
    yield found
    found._check()


def kept(monitor: sb.Monitor) -> int:
    buffer = monitor.session.buffer
    assert buffer is not None
    return buffer.pushes_kept


def test_rows_are_copied_when_they_are_pushed(monitor: sb.Monitor) -> None:
    """A caller may use its arrays again after a push."""
    scores = np.array([50.0, 60.0])
    rows = batch(random.Random(1), 2, 10, 0.0).set_column(3, "x", pa.array(scores))
    monitor.push(rows)
    assert kept(monitor) == 1
    scores[:] = 0.0
    answers = monitor.push(batch(random.Random(1), 1, 30, 0.0))
    assert answers[0].table["x"].to_pylist() == [60.0, 50.0]


def test_an_error_while_a_window_ends_leaves_the_waiting_rows(
    monitor: sb.Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = sb.Monitor.restore(monitor.snapshot())
    rows, later = batch(random.Random(2), 4, 11, 0.0), batch(random.Random(3), 2, 30, 0.0)
    for each in (monitor, twin):
        each.push(rows)
    assert kept(monitor) == 1
    with monkeypatch.context() as patch:

        def fails(*_: Any) -> Any:
            raise RuntimeError("no memory, say")

        patch.setattr(SkybandTopK, "fold_readers", fails)
        with pytest.raises(RuntimeError):
            monitor.push(later)
    buffer = monitor.session.buffer
    assert buffer is not None
    assert buffer.rows == 4
    assert monitor.session.rows["rows_in"] == 7
    mine, theirs = ([a.table for a in m.push(later)] for m in (monitor, twin))
    assert mine == theirs
    assert len(mine)


def test_an_error_after_too_many_rows_waited_leaves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that make room for others are still there when the push of the others fails."""
    monkeypatch.setattr(row_buffer, "_MOST_ROWS", 10)
    query = sb.TopK(k=12, score="x", window=sb.CountWindow(12))
    monitor = sb.Monitor(query)
    pieces = [pa.table({"x": [float(n), n + 0.25, n + 0.5]}) for n in range(4)]
    for piece in pieces[:3]:
        monitor.push(piece)
    buffer = monitor.session.buffer
    assert buffer is not None
    assert buffer.rows == 6
    monitor.push(pieces[0].slice(0, 1))
    monitor.push(pieces[0].slice(1, 1))
    with monkeypatch.context() as patch:

        def fails(*_: Any) -> Any:
            raise RuntimeError("no memory, say")

        patch.setattr(SkybandTopK, "fold_readers", fails)
        with pytest.raises(RuntimeError):
            monitor.push(pieces[3])
    (answer,) = monitor.push(pieces[3])
    first = [0.0, 0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 2.25, 2.5, 0.0, 0.25, 3.0]
    assert answer.table["x"].to_pylist() == sorted(first, reverse=True)


def test_rows_that_do_not_count_only_move_the_watermark() -> None:
    monitor = sb.Monitor(FILTERED["some"])
    rows = batch(random.Random(1), 3, 10, 0.0)
    monitor.push(rows.set_column(2, "g", pa.array(["a", "b", "a"])))
    buffer = monitor.session.buffer
    assert buffer is not None
    monitor.push(rows.set_column(2, "g", pa.array(["b", "b", "a"])))
    monitor.push(rows.set_column(2, "g", pa.array(["b", "b", "b"])))
    assert (buffer.pushes_kept, buffer.rows) == (2, 1)
    later = batch(random.Random(1), 1, 30, 0.0)
    assert monitor.push(later.set_column(2, "g", pa.array(["b"])))
    assert (buffer.pushes_kept, buffer.rows) == (2, 0)
    assert (monitor.stats()["rows_in"], monitor.stats()["rows_filtered"]) == (10, 7)


def test_rows_do_not_wait_for_ever(monitor: sb.Monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_buffer, "_MOST_ROWS", 10)
    buffer = monitor.session.buffer
    assert buffer is not None
    for _ in range(9):
        monitor.push(batch(random.Random(1), 3, 11, 0.0))
        assert 0 < buffer.rows <= 10
    assert kept(monitor) == 9
    assert monitor.stats()["rows_in"] == 30
    assert buffer.rows == 0  # stats count open panes, so nothing waits any longer


def test_a_board_keeps_rows_of_all_queries_or_of_none() -> None:
    board = {"a": QUERIES["topk"], "b": QUERIES["items"]}
    monitor, twin = sb.Monitor(board), sb.Monitor(board)
    for session in twin.board.sessions:
        session._buffer = (None,)
    rng = random.Random(9)
    now = 10
    for _ in range(30):
        now += rng.choice([0, 1, 2])
        rows = batch(rng, 2, now, 0.0)
        mine, theirs = ([(a.name, a.table) for a in m.push(rows)] for m in (monitor, twin))
        assert mine == theirs
    counts = [s.buffer.pushes_kept for s in monitor.board.sessions if s.buffer is not None]
    assert counts[0] == counts[1] > 10
    assert monitor.stats()["rows_in"] == 60


def _owner(cls: type, name: str) -> int:
    return next(i for i, each in enumerate(cls.__mro__) if name in vars(each))


@pytest.mark.parametrize("kind", ["TopK", "HeavyHitters", "UncertainTopK", "FusedTopK", "Skyline"])
def test_who_validates_rows_also_says_how_to_do_it_quickly(kind: str) -> None:
    for name in {n for w in ("sized", "decay", "landmark") for n in registry.algorithms(kind, w)}:
        cls = registry.load(kind, name)
        assert issubclass(cls, Synopsis)
        assert _owner(cls, "quick_tests") <= _owner(cls, "validate"), name


def test_what_cannot_take_the_short_way() -> None:
    base: dict[str, Any] = {"k": 1, "score": "x", "time": "t"}
    for query in (
        sb.TopK(**(base | {"score": "x * w"}), window=WINDOW),
        sb.TopK(**base, window=sb.TimeWindow(5, slide=20)),
        sb.TopK(k=1, score="x", by=("g",), window=sb.CountWindow(5)),
    ):
        monitor = sb.Monitor(query)
        monitor.push(batch(random.Random(1), 3, 10, 0.0))
        assert monitor.session.buffer is None


@pytest.mark.parametrize("name", ["topk", "uncertain", "skyline", "items"])
def test_masks_of_bad_rows_are_made_only_if_a_quick_pass_finds_some(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = QUERIES[name]
    made: list[int] = []
    cls = type(sb.Monitor(query).session.synopsis)
    validate = cls.validate

    def spy(self: Any, source: str, rows: pa.RecordBatch) -> Any:
        made.append(rows.num_rows)
        return validate(self, source, rows)

    monkeypatch.setattr(cls, "validate", spy)
    good = batch(random.Random(3), 45, 10, 0.0)
    good = good.set_column(1, "id", good["id"].cast(pa.string()))
    sb.rank(good, query)
    assert not made
    bad = {"topk": "x", "uncertain": "p", "skyline": "x", "items": "w"}[name]
    at = good.column_names.index(bad)
    wrong: Any = -5 if bad == "w" else float("nan")
    values = [*good[bad].to_pylist()[:-1], wrong]
    with pytest.raises(sb.DataError, match="row 44"):
        sb.rank(good.set_column(at, bad, pa.array(values)), query)
    assert made
    if name == "skyline":  # a preferred column may come as a dictionary later
        encoded = good.set_column(at, bad, good[bad].combine_chunks().dictionary_encode())
        assert sb.rank([good.slice(0, 9), encoded.slice(9)], query).equals(sb.rank(good, query))
