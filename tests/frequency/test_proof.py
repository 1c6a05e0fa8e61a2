"""``HeavyHitters(proof=True)``: which rows certainly belong into an answer, and ``mu``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import oracle
import skyband as sb
from skyband.jobs import parse_job
from support import spark_simulator, streams
from support.command_line import good
from support.sketch_cases import STREAMS, small

WORDS = ["a"] * 5 + ["b"] * 4 + ["c"] * 2 + ["d"]


def words(**more: Any) -> sb.Answer:
    query = sb.HeavyHitters(k=2, item="word", window=sb.CountWindow(12), proof=True, **more)
    (answer,) = sb.watch(pa.table({"word": WORDS, "n": range(12)}), query)
    return answer


def test_columns_and_bounds_of_exact_counts() -> None:
    answer = words(keep=("n",))
    names = ["window_start", "window_end", "rank", "word", "count", "error", "proven", "n"]
    assert answer.table.column_names == names
    assert answer.table.schema.field("proven").type == pa.bool_()
    assert answer.table["proven"].to_pylist() == [True, True]
    assert answer.bounds == {"mu": 2}, "the count of c, the first item that is left out"
    assert answer.query.answer_names()[3:7] == ("word", "count", "error", "proven")


def test_without_proof_there_is_no_column_and_exact_counts_have_no_bounds() -> None:
    query = sb.HeavyHitters(k=2, item="word", window=sb.CountWindow(12))
    (answer,) = sb.watch(pa.table({"word": WORDS}), query)
    assert "proven" not in answer.table.column_names
    assert answer.bounds == {}
    sketch = sb.HeavyHitters(k=2, item="word", window=sb.CountWindow(12), capacity=3)
    (answer,) = sb.watch(pa.table({"word": WORDS}), sketch)
    assert answer.bounds["mu"] >= 2


@pytest.mark.parametrize("bad", [1, None, "yes"])
def test_proof_must_be_a_boolean(bad: Any) -> None:
    with pytest.raises(sb.QueryError, match="proof must be True or False"):
        sb.HeavyHitters(k=1, item="word", window=sb.CountWindow(3), proof=bad)


def test_the_default_changes_no_fingerprint() -> None:
    plain = sb.HeavyHitters(k=1, item="word", window=sb.CountWindow(3))
    said = sb.HeavyHitters(k=1, item="word", window=sb.CountWindow(3), proof=False)
    asked = sb.HeavyHitters(k=1, item="word", window=sb.CountWindow(3), proof=True)
    assert plain.fingerprint == said.fingerprint != asked.fingerprint


def test_a_sketch_proves_what_is_far_ahead_and_not_what_is_close() -> None:
    """Ten rows of a, and 30 items of one row each that take turns in the rest of the list."""
    items = ["a"] * 10 + [f"x{i}" for i in range(30)]
    query = sb.HeavyHitters(
        k=2, item="word", window=sb.CountWindow(40), algorithm="ss", capacity=4, proof=True
    )
    (answer,) = sb.watch(pa.table({"word": items}), query)
    proven = {row["word"]: row["proven"] for row in answer.table.to_pylist()}
    assert not any(proven[item] for item in proven if item != "a")
    assert answer.bounds["mu"] >= 10 or proven["a"]


@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("by", [(), ("g",)])
@pytest.mark.parametrize(
    "window", [sb.TimeWindow(40, slide=10), sb.TimeWindow(40), sb.CountWindow(90, slide=30)]
)
def test_exact_counts_prove_every_row(window: Any, by: tuple[str, ...], weight: Any) -> None:
    table = STREAMS["weights"].table
    table = table.append_column("g", pa.array([i % 3 for i in range(table.num_rows)]))
    asked: dict[str, Any] = {"item": "item", "time": "ts", "window": window, "by": by}
    asked["weight"] = weight
    query, every = sb.HeavyHitters(k=4, proof=True, **asked), sb.HeavyHitters(k=10**6, **asked)
    plain = sb.rank(table, sb.HeavyHitters(k=4, **asked))
    assert sb.rank(table, query).drop_columns("proven").equals(plain)
    for answer, whole in zip(sb.watch(table, query), sb.watch(table, every), strict=True):
        assert all(answer.table["proven"].to_pylist())
        left_out = [row["count"] for row in whole.table.to_pylist() if row["rank"] > 4]
        assert answer.bounds["mu"] == max(left_out, default=0)


@pytest.mark.parametrize("algorithm", ["exact", "ss", "fss", "fsp", "fsw", "fsw-f"])
@pytest.mark.parametrize("by", [(), ("g",)])
def test_peek_says_it_too(algorithm: str, by: tuple[str, ...]) -> None:
    stream = STREAMS["zipf"]
    table = stream.table.append_column("g", pa.array([i % 2 for i in range(1500)]))
    window = oracle.TimeWindow(40, 10)
    query = small(algorithm, 5, 12, window, table, proof=True, by=by)
    monitor, at = sb.Monitor(query), 0
    while at < 1500:
        monitor.push(table.slice(at, 137))
        at += 137
        seen = monitor.peek()
        rows = table.slice(0, min(at, 1500)).to_pylist()
        live = [row for row in rows if seen.start <= row["ts"] < seen.end]
        counts = Counter((*(row[n] for n in by), row["item"]) for row in live)
        shown = {(*(row[n] for n in by), row["item"]) for row in seen.table.to_pylist()}
        left_out = {key: n for key, n in counts.items() if key not in shown}
        assert max(left_out.values(), default=0) <= seen.bounds["mu"]
        for row in seen.table.to_pylist():
            group = tuple(row[n] for n in by)
            others = [n for key, n in left_out.items() if key[:-1] == group]
            if row["proven"]:
                assert counts[(*group, row["item"])] >= max(others, default=0)
            assert row["proven"] or algorithm != "exact"


@pytest.mark.parametrize("capacity", [None, 3])
@pytest.mark.parametrize(
    "window", [sb.LandmarkWindow(slide=10), sb.DecayWindow(500, slide=10)], ids=str
)
def test_windows_without_a_size(window: Any, capacity: int | None) -> None:
    """With a half-life of 500, no item is forgotten in 150 ticks."""
    table = STREAMS["drift"].table.slice(0, 1500)
    query = sb.HeavyHitters(
        k=2, item="item", time="ts", window=window, capacity=capacity, proof=True
    )
    proven = 0
    for answer in sb.watch(table, query):
        rows = [row for row in table.to_pylist() if row["ts"] < answer.end]
        counts: Counter[str] = Counter()
        for row in rows:
            decayed = isinstance(window, sb.DecayWindow)
            counts[row["item"]] += 2 ** (-(answer.end - row["ts"]) / 500) if decayed else 1
        shown = answer.table.to_pylist()
        others = [n for item, n in counts.items() if item not in {row["item"] for row in shown}]
        most = max(others, default=0) * (1 - 1e-9)
        assert answer.bounds["mu"] >= most
        for row in shown:
            proven += row["proven"]
            assert not row["proven"] or counts[row["item"]] >= most
            assert row["proven"] or capacity is not None
    assert proven


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("algorithm", ["exact", "fsw", "fsp"])
def test_on_spark(algorithm: str, shards: int) -> None:
    stream, window = STREAMS["zipf"], oracle.TimeWindow(40, 10)
    query = small(algorithm, 5, 12, window, stream.table, proof=True)
    plan = spark_simulator.plan_of(query, {"": stream.table}, shards=shards, bounds=True)
    job = spark_simulator.Job(plan)
    rows = streams.rows_of(pa.concat_tables([job.push({"": b}) for b in stream.batches]))
    assert rows
    every = sb.HeavyHitters(k=10**6, item="item", time="ts", window=query.window)
    counts: dict[Any, dict[str, int]] = {}
    for row in sb.rank(stream.table, every).to_pylist():
        counts.setdefault(row["window_end"], {})[row["item"]] = row["count"]
    for row in rows:
        mu = dict(row["bounds"])["mu"]
        assert row["proven"] is (row["count"] - row["error"] >= mu)
        shown = {each["item"] for each in rows if each["window_end"] == row["window_end"]}
        left_out = [n for item, n in counts[row["window_end"]].items() if item not in shown]
        assert max(left_out, default=0) <= mu
        assert row["proven"] or algorithm != "exact"


def test_command_line_and_job_files(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text("word\n" + "\n".join(WORDS) + "\n")
    asked = ("-k", 2, "--item", "word", "--count", 12, "--format", "csv")
    lines = good("heavy-hitters", path, *asked, "--proof").splitlines()
    assert lines[0].split(",")[-1].strip('"') == "proven"
    assert [line.split(",")[-1] for line in lines[1:]] == ["true", "true"]
    assert "proven" not in good("heavy-hitters", path, *asked)
    told = {
        "name": "words", "engine": "local", "checkpoint": "state",
        "source": {"kind": "files", "path": "*.csv"},
        "query": {"kind": "HeavyHitters", "k": 2, "item": "word", "time": "ts", "proof": True,
                  "window": {"size": 60}},
        "sink": {"kind": "console"},
    }  # fmt: skip
    (query,) = parse_job(told, tmp_path).queries.values()
    assert query.extra_columns == ("count", "error", "proven")
