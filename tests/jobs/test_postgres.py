"""The PostgreSQL sink: each window once, and the newest run's rows."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs.job import JobSection
from skyband.jobs.sinks.base import SinkTarget
from support import spark_session

SCHEMA = pa.schema(
    [
        ("window_start", pa.timestamp("us", tz="UTC")),
        ("window_end", pa.timestamp("us", tz="UTC")),
        ("id", pa.string()),
        ("score", pa.float64()),
        ("n", pa.int32()),
    ]
)


def rows(end: int, names: str) -> pa.Table:
    """A window that ends at this second, with one row per letter."""
    moment = [end * 1_000_000] * len(names)
    columns = [moment, moment, list(names), [1.5] * len(names), [None] * len(names)]
    arrays = [
        pa.array(c) if i > 1 else pa.array(c).cast(SCHEMA.field(0).type)
        for i, c in enumerate(columns)
    ]
    return pa.table(arrays, names=SCHEMA.names).cast(SCHEMA)


def stored(dsn: str, table: str) -> str:
    """What a table holds, window by window."""
    import psycopg

    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            f"SELECT extract(epoch FROM window_end)::int, string_agg(id, '' ORDER BY id) "
            f"FROM {table} GROUP BY window_end ORDER BY window_end"
        ).fetchall()
    return " ".join(f"{end}:{names}" for end, names in found)


def sink(dsn: str, table: str, run: str, query: str = "job", groups: tuple[str, ...] = ()) -> Any:
    from skyband.jobs.sinks.postgres import PostgresSink

    section = JobSection("postgres", {"dsn": dsn, "table": table})
    made = PostgresSink(SinkTarget(section, job=query, query=query, groups=groups))
    made.open(run)
    return made


class TestRuns:
    def test_a_batch_tried_again_changes_nothing(self, dsn: str) -> None:
        run = sink(dsn, "again", "a")
        batch = [rows(1, "ab"), rows(2, "c")]
        assert run.write_tables(7, batch) == 3
        assert run.write_tables(7, batch) == 0
        assert sink(dsn, "again", "a").write_tables(7, batch) == 0
        assert run.write_tables(8, [rows(3, "d")]) == 1
        assert stored(dsn, "again") == "1:ab 2:c 3:d"

    def test_a_checkpoint_restored_from_a_copy_goes_on(self, dsn: str) -> None:
        run = sink(dsn, "copy", "a")
        run.write_tables(0, [rows(1, "a")])
        run.write_tables(1, [rows(2, "b")])
        # The same windows in other batches, and one more.
        assert run.write_tables(1, [rows(2, "b"), rows(3, "c")]) == 1
        assert stored(dsn, "copy") == "1:a 2:b 3:c"

    def test_a_newer_run_replaces_and_empties(self, dsn: str) -> None:
        old = sink(dsn, "anew", "a")
        old.write_tables(0, [rows(1, "ab"), rows(2, "c"), rows(3, "d")])
        old.write_tables(1, [rows(4, "e")])
        new = sink(dsn, "anew", "b")
        # The same batch number as the old run's; its window 2 has become empty.
        new.write_tables(0, [rows(1, "xyz"), rows(3, "v")])
        assert stored(dsn, "anew") == "1:xyz 3:v 4:e"
        new.write_tables(1, [rows(5, "w")])
        assert stored(dsn, "anew") == "1:xyz 3:v 5:w"

    def test_an_older_run_leaves_what_a_newer_one_wrote(self, dsn: str) -> None:
        old, new = sink(dsn, "pair", "a"), sink(dsn, "pair", "b")
        old.write_tables(0, [rows(1, "a")])
        new.write_tables(0, [rows(1, "x"), rows(3, "y")])
        assert old.write_tables(1, [rows(2, "b"), rows(3, "c"), rows(4, "d")]) == 1
        assert stored(dsn, "pair") == "1:x 3:y 4:d"

    def test_each_group_has_windows_of_its_own(self, dsn: str) -> None:
        """An older run leaves the windows that a newer one wrote, group by group."""

        def windows(text: str) -> pa.Table:
            told = [word.split(":") for word in text.split()]
            ends, groups, names = ([each[i] for each in told] for i in range(3))
            return pa.table({"window_end": list(map(int, ends)), "g": groups, "id": names})

        def found(table: str) -> str:
            import psycopg

            with psycopg.connect(dsn) as connection:
                rows = connection.execute(f"SELECT * FROM {table} ORDER BY g, window_end, id")
                return " ".join(f"{end}:{group}:{name}" for end, group, name in rows)

        old = sink(dsn, "each", "a", groups=("g",))
        old.write_tables(0, [windows("2:x:a 2:x:b 4:x:c")])
        old.write_tables(1, [windows("2:y:d")])
        old.write_tables(1, [windows("2:y:d 2:z:e")])  # once more, and further than before
        assert found("each") == "2:x:a 2:x:b 4:x:c 2:y:d 2:z:e"
        new = sink(dsn, "each", "b", groups=("g",))
        new.write_tables(0, [windows("2:x:v 2:y:w")])
        assert found("each") == "2:x:v 4:x:c 2:y:w 2:z:e"
        old.write_tables(2, [windows("2:x:a 4:y:f")])
        assert found("each") == "2:x:v 4:x:c 2:y:w 4:y:f 2:z:e"

    def test_a_failure_leaves_nothing(self, dsn: str) -> None:
        run = sink(dsn, "whole", "a")
        run.write_tables(0, [rows(1, "a")])
        wrong = rows(2, "b").append_column("more", pa.array([1]))
        with pytest.raises(Exception, match="more"):
            run.write_tables(1, [wrong])
        assert run.write_tables(1, [rows(2, "b")]) == 1
        assert stored(dsn, "whole") == "1:a 2:b"

    def test_two_jobs_do_not_share_a_table(self, dsn: str) -> None:
        sink(dsn, "mine", "a", "one").write_tables(0, [rows(1, "a")])
        with pytest.raises(sb.EngineError, match="written by the job 'one'"):
            sink(dsn, "mine", "b", "two")

    def test_two_jobs_with_queries_of_one_name_do_not_share_a_table(self, dsn: str) -> None:
        from skyband.jobs.sinks.files import make_sink

        section = JobSection("postgres", {"dsn": dsn, "dsn_env": None, "table": "ours"})
        make_sink(SinkTarget(section, job="first", query="busiest")).open("a")
        make_sink(SinkTarget(section, job="first", query="busiest")).open("b")
        with pytest.raises(sb.EngineError, match="written by the job 'first/busiest'"):
            make_sink(SinkTarget(section, job="second", query="busiest")).open("c")

    def test_ends_of_other_types(self, dsn: str) -> None:
        import psycopg

        naive = dt.datetime(2024, 1, 1)
        for name, ends in (("numbers", [10, 20]), ("naive", [naive, naive.replace(hour=1)])):
            first = pa.table({"window_end": [ends[0]], "id": ["a"]})
            both = pa.table({"window_end": ends, "id": ["b", "c"]})
            sink(dsn, name, "a").write_tables(0, [first])
            sink(dsn, name, "b").write_tables(0, [both])
            with psycopg.connect(dsn) as connection:
                found = connection.execute(f"SELECT window_end, id FROM {name} ORDER BY 1")
                assert found.fetchall() == list(zip(ends, "bc", strict=True))


def test_addresses(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from skyband.jobs.sinks.postgres import PostgresSink

    def made(table: str = "t", **settings: str) -> PostgresSink:
        return PostgresSink(SinkTarget(JobSection("postgres", {"table": table, **settings})))

    with pytest.raises(sb.QueryError, match="either dsn, or dsn_env"):
        made()
    with pytest.raises(sb.QueryError, match="no variable 'NOWHERE'"):
        made(dsn_env="NOWHERE")
    with pytest.raises(sb.QueryError, match="plain name"):
        made("t; drop table t", dsn=dsn)
    with pytest.raises(sb.EngineError, match="cannot be reached"):
        made(dsn="host=127.0.0.1 port=1 connect_timeout=2").open("a")
    monkeypatch.setenv("HERE", dsn)
    made(dsn_env="HERE").open("a")


JOB = """
name = "best"
checkpoint = "{state}"
master = "local[2]"
[source]
kind = "files"
path = "{folder}"
[query]
kind = "TopK"
k = 2
score = "score"
id = "id"
time = "ts"
window = {{ size = 10 }}
[sink]
kind = "postgres"
table = "best"
dsn_env = "BEST_DSN"
[trigger]
once = true
"""


@pytest.mark.spark
def test_two_runs_of_the_verb_the_second_corrected(
    spark: Any, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the tests' session; ``test_stopping`` runs the verb in a process of its own."""
    pytest.importorskip("typer", reason="the command line is an extra")
    import psycopg

    from support.command_line import good

    monkeypatch.setenv("BEST_DSN", dsn)
    monkeypatch.setattr(
        "skyband.jobs.spark.run_job.session_of", lambda *_: spark_session.Kept(spark)
    )
    times = list(range(1_000, 1_060))
    first = pa.table({"ts": times, "id": [f"i{t}" for t in times], "score": [1.0] * 60})
    # The corrected input has other scores, and no rows between 1,020 and 1,040.
    kept = [t for t in times if not 1_020 <= t < 1_040]
    second = pa.table(
        {"ts": kept, "id": [f"i{t}" for t in kept], "score": [-float(t) for t in kept]}
    )
    for number, table in enumerate((first, second)):
        spark_session.write_batches(tmp_path / f"in{number}", [table])
        path = tmp_path / "job.toml"
        path.write_text(JOB.format(state=f"state{number}", folder=f"in{number}"))
        good("pipeline", path)
        query = sb.TopK(k=2, score="score", id="id", time="ts", window=sb.TimeWindow(10))
        want, _ = spark_session.embedded(query, [table])
        with psycopg.connect(dsn) as connection:
            cursor = connection.execute("SELECT * FROM best ORDER BY window_end, rank")
            names = [column.name for column in cursor.description or ()]
            assert names == want.column_names
            assert cursor.fetchall() == [tuple(row.values()) for row in want.to_pylist()]
