"""``parts=True``: the value of each stream beside the score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from skyband.jobs import parse_job
from skyband.query import from_spec
from support import board_simulator, conformance, spark_simulator, streams
from support.command_line import good
from support.streams import rows_of

ALGORITHMS = ("sla", "eaa", "reports", "eaa-approx")
FUSED = conformance.FUSED | {"parts": True}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_parts_are_those_of_the_definition(algorithm: str, data: st.DataObject) -> None:
    window: Any = data.draw(streams.time_windows() | streams.count_windows())
    asked = FUSED | {
        "k": data.draw(st.sampled_from((1, 3))),
        "combine": data.draw(st.sampled_from(("sum", "max", "min", "product"))),
        "recurrences": data.draw(st.sampled_from((1, 2))),
        "by": data.draw(st.sampled_from(((), ("g",)))),
        "algorithm": algorithm,
    }
    if algorithm != "reports":
        asked["options"] = conformance.OPTIONS.get(algorithm, {})
    stream = data.draw(
        conformance.small_streams("FusedTopK", asked, window, getattr(window, "lateness", 0))
    )
    restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
    conformance.compare("FusedTopK", window, asked, stream, restarts, peeks)


@pytest.mark.parametrize("repeats", ["max", "latest", "mean"])
def test_parts_of_repeated_reports(repeats: str) -> None:
    window = oracle.TimeWindow(40, 7, lateness=5)
    asked = FUSED | {"k": 3, "repeats": repeats}
    stream = conformance.long_stream("FusedTopK", asked | {"recurrences": 3}, window, "crowded")
    conformance.compare("FusedTopK", window, asked, stream, True, True)


REPORTS = pa.table({
    "ts": pa.array(range(0, 12_000_000, 1_000_000), pa.timestamp("us", tz="UTC")),
    "car": list("abcabcdaebfa"),
    "cam": ["n", "n", "n", "s", "s", "e", "n", "e", "s", "n", "e", "n"],
    "v": [0.9, 0.7, 0.4, 0.0, 0.6, 0.2, 1.0, 0.3, 0.8, 0.1, 0.5, 0.2],
})  # fmt: skip
QUERY = sb.FusedTopK(
    k=3, id="car", stream="cam", value="v", streams=("s", "n", "e"), time="ts", parts=True,
    window=sb.TimeWindow("6 seconds", slide="2 seconds"),
)  # fmt: skip


def test_columns_follow_the_score() -> None:
    table = sb.rank(REPORTS, QUERY)
    assert table.column_names[3:] == ["car", "score", "s", "n", "e"]
    assert tuple(table.column_names) == QUERY.answer_names()
    assert table.schema.field("n").type == pa.float64()
    for row in rows_of(table):
        assert row["score"] == pytest.approx(sum(row[name] or 0.0 for name in "sne"))
    values = {(row["car"], row["s"], row["n"], row["e"]) for row in rows_of(table)}
    assert ("a", 0.0, 0.9, None) in values  # a value of 0 is one, no value is none
    without = table.drop_columns(["s", "n", "e"])
    plain = sb.FusedTopK(**{**_settings(QUERY), "parts": False})
    assert without == sb.rank(REPORTS, plain)


def _settings(query: sb.FusedTopK) -> dict[str, Any]:
    names = ("k", "id", "stream", "value", "streams", "time", "window")
    return {name: getattr(query, name) for name in names}


@pytest.mark.parametrize("shards", [1, 3])
def test_spark_gives_the_same_answers(shards: int) -> None:
    want = sb.rank(REPORTS, QUERY)
    plan = spark_simulator.plan_of(QUERY, {"": REPORTS}, shards=shards, streaming=False)
    assert spark_simulator.run_batch(plan, {"": REPORTS}, 3) == want
    plan = spark_simulator.plan_of(QUERY, {"": REPORTS}, shards=shards)
    job = spark_simulator.Job(plan, parts=2, forgetful=True)
    pushed = pa.concat_tables([job.push({"": REPORTS.slice(at, 4)}) for at in (0, 4, 8)])
    assert pushed.num_rows >= 9
    assert pushed == want.slice(0, pushed.num_rows)


def test_on_a_board() -> None:
    board = {"fused": QUERY, "plain": sb.FusedTopK(**_settings(QUERY))}
    together, parted = sb.rank(REPORTS, board), board_simulator.ranked_batch(board, REPORTS)
    assert together["fused"] == sb.rank(REPORTS, QUERY)
    assert parted["fused"] == together["fused"].to_pylist()


def test_names_that_are_taken_are_refused() -> None:
    for name in ("score", "car", "rank"):
        with pytest.raises(sb.QueryError, match=f"already.*{name}|{name}.*already"):
            sb.FusedTopK(**{**_settings(QUERY), "streams": ("n", name), "parts": True})
        sb.FusedTopK(**{**_settings(QUERY), "streams": ("n", name)})
    with pytest.raises(sb.QueryError, match="parts must be True or False"):
        sb.FusedTopK(**{**_settings(QUERY), "parts": "all"})


def test_specs_jobs_and_the_command_line(tmp_path: Path) -> None:
    assert from_spec(QUERY.spec()) == QUERY
    assert QUERY.fingerprint != sb.FusedTopK(**_settings(QUERY)).fingerprint
    told = {
        "name": "cars", "engine": "local", "checkpoint": "state",
        "source": {"kind": "files", "path": "*.csv"},
        "query": {"kind": "FusedTopK", "k": 3, "id": "car", "stream": "cam", "value": "v",
                  "streams": ["s", "n", "e"], "time": "ts", "parts": True,
                  "window": {"size": "6 seconds", "slide": "2 seconds"}},
        "sink": {"kind": "console"},
    }  # fmt: skip
    assert list(parse_job(told, tmp_path).queries.values()) == [QUERY]
    path = tmp_path / "cars.csv"
    path.write_text("t,car,cam,v\n1,a,n,0.5\n2,b,s,0.25\n3,a,s,0\n")
    asked: tuple[Any, ...] = (
        "-k",
        2,
        "--id",
        "car",
        "--stream",
        "cam",
        "--value",
        "v",
        "--streams",
        "n,s",
    )
    asked += ("--time", "t", "--window", 10, "--format", "csv", "--parts")
    head, *lines = good("fused", path, *asked).replace('"', "").splitlines()
    assert head.split(",")[3:] == ["car", "score", "n", "s"]
    assert [line.split(",")[3:] for line in lines] == [
        ["a", "0.5", "0.5", "0"],
        ["b", "0.25", "", "0.25"],
    ]
