"""Files as a source of local jobs: their order, and which columns are read."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.embedded import formats
from skyband.jobs import parse_job
from skyband.jobs.job import JobSection
from skyband.jobs.local.files import FileSource
from skyband.jobs.local.local_job import LocalJob, run_local

QUERY: dict[str, Any] = {"kind": "TopK", "k": 2, "score": "x", "id": "id", "time": "ts"}
WINDOW: dict[str, Any] = {"size": 50, "slide": 10}


def hour(number: int) -> pa.Table:
    rng = np.random.default_rng(number)
    return pa.table(
        {
            "ts": np.sort(rng.integers(number * 100, (number + 1) * 100, 40)),
            "id": rng.integers(0, 9, 40),
            "x": rng.integers(0, 1_000, 40),
            "text": ["never read"] * 40,
        }
    )


def job(folder: Path, **changes: Any) -> Any:
    told: dict[str, Any] = {
        "name": "network",
        "engine": "local",
        "checkpoint": str(folder / "state"),
        "source": {"kind": "files", "path": str(folder / "in"), "rows_per_batch": 30},
        "query": QUERY | {"window": WINDOW},
        "sink": {"kind": "files", "path": str(folder / "out")},
        "trigger": {"once": True, "close": True},
    }
    return parse_job(told | changes)


def written(folder: Path, names: str) -> None:
    (folder / "in").mkdir()
    for number, name in enumerate(names):
        pq.write_table(hour(number), folder / "in" / f"{name}.parquet")


def test_files_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    written(tmp_path, "cab")
    running = LocalJob(job(tmp_path))
    for _ in running.steps(lambda: False):
        pass
    assert running.monitor.stats()["rows_late"] == 0
    query = sb.TopK(
        **({n: v for n, v in QUERY.items() if n != "kind"}), window=sb.TimeWindow(**WINDOW)
    )
    found = pq.read_table(tmp_path / "out")
    found = found.sort_by([("window_end", "ascending"), ("rank", "ascending")])
    assert found.to_pylist() == sb.rank(tmp_path / "in", query).to_pylist()


@pytest.mark.parametrize("again", [False, True])
def test_a_file_that_was_changed_after_it_was_read_stops_the_job(
    tmp_path: Path, again: bool
) -> None:
    """While it runs, and when it is started again."""
    written(tmp_path, "ab")
    trigger, until = {"trigger": {"once": again}}, time.monotonic() + 20
    steps = LocalJob(job(tmp_path, **trigger)).steps(lambda: time.monotonic() > until)
    for _ in range(3):
        next(steps)
    if again:
        list(steps)
        steps = LocalJob(job(tmp_path, **trigger)).steps(lambda: False)
    path = tmp_path / "in" / "a.parquet"
    pq.write_table(pa.concat_tables([hour(0), hour(2)]), path)
    with pytest.raises(sb.EngineError, match=r"a\.parquet' has changed since .* new files"):
        list(steps)


def test_a_file_dated_in_the_future_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks differ: such a file is complete when it has stayed as it is for a while."""
    monkeypatch.setattr("skyband.jobs.local.files._SETTLED", 0.2)
    written(tmp_path, "ab")
    path = tmp_path / "in" / "b.parquet"
    os.utime(path, (4e9, 4e9))
    settings = {"path": str(tmp_path / "in")}
    source = FileSource("[source]", JobSection("files", settings), tmp_path / "record")
    time.sleep(0.3)  # until the other one is complete
    found = source.take(source.first, last=False)
    assert found is not None
    assert found[0].num_rows == 40
    until = time.monotonic() + 20
    while (more := source.take(found[1], last=False)) is None and time.monotonic() < until:
        time.sleep(0.02)
    assert more is not None
    assert more[0].num_rows == 40


@pytest.mark.parametrize("letters", [False, True])
def test_only_needed_columns_are_read(
    tmp_path: Path, letters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "ab")
    asked: list[Any] = []
    load = formats.ParquetFile.load

    def noted(self: Any, groups: Any, names: Any) -> Any:
        asked.append(names)
        return load(self, groups, names)

    monkeypatch.setattr(formats.ParquetFile, "load", noted)
    more = {"dead_letters": {"kind": "files", "path": str(tmp_path / "bad")}} if letters else {}
    run_local(job(tmp_path, **more))
    # A dead letter holds the whole row.
    assert {None if names is None else tuple(names) for names in asked} == (
        {None} if letters else {("ts", "id", "x")}
    )


def test_row_groups_are_not_cut_to_fill_up_batches(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        pq.write_table(hour(number), tmp_path / "in" / f"{number}.parquet", row_group_size=25)
    section = JobSection("files", {"path": str(tmp_path / "in")})
    source = FileSource("[source]", section, tmp_path / "files")
    source.rows_per_batch = 60
    place, batches = source.first, []
    while (found := source.take(place, last=True)) is not None:
        begin, (table, place) = place, found
        batches.append((begin, place, table))
    # Row groups of 25 and 15 rows.
    assert [table.num_rows for *_, table in batches] == [40, 40, 40]
    for begin, end, table in batches:
        assert source.again(begin, end).equals(table)
    source.rows_per_batch = 20  # less than a row group
    found = source.take(source.first, last=True)
    assert found is not None
    assert found[0].num_rows == 20


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("ts,id,x\n1,a,5\n", "ts,id,x\n2,b,7.5\n", "'x' had type int64 .* has double now"),
        ("ts,id,x,x\n1,a,5,6\n", "ts,id,x,x\n2,b,7,8\n", "column 'x' occurs twice"),
        ("ts,id,x,x\n1,a,5,6\n", None, "column 'x' occurs twice"),
    ],
)
def test_columns_that_do_not_fit_are_an_error_of_ours(
    tmp_path: Path, first: str, second: str | None, said: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(first)
    if second is not None:
        (tmp_path / "in" / "b.csv").write_text(second)
    with pytest.raises(sb.SchemaError, match=said):
        run_local(job(tmp_path, on_bad="raise"))


@pytest.mark.parametrize("form", [{"format": "%d.%m.%Y"}, {"unit": "s"}], ids=["text", "numbers"])
@pytest.mark.parametrize("name", ["1.csv", "1.csv.gz"])
def test_text_that_is_written_otherwise(tmp_path: Path, form: dict[str, str], name: str) -> None:
    times = (
        [-1e30, 5, 90_000, 80_000]
        if "unit" in form
        else ["?", "01.01.1970", "02.01.1970", "01.01.1970"]
    )
    rows = [f"{time};{i};{i}" for i, time in enumerate(times)]
    (tmp_path / "in").mkdir()
    with pa.output_stream(str(tmp_path / "in" / name), compression="detect") as file:
        file.write("\n".join(["ts;id;x", *rows, "broken"]).encode())
    query = QUERY | {
        "time": {"column": "ts"} | form,
        "window": {"size": "1 day", "lateness": "1 day"},
    }
    source = {"kind": "files", "path": str(tmp_path / "in"), "delimiter": ";"}
    letters = {"kind": "files", "path": str(tmp_path / "letters")}
    run_local(job(tmp_path, query=query, source=source, dead_letters=letters))
    found = pq.read_table(tmp_path / "out").sort_by(
        [("window_end", "ascending"), ("rank", "ascending")]
    )
    assert found["id"].to_pylist() == [3, 1, 2]
    (file,) = (tmp_path / "letters").glob("*.json")
    reasons = [json.loads(line)["reason"] for line in file.read_text().splitlines()]
    assert ["not a CSV record" in each for each in reasons] == [True, False]
    assert ("out of range" if "unit" in form else "not a time of the format '%d.%m.%Y'") in reasons[
        1
    ]


@pytest.mark.parametrize("delimiter", ["", ";;", '"'])
def test_a_delimiter_is_one_character(tmp_path: Path, delimiter: str) -> None:
    source = {"kind": "files", "path": str(tmp_path), "delimiter": delimiter}
    with pytest.raises(sb.QueryError, match="delimiter must be one character"):
        job(tmp_path, source=source)
