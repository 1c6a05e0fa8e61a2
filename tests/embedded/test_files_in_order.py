"""Files are read in the order of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.embedded import formats, text_files, time_order
from support.files import QUERY, SHUFFLED, TABLE, WANT, write


def parts(folder: Path, ending: str, order: list[int]) -> Path:
    """Files of 40 rows each: the i-th stretch of time is in the file named ``order[i]``."""
    for place, name in enumerate(order):
        write(TABLE.slice(40 * place, 40), folder / f"{name}.{ending}")
    return folder


ASCENDING = list(range(1, 11))
MIXED = [3, 1, 10, 2, 9, 8, 5, 7, 6, 4]


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize("order", [ASCENDING, MIXED], ids=["natural", "mixed"])
def test_files_come_in_the_order_of_time(ending: str, order: list[int], tmp_path: Path) -> None:
    assert sb.rank(parts(tmp_path, ending, order), QUERY).to_pylist() == WANT
    skipping = sb.rank(tmp_path / f"*.{ending}", QUERY, on_bad="skip")
    assert skipping.to_pylist() == WANT  # nothing was late


def test_watch_reads_files_in_the_order_of_time(tmp_path: Path) -> None:
    answers = sb.watch(parts(tmp_path, "parquet", MIXED), QUERY)
    assert [row for answer in answers for row in answer.table.to_pylist()] == WANT


@pytest.mark.parametrize("held", [1 << 30, 1], ids=["merged", "sorted"])
def test_files_that_overlap_are_merged(
    held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skyband.embedded import sources

    monkeypatch.setattr(sources, "SORT_BYTES", held)
    monkeypatch.setattr(time_order, "_FEW_ROWS", 16)
    monkeypatch.setattr(formats, "BATCH_ROWS", 1)
    for place in range(3):
        rows = pa.array(range(place, 400, 3))
        write(TABLE.take(rows), tmp_path / f"router-{place}.parquet", rows=20)
    assert sb.rank(tmp_path, QUERY).to_pylist() == WANT
    watched = [row for a in sb.watch(tmp_path, QUERY) for row in a.table.to_pylist()]
    assert watched == WANT


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow", "jsonl"])
def test_one_file_out_of_order_is_sorted(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "BATCH_ROWS", 1)
    monkeypatch.setattr(text_files, "_FIRST_BLOCK", 1024)
    monkeypatch.setattr(text_files, "_BLOCK", 1024)
    monkeypatch.setattr(text_files, "_WHOLE", 1024)
    path = write(SHUFFLED, tmp_path / f"mixed.{ending}")
    got = sb.rank(path, QUERY)
    assert [{**row, "ts": None} for row in got.to_pylist()] == [{**r, "ts": None} for r in WANT]
    with pytest.raises(sb.DataError, match=r"out of order.*lateness='.*rank sorts"):
        list(sb.watch(path, QUERY))


@pytest.mark.parametrize("text", ["plain", "dictionary", "both"])
def test_sorting_goes_through_files_where_memory_is_small(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_order, "SORT_BYTES", 1500)
    monkeypatch.setattr(time_order, "_RUN_BYTES", 200)
    monkeypatch.setattr(time_order, "_FEW_BYTES", 1500)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made: list[Path] = []
    spill = time_order._spilled

    def spy(folder: Path, run: int, *rest: Any) -> Any:
        made.append(folder / f"{run}.arrow")
        return spill(folder, run, *rest)

    monkeypatch.setattr(time_order, "_spilled", spy)
    pieces = [SHUFFLED.slice(i, 30) for i in range(0, 400, 30)]
    for i, piece in enumerate(pieces):
        if text == "dictionary" or (text == "both" and i % 2):
            pieces[i] = piece.set_column(1, "id", piece["id"].combine_chunks().dictionary_encode())
    ticks = time_order.ticks_in(lambda c: c.cast("int64").to_numpy(), "ts")
    found = list(time_order.sorted_rows(iter(pieces), ticks))
    assert len(made) > 3
    assert not any(path.exists() for path in made)  # removed at the end
    want = SHUFFLED.take(pa.compute.sort_indices(SHUFFLED, [("ts", "ascending")]))
    got = [row for table in found for row in table.to_pylist()]
    assert got == want.to_pylist()  # rows of equal times keep their order
    assert max(table.num_rows for table in found) < 200


def test_rows_without_a_time_are_bad_rows_in_sorted_files_too(tmp_path: Path) -> None:
    ts = pa.chunked_array(
        [
            pa.concat_arrays(
                [SHUFFLED["ts"].combine_chunks().slice(0, 399), pa.nulls(1, "timestamp[us]")]
            )
        ]
    )
    path = write(SHUFFLED.set_column(0, "ts", ts), tmp_path / "holes.arrow")
    with pytest.warns(sb.SkybandWarning):
        assert sb.rank(path, QUERY, on_bad="skip").num_rows > 0
    with pytest.raises(sb.DataError, match="the time is null"):
        sb.rank(path, QUERY)


def test_over_a_count_window_files_come_by_name_and_are_never_sorted(tmp_path: Path) -> None:
    folder = parts(tmp_path, "parquet", MIXED)
    query = sb.TopK(k=1, score="score", id="id", time="ts", window=sb.CountWindow(40))
    want = pa.concat_tables([pq.read_table(folder / f"{i}.parquet") for i in ASCENDING])
    assert sb.rank(folder, query).equals(sb.rank(want, query))


def test_without_statistics_names_decide_and_late_rows_are_sorted(tmp_path: Path) -> None:
    for place, name in enumerate(MIXED):
        table = TABLE.slice(40 * place, 40)
        pq.write_table(table, tmp_path / f"{name}.parquet", write_statistics=False)
    assert sb.rank(tmp_path, QUERY).to_pylist() == WANT
    with pytest.raises(sb.DataError, match="came too late"):
        list(sb.watch(tmp_path, QUERY))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_statistics_in_every_unit(unit: str, tmp_path: Path) -> None:
    table = TABLE.set_column(0, "ts", TABLE["ts"].cast(pa.timestamp(unit, "Asia/Tokyo")))
    for name, start in (("a", 200), ("b", 0)):
        write(table.slice(start, 200), tmp_path / f"{name}.parquet")
    got = [row for answer in sb.watch(tmp_path, QUERY) for row in answer.table.to_pylist()]
    assert got == sb.rank(table, QUERY).to_pylist()


def test_natural_order() -> None:
    names = ["day/10.csv", "day/2.csv", "day/a10b2.csv", "day/a2b10.csv", "day 2/1.csv", "1.csv"]
    found = sorted(map(Path, names), key=time_order.by_name)
    assert [str(path) for path in found] == [
        *("1.csv", "day/2.csv", "day/10.csv", "day/a2b10.csv", "day/a10b2.csv", "day 2/1.csv")
    ]


def test_an_iterable_is_read_as_it_comes(tmp_path: Path) -> None:
    folder = parts(tmp_path, "parquet", ASCENDING)
    paths = [folder / f"{i}.parquet" for i in MIXED]
    said = (
        "came too late.*rank sorts a table, or the files of a folder or glob, but not an iterable"
    )
    with pytest.raises(sb.DataError, match=said):
        sb.rank(paths, QUERY)


@pytest.mark.parametrize(
    ("needed", "said"),
    [
        (5_399_999_759, "90 minutes"), (59 * 60_000_000, "1 hour"), (61_000_000, "61 seconds"),
        (86_400_000_001, "25 hours"), (2 * 86_400_000_000, "2 days"), (1_500, "1500 us"),
        (999_001, "1 second"), (1, "1 us"), (950, "1 ms"),
    ],
)  # fmt: skip
def test_durations_are_rounded_up(needed: int, said: str) -> None:
    from skyband.window import duration_text, parse_duration

    assert duration_text(needed) == said
    assert needed <= parse_duration(said) <= 1.1 * needed


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_board_reads_files_as_its_queries_alone_do(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = {
        "time": QUERY,
        "more": sb.TopK(k=5, score="score", id="id", time="ts", window=sb.TimeWindow("40 s")),
        "count": sb.TopK(k=1, score="score", time="ts", window=sb.CountWindow(40)),
    }
    folder = parts(tmp_path, ending, MIXED)
    alone = {name: sb.rank(folder, query) for name, query in board.items()}
    assert alone["time"].to_pylist() == WANT
    for threads in (1, 2):
        together = sb.rank(folder, board, threads=threads)
        assert {name: table.to_pylist() for name, table in together.items()} == {
            name: table.to_pylist() for name, table in alone.items()
        }
    monkeypatch.setattr("skyband.data.columns._SMALL_CHUNK", 1)
    chunked = pa.concat_tables([TABLE.slice(i, 33) for i in range(0, 400, 33)])
    two = {"time": board["time"], "more": board["more"]}
    for name, table in sb.rank(chunked, two, threads=2).items():
        assert table.equals(sb.rank(TABLE, two[name]))
