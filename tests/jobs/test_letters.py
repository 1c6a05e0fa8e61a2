"""Dead letters: each bad record once, with its own reason and origin; no record is lost."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.data.ipc import table_from
from skyband.data.letters import LETTERS, RAW, UNREAD, CarriedColumns
from skyband.jobs import parse_job
from skyband.spark.bucket import Bucket
from skyband.spark.plan import BoardPlan
from skyband.spark.summarise import summariser
from support import kafka_broker, spark_session, spark_simulator

TOPK = sb.TopK(k=2, score="score", id="id", time="ts", window=sb.TimeWindow(10))
ORIGIN = {"topic": "t", "partition": "p", "offset": "o"}
CARRIED = CarriedColumns(
    "not JSON that fits the schema", ORIGIN, ("ts", "id", "score", "note"), letters=True
)
READ = pa.table(
    {
        "ts": [1, None, 3, 4, None, None],
        "id": ["a", None, "c", None, None, None],
        "score": [1.0, None, float("nan"), 4.0, None, None],
        "note": ["", None, "kept", "too", None, None],
        UNREAD: [False, True, False, False, True, True],
        RAW: pa.array([None, b"{oops", None, None, b"\xff\x00", None], pa.binary()),
        "t": ["flows"] * 6,
        "p": pa.array([0, 0, 0, 1, 1, 1], pa.int32()),
        "o": [7, 8, 9, 0, 1, 2],
    }
)


def packed(
    plan: Any, source: str, carried: CarriedColumns, table: pa.Table
) -> list[dict[str, Any]]:
    run = summariser(plan, source, carried)
    return [row for batch in run(iter(table.to_batches())) for row in batch.to_pylist()]


class TestSummaries:
    def test_bad_records_travel_beside_the_summaries(self) -> None:
        plan = spark_simulator.plan_of(TOPK, {"": READ}, on_bad="skip")
        rows = packed(plan, "", CARRIED, READ)
        assert sum(row["rows_in"] for row in rows) == 6
        assert sum(row["rows_bad"] for row in rows) == 5
        letters = pa.concat_tables(table_from(row["letters"]) for row in rows if row["letters"])
        assert letters.schema == LETTERS
        found = {row["offset"]: row for row in letters.to_pylist()}
        assert letters.num_rows == len(found) == 5
        assert [found[n]["partition"] for n in (8, 9, 0, 1, 2)] == [0, 0, 1, 1, 1]
        assert {row["topic"] for row in found.values()} == {"flows"}
        unread = {n: (found[n]["record"], found[n]["encoding"]) for n in (8, 1, 2)}
        raw = base64.b64encode(b"\xff\x00").decode()
        assert unread == {8: ("{oops", "text"), 1: (raw, "base64"), 2: (None, "text")}
        assert {found[n]["reason"] for n in (8, 1, 2)} == {"not JSON that fits the schema"}
        # Each row has its own reason, and all its columns; NaN is text.
        assert found[9]["reason"] == "column 'score': the score is not a number (nan)"
        assert found[0]["reason"] == "column 'id': the id is null (None)"
        assert json.loads(found[9]["record"]) == {
            "ts": 3,
            "id": "c",
            "score": "NaN",
            "note": "kept",
        }

    @pytest.mark.parametrize(
        ("first", "told"),
        [
            (1, r"3 bad rows: topic 'flows', partition 0, offset 8: not JSON .*: \{oops "),
            (2, r"topic 'flows', partition 0, offset 9: column 'score': the score is not a num"),
        ],
    )
    def test_raised_with_place_and_text(self, first: int, told: str) -> None:
        plan = spark_simulator.plan_of(TOPK, {"": READ})
        table = READ.slice(first) if first == 1 else READ.slice(first, 1)
        with pytest.raises(sb.DataError, match=told):
            packed(plan, "", CarriedColumns("not JSON that fits the schema", ORIGIN), table)

    def test_without_letters_they_are_counted(self) -> None:
        plan = spark_simulator.plan_of(TOPK, {"": READ}, on_bad="skip")
        rows = packed(plan, "", CarriedColumns("not JSON that fits the schema", ORIGIN), READ)
        assert sum(row["rows_bad"] for row in rows) == 5
        assert not any(row["letters"] for row in rows)

    @pytest.mark.parametrize("by", [(), ("g",)])
    def test_rows_that_are_refused_late(self, by: tuple[str, ...]) -> None:
        window = sb.TimeWindow(10)
        query = sb.FusedTopK(
            k=2,
            id="id",
            value="v",
            stream="s",
            streams=("r1", "r2"),
            time="ts",
            window=window,
            by=by,
        )
        table = pa.table(
            {
                "ts": [1, 2, 3, 30],
                "id": ["a", "a", "a", "z"],
                "v": [0.5, 0.25, 0.75, 0.1],
                "s": ["r1", "r1", "r2", "r1"],
                "g": ["x", "x", "x", "x"],
            }
        )
        for wanted in (True, False):
            plan = spark_simulator.plan_of(query, {"": table}, on_bad="skip")
            plan = BoardPlan({"": replace(plan.first, letters=wanted)}, alone=True)
            (label,) = plan.labels
            store, found = spark_simulator.Memory(), []
            rows = packed(plan, "", CarriedColumns(letters=wanted), table)
            buckets = {row["bucket"] for row in rows}
            for watermark, blobs in ((0, [row["payload"] for row in rows]), (10_000, [])):
                bucket = Bucket(plan, label, store)
                (outcome,) = bucket.step(watermark, blobs).values()
                bucket.save(None)
                found += outcome.letters
            assert len(buckets) == 1
            assert bool(found) == wanted
            if wanted:
                (letter,) = pa.concat_tables(found).to_pylist()
                assert "'a' has too many reports in the stream 'r1' at time 2" in letter["reason"]
                record = {"id": "a", "s": "r1", "v": 0.25, "ts": 2} | ({"g": "x"} if by else {})
                assert json.loads(letter["record"]) == record


def job(folder: Path, **changes: Any) -> dict[str, Any]:
    told = {
        "name": "loads",
        "checkpoint": str(folder / "state"),
        "shards": 2,
        "source": {
            "kind": "files",
            "path": str(folder / "in"),
            "format": "json",
            "schema": "ts bigint, id string, v double, s string, note string",
            "files_per_batch": 1,
        },
        "query": {
            "kind": "FusedTopK",
            "k": 2,
            "id": "id",
            "value": "v",
            "stream": "s",
            "streams": ["r1", "r2"],
            "time": "ts",
            "window": {"size": 10},
        },
        "sink": {"kind": "files", "path": str(folder / "out"), "format": "json"},
        "dead_letters": {"kind": "files", "path": str(folder / "bad")},
        "trigger": {"once": True},
    }
    return told | changes


def lines(folder: Path) -> list[dict[str, Any]]:
    """All JSON lines in a folder; every line must be valid JSON, without NaN."""

    def refuse(text: str) -> None:
        raise AssertionError(text)

    return [
        json.loads(line, parse_constant=refuse)
        for path in sorted(folder.glob("*.json"))
        for line in path.read_text().splitlines()
    ]


@pytest.mark.spark
class TestJobs:
    def test_letters_of_a_job_with_shards(self, spark: Any, tmp_path: Path) -> None:
        """Unreadable lines, a value out of bounds, NaN, one report too many; then a second run."""
        from skyband.jobs.spark.run_job import run

        rows = [
            {"ts": t, "id": f"i{t % 7}", "v": t % 10 / 10, "s": "r1" if t % 14 < 7 else "r2"}
            for t in range(1_000, 1_042)
        ]
        good = [json.dumps(row) for row in rows]
        extra = '{"ts": 1009, "id": "i0", "v": 0.125, "s": "r1", "note": "again"}'
        bad = [
            "{oops",
            '{"ts": "soon", "id": "q"}',
            '{"ts": 1003, "id": "q", "v": 7.5, "s": "r1", "note": "kept"}',
            '{"ts": 1003, "id": "q", "v": "NaN", "s": "r1"}',
        ]
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "1.json").write_text("\n".join(good[:9] + bad + [extra] + good[9:]))
        told = parse_job(job(tmp_path, metrics={"port": kafka_broker.free_port()}))
        listeners = len(spark._jsparkSession.streams().listListeners())
        run(told, spark)
        assert len(spark._jsparkSession.streams().listListeners()) == listeners
        answers = lines(tmp_path / "out")
        table = pa.Table.from_pylist(rows)
        want, _ = spark_session.embedded(told.queries[told.name], [table], on_bad="skip")
        key = lambda row: (row["window_end"], row["rank"])  # noqa: E731
        assert sorted(answers, key=key) == want.to_pylist()
        letters = lines(tmp_path / "bad")
        assert len(letters) == 5
        by = {letter["record"]: letter for letter in letters}
        assert by["{oops"]["reason"] == "not a JSON record that fits the schema"
        assert bad[1] in by
        early = [letter for letter in letters if letter["file"] is not None]
        assert len(early) == 4
        assert {letter["file"].rsplit("/", 1)[-1] for letter in early} == {"1.json"}
        reasons = {
            json.loads(r)["v"]: x["reason"] for r, x in by.items() if x["encoding"] == "json"
        }
        assert "outside the bounds" in reasons[7.5]
        assert "not a number" in reasons["NaN"]
        assert "has too many reports" in reasons[0.125]
        kept = next(r for r in by if '"kept"' in r)
        assert json.loads(kept) == json.loads(bad[2])
        # A batch that is retried writes the same files again.
        names = sorted(path.name for path in (tmp_path / "bad").iterdir())
        last = max(
            (tmp_path / "state" / "answers" / "commits").glob("[0-9]*"), key=lambda p: int(p.name)
        )
        for path in (last, last.with_name(f".{last.name}.crc")):
            path.unlink(missing_ok=True)
        run(told, spark)
        assert sorted(path.name for path in (tmp_path / "bad").iterdir()) == names
        assert sorted(lines(tmp_path / "out"), key=key) == want.to_pylist()

    def test_letters_that_cannot_be_written_stop_the_job(self, spark: Any, tmp_path: Path) -> None:
        from skyband.jobs.sinks.files import FilesSink
        from skyband.jobs.spark.run_job import run

        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "1.json").write_text("{oops\n")
        told = parse_job(job(tmp_path, shards=1))
        with pytest.MonkeyPatch.context() as patch:

            def full(self: FilesSink, batch: int, rows: Any) -> None:
                raise OSError(28, "No space left on device")

            patch.setattr(FilesSink, "write", full)
            with pytest.raises(sb.EngineError, match="No space left on device"):
                run(told, spark)
        run(told, spark)
        assert [letter["record"] for letter in lines(tmp_path / "bad")] == ["{oops"]

    def test_a_first_start_that_fails_claims_nothing(self, spark: Any, tmp_path: Path) -> None:
        from skyband.jobs.spark.run_job import run

        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "1.json").write_text('{oops\n{"ts": 1}\n')
        told = job(tmp_path, shards=1, on_bad="raise")
        with pytest.raises(sb.EngineError, match=r"1\.json.*not a JSON record.*oops"):
            run(parse_job(told), spark)
        # Another query may use the folder.
        run(parse_job(told | {"shards": 2, "on_bad": "skip"}), spark)
        assert len(lines(tmp_path / "bad")) == 2
        with pytest.raises(sb.EngineError, match="another query"):
            run(parse_job(told), spark)
