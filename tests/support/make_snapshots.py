"""Write snapshots of every algorithm, and of boards: python tests/support/make_snapshots.py

Each file is a zip with a snapshot taken halfway through a stream, the remaining batches (Arrow) and
the answers to them from the version that wrote the file (JSON). Files of a released version are
never rewritten.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import oracle
import skyband as sb
from skyband import registry
from support import conformance, sending, streams

FOLDER = Path(__file__).parents[1] / "contract" / "snapshots"
WINDOWS = (oracle.TimeWindow(30, 7, lateness=6), oracle.CountWindow(40, 7))
SKETCHED = {"capacity": 6}
MORE: dict[str, dict[str, Any]] = {
    **conformance.NEEDED,
    "pabf": {"epsilon": 2.0, "delta": 0.9},
    **dict.fromkeys(("ss", "fss", "fsp", "fsw", "fsw-r", "fsw-f"), SKETCHED),
}


def main() -> None:
    folder = FOLDER / version("skyband")
    if folder.exists():
        sys.exit(f"{folder} is there: snapshots of a version are written once")
    folder.mkdir(parents=True)
    for name, query, batches in [*cases(), *boards()]:
        write(folder / f"{name}.zip", query, batches)


def cases() -> Iterator[tuple[str, sb.Query, list[Any]]]:
    """Every algorithm over time and count windows, with and without groups."""
    for kind in registry.kinds():
        for algorithm in registry.algorithms(kind):
            few = conformance.SETTINGS[kind][0], conformance.SETTINGS[kind][-1]
            for number, shape in enumerate(shapes(kind, algorithm, few, WINDOWS)):
                yield f"{kind}-{algorithm}-{number}", *asked(kind, *shape)


def asked(kind: str, window: Any, settings: dict[str, Any]) -> tuple[sb.Query, list[Any]]:
    """A query with these settings, and the batches of a stream for it."""
    stream = conformance.long_stream(kind, settings, window, "uniform")
    batches, _, table = sending.sent(stream, settings)
    return conformance.query_of(kind, window, settings, table), batches


def boards() -> Iterator[tuple[str, dict[str, sb.Query], list[Any]]]:
    """Queries that differ only in k and window: over times, over arrivals, and with groups."""
    made, rows = np.random.default_rng(20), 400
    columns = {name: made.integers(0, 9, rows) for name in ("id", "x", "y")}
    time = np.cumsum(made.choice([0, 1, 2, 25], rows, p=[0.7, 0.2, 0.09, 0.01]))
    table = pa.table({"t": time, **columns, "g": [f"g{n}" for n in made.integers(0, 4, rows)]})
    shapes: Any = {"times": (sb.TimeWindow, ()), "arrivals": (sb.CountWindow, ())}
    for name, (make, by) in (shapes | {"groups": (sb.TimeWindow, ("g",))}).items():
        board: dict[str, sb.Query] = {}
        for k, size, slide in ((2, 60, 10), (3, 90, 15), (4, 40, 25)):
            common: Any = {"k": k, "time": "t", "by": by, "window": make(size, slide=slide)}
            board[f"top {size}"] = sb.TopK(score="x", id="id", **common)
            board[f"often {size}"] = sb.HeavyHitters(item="id", **common)
        yield f"Board-{name}-0", board, [table.slice(low, 50) for low in range(0, rows, 50)]


def shapes(
    kind: str, algorithm: str, several: Sequence[dict[str, Any]], windows: Sequence[Any]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The windows and settings with which an algorithm can be asked."""
    more = MORE.get(algorithm, {}) | {"algorithm": algorithm}
    if algorithm in conformance.OPTIONS:
        more |= {"options": conformance.OPTIONS[algorithm]}
    refused = {"weight"} if algorithm == "fsw-f" else set()
    for given in several:
        settings = {name: value for name, value in given.items() if name not in refused}
        for window in windows:
            if conformance.fits(settings, window):
                yield window, settings | more


def write(path: Path, query: Any, batches: list[Any]) -> None:
    half = len(batches) // 2
    monitor = sb.Monitor(query)
    for batch in batches[:half]:
        monitor.push(batch)
    blob = monitor.snapshot()
    rest = batches[half:]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("snapshot", blob)
        for number, batch in enumerate(rest):
            for source, table in (batch if isinstance(batch, dict) else {"": batch}).items():
                out.writestr(f"{number}/{source}", _bytes(table))
        out.writestr("answers.json", json.dumps(answers(monitor, rest), indent=0))


def read(path: Path) -> tuple[bytes, list[Any], list[Any]]:
    """A snapshot, the batches that follow it, and the answers to them."""
    with zipfile.ZipFile(path) as found:
        rest: dict[int, dict[str, pa.Table]] = {}
        for name in found.namelist():
            number, _, source = name.partition("/")
            if number.isdigit():
                rest.setdefault(int(number), {})[source] = _table(found.read(name))
        batches = [b.get("") if list(b) == [""] else b for _, b in sorted(rest.items())]
        return found.read("snapshot"), batches, json.loads(found.read("answers.json"))


def answers(monitor: sb.Monitor, batches: list[Any]) -> list[Any]:
    """A monitor's answers to these batches and to the end of the stream, as plain values."""
    got = [answer for batch in batches for answer in monitor.push(batch)]
    return [_plain(answer) for answer in [*got, *monitor.flush()]]


def _plain(answer: sb.Answer) -> Any:
    tables = [streams.rows_of(answer.table), streams.rows_of(answer.changes)]
    return json.loads(json.dumps([*tables, answer.total, answer.exact], default=str))


def _bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _table(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


if __name__ == "__main__":
    main()
