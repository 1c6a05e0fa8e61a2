"""Snapshots that somebody forged: anything in them may be changed, and the checksum is right.

    python tests/support/forging.py SEED COUNT

forges snapshots of every algorithm one after the other, restores each of them, pushes the rows that
follow, asks, and prints a line for each. The process that runs it sees a crash or a hang.
"""

from __future__ import annotations

import faulthandler
import json
import math
import random
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1])]

import oracle  # noqa: E402
import skyband as sb  # noqa: E402
from skyband import registry  # noqa: E402
from support import conformance, make_snapshots  # noqa: E402

MAGIC = b"SKYBAND\0"
WINDOWS = (*make_snapshots.WINDOWS, oracle.CountWindow(9, 9))
SECONDS = 60
"""What restores, answers or refuses within this time does not hang, even on a busy machine."""
WHOLE = (-1, 0, 1, 2, 3, 7, 63, 64, 1000, 1 << 20, (1 << 31) - 1, -(1 << 31), 1 << 40, -(1 << 62),
         (1 << 63) - 1, -(1 << 63))  # fmt: skip
BROKEN = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1e300, 0.5)
CODES = ("|O", "|V0", "|V8", "|S8", "<U4", "<M8[us]", "<m8[s]", "|b1", "|i1", "|u1", "<i2", "<i4",
         "<u4", "<i8", "<u8", ">i8", "<f2", "<f4", "<f8", "<c16")  # fmt: skip
Arrays = list[list[Any]]
"""Name, dtype, shape and bytes of each array."""


def opened(blob: bytes) -> tuple[Any, Arrays]:
    """What a snapshot consists of."""
    (length,) = struct.unpack_from("<Q", blob, 24)
    index = json.loads(blob[32 : 32 + length])
    at, arrays = -(-(32 + length) // 64) * 64, []
    for name, code, shape in index["arrays"]:
        size = math.prod(shape) * np.dtype(code).itemsize
        arrays.append([name, code, shape, blob[at : at + size]])
        at += -(-size // 64) * 64
    return index["header"], arrays


def closed(header: Any, arrays: Arrays) -> bytes:
    """A snapshot with the right lengths and checksum."""
    index = json.dumps({"header": header, "arrays": [each[:3] for each in arrays]}).encode()
    body = index + bytes(-(32 + len(index)) % 64)
    for each in arrays:
        body += each[3] + bytes(-len(each[3]) % 64)
    body = struct.pack("<QQ", 32 + len(body), len(index)) + body
    return MAGIC + struct.pack("<II", 1, zlib.crc32(body)) + body


def forged(rng: random.Random, blob: bytes) -> bytes:
    """The snapshot with one to three things changed."""
    header, arrays = opened(blob)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.15:
            header = _other_json(rng, header)
            continue
        with suppress(TypeError, ValueError, OverflowError):  # an array that was changed before
            _other_array(rng, arrays)
    return closed(header, arrays)


def _other_array(rng: random.Random, arrays: Arrays) -> None:
    each = rng.choice(arrays)
    if each[3][:8] == MAGIC and rng.random() < 0.9:
        each[3] = forged(rng, each[3])
        each[2] = [len(each[3])]
        return
    change = rng.choice((*[_values] * 8, _type, _shape, _rows, _rows, _names))
    change(rng, arrays, each)


def _values(rng: random.Random, arrays: Arrays, each: list[Any]) -> None:
    """Other values, in one place or in many."""
    values = np.frombuffer(bytearray(each[3]), each[1])
    if not len(values) or rng.random() < 0.1:
        _octets(rng, each)
        return
    places = rng.choice(([rng.randrange(len(values))], range(len(values)), [0], [len(values) - 1]))
    if rng.random() < 0.3:
        places = rng.sample(range(len(values)), min(len(values), rng.choice((2, 5, 20))))
    same, how = rng.choice(WHOLE), rng.random()
    for at in places:
        value: Any = same if how < 0.5 else rng.choice(WHOLE)
        if values.dtype.kind == "f":
            values[at] = rng.choice(BROKEN)
        elif values.dtype.kind in "iub":
            if how > 0.8:  # near to what it was, or another place of the same state
                value = int(values[at]) + rng.choice((-1, 1, 2, 8))
            elif how > 0.7:
                value = rng.randrange(len(values) + 1)
            bits = 8 * values.dtype.itemsize
            raw = (value & ((1 << bits) - 1)).to_bytes(bits // 8, "little")
            values[at] = np.frombuffer(raw, values.dtype)[0]
    each[3] = values.tobytes()


def _octets(rng: random.Random, each: list[Any]) -> None:
    """Other bytes, as in a column that Arrow wrote."""
    octets = bytearray(each[3])
    for _ in range(rng.choice((1, 1, 4)) if octets else 0):
        octets[rng.randrange(len(octets))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
    each[3] = bytes(octets)


def _type(rng: random.Random, arrays: Arrays, each: list[Any]) -> None:
    """Another dtype over the same bytes, or with as many values."""
    code = rng.choice(CODES)
    size = np.dtype(code).itemsize
    if rng.random() < 0.5 and size and len(each[3]) % size == 0 and len(each[2]) == 1:
        each[2] = [len(each[3]) // size]
    else:
        each[3] = (each[3] + bytes(math.prod(each[2]) * size))[: math.prod(each[2]) * size]
    each[1] = code


def _shape(rng: random.Random, arrays: Arrays, each: list[Any]) -> None:
    """Another shape over the same bytes; it may not even fit them."""
    count = math.prod(each[2])
    each[2] = rng.choice((
        [], [count], [1, count], [count, 1], [0], [count + 1], [1 << 40], [1 << 62, 4], [-1],
        [0, 1 << 60], each[2][::-1], [*each[2], 1], [1, *each[2]], [float(count)], ["1"], None,
        [[count]], [True],
    ))  # fmt: skip


def _rows(rng: random.Random, arrays: Arrays, each: list[Any]) -> None:
    """More rows, or fewer."""
    if not each[2]:
        return
    row = np.dtype(each[1]).itemsize * math.prod(each[2][1:])
    rows = rng.choice((0, 1, each[2][0] - 1, each[2][0] + 1, 2 * each[2][0] + 1, 1000))
    each[2] = [max(rows, 0), *each[2][1:]]
    each[3] = (each[3] * 3 + bytes(row * 1001))[: row * each[2][0]]


def _names(rng: random.Random, arrays: Arrays, each: list[Any]) -> None:
    """An array is missing, twice there, or under the name of another."""
    other = rng.choice(arrays)
    match rng.randrange(3):
        case 0:
            arrays.remove(each)
            arrays.append(each) if not arrays else None
        case 1:
            arrays.append([other[0], *each[1:]])
        case _:
            each[0], other[0] = other[0], each[0]


def _other_json(rng: random.Random, told: Any) -> Any:
    """Plain values with one change somewhere."""
    if isinstance(told, dict) and told and rng.random() < 0.95:
        key = rng.choice(list(told))
        if rng.random() < 0.1:
            return {name: value for name, value in told.items() if name != key}
        return told | {key: _other_json(rng, told[key])}
    if isinstance(told, list) and told and rng.random() < 0.8:
        at = rng.randrange(len(told))
        return [*told[:at], _other_json(rng, told[at]), *told[at + 1 :]]
    if isinstance(told, int) and not isinstance(told, bool) and rng.random() < 0.7:
        return rng.choice((*WHOLE, told + 1, told - 1, told + 50, told - 50, 1 << 70))
    return rng.choice((*WHOLE, None, True, "", "x", [], {}, [1], {"a": 1}, 0.5, told, [told]))


def played(blob: bytes, batches: list[Any]) -> str:
    """Restore a snapshot and use it: what came of it, in one word."""
    try:
        monitor = sb.Monitor.restore(blob)
    except sb.SkybandError as error:
        return f"refused: {error}"
    except Exception as error:  # noqa: BLE001 - a message that helps nobody
        return f"raised: {type(error).__name__}: {error}"
    try:
        _asked(monitor)
        for batch in batches:
            monitor.push(batch)
            _asked(monitor)
        monitor.snapshot()
        monitor.flush()
    except sb.SkybandError as error:
        return f"stopped: {error}"
    except MemoryError:
        return "memory"
    except Exception as error:  # noqa: BLE001 - not nice, but no crash
        return f"failed: {type(error).__name__}: {error}"
    return "restored"


def _asked(monitor: sb.Monitor) -> None:
    monitor.stats()
    for name in monitor.stats():
        with suppress(sb.SkybandError):
            if isinstance(monitor.stats()[name], dict):
                monitor.peek(name)
    with suppress(sb.SkybandError):
        monitor.peek()


Make = Callable[[], tuple[Any, list[Any]]]
"""Makes a query and the batches of a stream for it."""


def seeds() -> list[tuple[str, Make]]:
    """The queries whose snapshots are forged, by name."""
    return [*_queries(), *_boards()]


def _queries() -> Iterator[tuple[str, Make]]:
    for kind in registry.kinds():
        several = [each for each in conformance.SETTINGS[kind] if not callable(each.get("combine"))]
        for name in registry.algorithms(kind):
            for shape in make_snapshots.shapes(kind, name, several, WINDOWS):
                yield f"{kind}-{name}", partial(make_snapshots.asked, kind, *shape)


def _boards() -> Iterator[tuple[str, Make]]:
    for name, board, batches in make_snapshots.boards():
        yield name, partial(_both, board, list(batches))


def _both(query: Any, batches: list[Any]) -> tuple[Any, list[Any]]:
    return query, batches


@cache
def taken(make: Make) -> tuple[bytes, list[Any]]:
    """The largest snapshot of the second half of a stream, and the batches that follow it."""
    query, batches = make()
    monitor, largest = sb.Monitor(query), (b"", batches)
    for number, batch in enumerate(batches[:-1]):
        monitor.push(batch)
        if 2 * number >= len(batches):
            blob = monitor.snapshot()
            largest = max(largest, (blob, batches[number + 1 :]), key=lambda both: len(both[0]))
    return largest


def main(seed: int, count: int) -> None:
    known = seeds()
    for number in range(seed, seed + count):
        rng = random.Random(number)
        name, make = known[number % len(known)]
        print(number, name, end=" ", flush=True)
        blob, batches = taken(make)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        word = played(forged(rng, blob), batches)
        faulthandler.cancel_dump_traceback_later()
        print(word.replace("\n", " "), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
