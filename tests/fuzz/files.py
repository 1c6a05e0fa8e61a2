"""Files of every kind, good and damaged: read correctly, or refused with a SkybandError."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

import skyband as sb
from fuzz import checks

QUERY = sb.TopK(k=2, score="x", id="id", time="t", window=sb.TimeWindow(5, slide=2))
TEXTS = ("a", "é", "日本", 'q"', "a,b", "🙂", "b c")


def table_of(rng: random.Random) -> pa.Table:
    """A table that every kind of file can hold, in order of time."""
    n = rng.choice((0, 1, 3, 9, 20))
    now, times = rng.choice((0, -5, 1 << 40)), []
    for _ in range(n):
        now += rng.choice((0, 1, 3))
        times.append(now)
    return pa.table({
        "t": pa.array(times, pa.int64()),
        "id": pa.array([rng.choice(TEXTS) for _ in times], pa.string()),
        "x": pa.array([rng.choice((0.5, 1.0, -2.0)) for _ in times], pa.float64()),
    })  # fmt: skip


def case(rng: random.Random) -> Iterator[str]:
    """One file, read as it is and damaged in several ways."""
    table = table_of(rng)
    with tempfile.TemporaryDirectory() as folder:
        path = write(rng, table, Path(folder))
        whole = path.read_bytes()
        renamed = False
        for damage in (_same, *rng.sample(DAMAGES, 6)):
            damaged = damage(rng, whole)
            path.write_bytes(damaged)
            if rng.random() < 0.02:
                path = path.rename(path.with_suffix(rng.choice(list(WRITERS))))
                renamed = True
            _read(rng, path, table, damaged == whole and not renamed)
            yield "files"


def _read(rng: random.Random, path: Path, table: pa.Table, good: bool) -> None:
    """Rank a file: a good one gives the answers of the table, a damaged one may be refused."""
    source: Any = rng.choice((path, str(path), [path], [str(path), table], str(path.parent)))
    try:
        answers = checks.rank(source, QUERY, rng.choice(("raise", "skip")))
    except sb.SkybandError as error:
        text = path.suffix in (".csv", ".tsv", ".json", ".jsonl")
        again = isinstance(source, list) and len(source) > 1
        if good and not again and not (text and not table.num_rows):
            raise AssertionError(f"a good file was refused: {error}") from error
        return
    answers.validate(full=True)
    if good and table.num_rows and not isinstance(source, list):
        wanted = sb.rank(table, QUERY)
        same = answers.cast(wanted.schema).equals(wanted)
        assert same, f"{path.suffix}: {answers.to_pylist()}, not {wanted.to_pylist()}"


def write(rng: random.Random, table: pa.Table, folder: Path) -> Path:
    """The table as a file of a random kind."""
    ending = rng.choice(list(WRITERS))
    path = folder / f"{rng.choice(('rows', 'Zeilen ü', 'a b'))}{ending}"
    WRITERS[ending](path, table)
    return path


def _parquet(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path, row_group_size=7)


def _csv(path: Path, table: pa.Table) -> None:
    delimiter = "\t" if path.suffix == ".tsv" else ","
    csv.write_csv(table, path, csv.WriteOptions(delimiter=delimiter))


def _json(path: Path, table: pa.Table) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()), "utf-8")


def _ipc(path: Path, table: pa.Table) -> None:
    make = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
    with make(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


WRITERS: dict[str, Any] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".tsv": _csv,
    ".jsonl": _json,
    ".json": _json,
    ".arrow": _ipc,
    ".arrows": _ipc,
}


def _same(rng: random.Random, data: bytes) -> bytes:
    return data


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip(rng: random.Random, data: bytes) -> bytes:
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 2, 8)) if data else 0):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    return bytes(damaged)


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    words = (b"\n", b"\r\n", b",", b"\x00", b"\xff\xfe", b'"', b"{}", b"null", rng.randbytes(20))
    return data[:at] + rng.choice(words) + data[at:]


def _front(rng: random.Random, data: bytes) -> bytes:
    return (
        rng.choice((b"\xef\xbb\xbf", b"\n\n", b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff")) + data
    )


def _nothing(rng: random.Random, data: bytes) -> bytes:
    return rng.choice((b"", b"\n", b"\x00" * 40, rng.randbytes(300)))


DAMAGES = (_cut, _cut, _cut, _flip, _flip, _insert, _insert, _front, _nothing)
"""What may happen to a file."""
