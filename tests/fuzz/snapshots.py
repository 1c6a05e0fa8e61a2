"""Damaged snapshots: refused with an EngineError, or equivalent to the undamaged one."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

import skyband as sb
from fuzz import streams
from fuzz.specs import said


def case(rng: random.Random) -> Iterator[str]:
    """One snapshot, damaged in all ways."""
    drawn = streams.draw(rng)
    monitor = sb.Monitor(drawn.query)
    batches = streams.pushes(rng, drawn)
    for batch in batches[: rng.randint(0, len(batches))]:
        tables = {name: drawn.sources[name].table(a, b) for name, (a, b) in batch.items()}
        monitor.push(tables if drawn.several else tables[""])
    blob = monitor.snapshot()
    assert monitor.snapshot() == blob, "two snapshots of one state differ"
    own = streams.not_in_snapshots(drawn.query)
    for damage in DAMAGES:
        damaged = damage(rng, blob)
        restored: Any = rng.choice((bytes, bytes, bytearray, memoryview))(damaged)
        if damaged == blob:
            again = sb.Monitor.restore(restored, **own).snapshot()
            assert again == blob, "a snapshot of a snapshot differs"
        else:
            _refused(restored, blob, own)
        yield "snapshots"
    if own:
        _refused(blob, None, {})
        yield "snapshots"


def _refused(damaged: Any, blob: bytes | None, own: dict[str, Any]) -> None:
    try:
        again = sb.Monitor.restore(damaged, **own)
    except sb.EngineError as error:
        said(error)
        return
    assert again.snapshot() == blob, "a damaged snapshot was taken for a good one"


def _cut(rng: random.Random, blob: bytes) -> bytes:
    return blob[: rng.randrange(len(blob))]


def _longer(rng: random.Random, blob: bytes) -> bytes:
    return blob + rng.randbytes(rng.choice((1, 8, 64)))


def _flip(rng: random.Random, blob: bytes) -> bytes:
    damaged = bytearray(blob)
    for _ in range(rng.choice((1, 1, 2, 10))):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def _head(rng: random.Random, blob: bytes) -> bytes:
    """Change the magic bytes, the version, the checksum or a length."""
    at, size = rng.choice(((0, 8), (8, 4), (12, 4), (16, 8), (24, 8)))
    numbers = (0, 1, 2, (1 << 32) - 1, len(blob), rng.randrange(1 << 32))
    value = struct.pack("<Q", rng.choice(numbers))[:size]
    return blob[:at] + value + blob[at + size :]


def _zeroed(rng: random.Random, blob: bytes) -> bytes:
    start = rng.randrange(len(blob))
    end = min(len(blob), start + rng.choice((1, 64, 512)))
    return blob[:start] + bytes(end - start) + blob[end:]


def _without_a_block(rng: random.Random, blob: bytes) -> bytes:
    start = rng.randrange(len(blob)) // 64 * 64
    return blob[:start] + blob[start + 64 :]


def _swapped(rng: random.Random, blob: bytes) -> bytes:
    blocks = [blob[i : i + 64] for i in range(0, len(blob), 64)]
    a, b = rng.randrange(len(blocks)), rng.randrange(len(blocks))
    blocks[a], blocks[b] = blocks[b], blocks[a]
    return b"".join(blocks)


def _noise(rng: random.Random, blob: bytes) -> bytes:
    return rng.choice((b"", b"SKYBAND\0", rng.randbytes(100), blob[:32] + rng.randbytes(200)))


def _whole(rng: random.Random, blob: bytes) -> bytes:
    return blob


DAMAGES = (
    *(_cut, _cut, _longer, _flip, _flip, _head, _head, _zeroed),
    *(_without_a_block, _swapped, _noise, _whole),
)
