"""Small bodies that become large, and damaged ones: refused or read, never a crash.

Limits are small here, so that today's memory suffices for what an attack would blow up.
"""

from __future__ import annotations

import io
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from skyband.jobs.ddl import arrow_schema
from skyband.jobs.local.posts import PostRefused, Request
from skyband.serve import bodies
from skyband.serve.bodies import read_body
from skyband.serve.limits import ServiceLimits, UnreadableBody
from support import served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

ARROW = "application/vnd.apache.arrow.stream"
SCHEMA = arrow_schema("", served.SCHEMA)
LIMITS = ServiceLimits(body_rows=10_000, decoded_bytes=1 << 20)
ROWS = 50_000
LONG = "x" * 1_000


def stream(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    given = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_stream(sink, table.schema, options=given) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def body(rows: int = ROWS, **columns: Any) -> pa.Table:
    """Rows of the service's columns, all null but those that are given."""
    return pa.table({name: columns.get(name, pa.nulls(rows)) for name in SCHEMA.names})


def plain(rows: int) -> pa.Table:
    return read_body("json", served.ndjson(served.rows(0, rows)), SCHEMA)


def repeated(rows: int, text: Any, kind: pa.DataType | None = None) -> pa.Array:
    """One text and many references to it."""
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), pa.array([text], kind))


def many_views(rows: int, text: str) -> pa.Array:
    one = pa.array([text], pa.string_view())
    views = np.frombuffer(one.buffers()[1], np.uint8)
    buffers = [None, pa.py_buffer(np.tile(views, rows)), one.buffers()[2]]
    return pa.Array.from_buffers(pa.string_view(), rows, buffers)


def runs(rows: int) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int64()), pa.array(["x"]))


def deltas(count: int) -> bytes:
    """A dictionary that each batch makes longer, so that each has a long one of its own."""
    sink, words = pa.BufferOutputStream(), [LONG * 50]
    kind = pa.dictionary(pa.int32(), pa.string())
    fields = [pa.field(n, kind if n in ("flow", "host") else pa.null()) for n in SCHEMA.names]
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, pa.schema(fields), options=options) as writer:
        for i in range(count):
            words.append(str(i))
            coded = pa.DictionaryArray.from_arrays(np.zeros(1, np.int32), pa.array(words))
            columns = [pa.nulls(1), coded, coded, pa.nulls(1)]
            writer.write_batch(pa.record_batch(columns, schema=pa.schema(fields)))
    return bytes(sink.getvalue())


def old_form() -> bytes:
    """Compressed as before Arrow 1.0: the metadata of a message says so, not its head."""
    sink, batch = pa.BufferOutputStream(), plain(9).to_batches()[0]
    batch = batch.set_column(3, "bytes", pa.array([1 << 26] * 9))
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.MetadataVersion.V4)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch, custom_metadata={"ARROW:experimental_compression": "zstd"})
    return bytes(sink.getvalue())


def empty_batches(count: int) -> bytes:
    sink, batch = pa.BufferOutputStream(), plain(1).to_batches()[0].slice(1)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        for _ in range(count):
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def wide(columns: int) -> bytes:
    more = {f"c{i}": [1] for i in range(columns)}
    return stream(pa.table({**{name: plain(1)[name] for name in SCHEMA.names}, **more}))


def in_json(line: str, count: int) -> bytes:
    return (line + "\n").encode() * count


def many_values(count: int) -> bytes:
    """A line that Arrow does not read, for its ``bytes`` has a fraction."""
    return b'{"bytes": 1.0, "x": [%b0]}\n' % (b"[]," * count)


ZEROS = pa.array(np.zeros(4 * ROWS, np.int64))
NO_BYTES = pa.Array.from_buffers(pa.binary(0), 10**8, [None, pa.py_buffer(b"")])
HUGE = LONG * 9_999
BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "null columns": ("arrow", lambda: stream(body(10**8))),
    "zstd": ("arrow", lambda: stream(body(len(ZEROS), bytes=ZEROS), compression="zstd")),
    "lz4": ("arrow", lambda: stream(body(len(ZEROS), bytes=ZEROS), compression="lz4")),
    "a long text": ("arrow", lambda: stream(body(1, flow=pa.array([HUGE])), compression="zstd")),
    "another column": (
        "arrow",
        lambda: stream(plain(1).append_column("x", pa.array([HUGE])), compression="zstd"),
    ),
    "a dictionary": ("arrow", lambda: stream(body(1, flow=repeated(1, HUGE)), compression="zstd")),
    "repeated text": ("arrow", lambda: stream(body(5_000, flow=repeated(5_000, LONG)))),
    "repeated bytes": (
        "arrow",
        lambda: stream(body(5_000, flow=repeated(5_000, LONG.encode(), pa.binary(1_000)))),
    ),
    "views of one text": ("arrow", lambda: stream(body(5_000, flow=many_views(5_000, LONG)))),
    "runs": ("arrow", lambda: stream(body(10**9, flow=runs(10**9)))),
    "binary without bytes": ("arrow", lambda: stream(body(10**8, flow=NO_BYTES))),
    "small numbers": ("arrow", lambda: stream(body(bytes=pa.array(np.zeros(ROWS, np.int8))))),
    "dictionaries that grow": ("arrow", lambda: deltas(60)),
    "batches without rows": ("arrow", lambda: empty_batches(2_000)),
    "columns without end": ("arrow", lambda: wide(25_000)),
    "the old form": ("arrow", old_form),
    "empty objects": ("json", lambda: in_json("{}", ROWS)),
    "blank lines": ("json", lambda: in_json("", ROWS)),
    "rows in few bytes": ("json", lambda: in_json('{"bytes":1}', 9_999 * 5)),
    "objects in a list": ("document", lambda: b"[" + b"{}," * ROWS + b"{}]"),
    "values in an object": (
        "document",
        lambda: b'[{"bytes": 1.0, "x": [%b0]}]' % (b"[]," * 400_000),
    ),
    "many values in a line": ("json", lambda: many_values(400_000)),
    "empty cells": ("csv", lambda: b"ts,flow,host,bytes\n" + b",,,\n" * ROWS),
    "a header without end": ("csv", lambda: b"ts,flow,host,bytes" + b",ab" * 400_000),
    "a record without end": (
        "csv",
        lambda: b"ts,flow,host,bytes\n" + b'"a\nb",' * 400_000,
    ),
    "a long header": ("csv", lambda: b"ts,flow,host,bytes," + b"a" * 200_000),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_becomes_large_is_refused_before_it_is_built(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "_MOST_VALUES", 100_000)
    kind, make = BOMBS[name]
    made = make()
    assert len(made) < 4 << 20
    pool = pa.default_memory_pool()
    allocated = getattr(pool, "total_bytes_allocated", pool.bytes_allocated)
    before = allocated()
    tracemalloc.start()
    with pytest.raises(UnreadableBody) as refused:
        read_body(kind, made, SCHEMA, LIMITS)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert allocated() - before + most < 16 * LIMITS.decoded_bytes
    assert len(str(refused.value)) < 500


def test_a_service_refuses_it_and_goes_on(tmp_path: Path) -> None:
    service = served.new_service(tmp_path)
    with served.serving(service) as client:
        for name in ("null columns", "runs"):
            reply = client.post(BOMBS[name][1](), content_type=ARROW)
            assert reply.status == 413
            assert "smaller parts" in reply.json["error"]
        assert client.post(stream(plain(3)), content_type=ARROW).json == {"rows": 3}
        assert service.status.rows[""] == 3


def test_what_waits_is_counted_as_large_as_it_became(tmp_path: Path) -> None:
    service = served.new_service(tmp_path)
    sizes: list[int] = []
    submit = service.inbox.submit

    def watched(request: Request) -> Any:
        sizes.append(request.size)
        return submit(request)

    service.inbox.submit = watched  # type: ignore[method-assign]
    with served.serving(service) as client:
        sent = stream(plain(1).take([0] * 5_000), compression="zstd")
        assert client.post(sent, content_type=ARROW).status == 200
        assert sizes[0] > 7 * len(sent)


# Damaged bodies -----------------------------------------------------------------------------------


def good() -> list[tuple[str, bytes]]:
    """Bodies that can be read, of every kind."""
    table = plain(20)
    coded = table.set_column(1, "flow", table["flow"].dictionary_encode())
    view = table.set_column(1, "flow", table["flow"].cast(pa.string_view()))
    several = pa.concat_tables([table.slice(i, 5) for i in range(0, 20, 5)])
    old = {"metadata_version": pa.ipc.MetadataVersion.V4}
    streams = [stream(each) for each in (table, coded, view, several, body(20))]
    streams += [stream(each, compression="zstd") for each in (table, coded, several)]
    streams += [stream(table, compression="lz4"), stream(table, **old), BOMBS["runs"][1]()]
    text = io.BytesIO()
    pa.csv.write_csv(table, text)
    return [
        *(("arrow", each) for each in streams),
        ("csv", text.getvalue()),
        ("json", served.ndjson(served.rows(0, 20))),
        (
            "document",
            b"[" + served.ndjson(served.rows(0, 20)).strip().replace(b"\n", b",\n") + b"]",
        ),
    ]


NUMBERS = [
    0,
    1,
    -1,
    7,
    64,
    255,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    1 << 40,
    (1 << 63) - 1,
    -(1 << 63),
]


def damaged(whole: bytes, rng: random.Random) -> bytes:
    """A body with some bytes, numbers or pieces changed."""
    found = bytearray(whole)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(found))
        what = rng.randrange(6)
        if what == 0:
            found[at] = rng.randrange(256)
        elif what == 1:
            found[at] ^= 1 << rng.randrange(8)
        elif what in (2, 3):  # most numbers of a stream begin at a multiple of four
            size, at = (8, at & ~7) if what == 2 else (4, at & ~3)
            number = rng.choice(NUMBERS) % (1 << 8 * size)
            found[at : at + size] = number.to_bytes(size, "little")
        elif what == 4:
            del found[at : at + rng.choice([1, 8, 64])]
        else:
            start = rng.randrange(len(found))
            found[at:at] = found[start : start + rng.choice([1, 8, 64])]
        if not found:
            return b""
    return bytes(found)


def attack(folder: Path, count: int, seed: int) -> None:
    rng, wholes, read, longest = random.Random(seed), good(), 0, 0
    service = served.new_service(folder, on_bad="raise", history=5)
    for _ in range(count):
        kind, whole = rng.choice(wholes)
        try:
            table = read_body(kind, damaged(whole, rng), SCHEMA, LIMITS)
        except UnreadableBody as problem:
            longest = max(longest, len(str(problem)))
            continue
        read += 1
        assert table.schema.equals(SCHEMA)
        assert table.num_rows <= LIMITS.body_rows
        table.validate(full=True)
        try:
            service.inbox.submit(Request("", table, table.nbytes)).result(60)
        except PostRefused:
            continue
    assert service.failure is None
    assert 0 < read < count
    assert longest < 1_000
    service.close()


def test_damaged_bodies(tmp_path: Path) -> None:
    attack(tmp_path, 400, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_damaged_bodies(tmp_path: Path, seed: int) -> None:
    attack(tmp_path, 5_000, seed)
