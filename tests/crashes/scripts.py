"""A random job: its boards, what is sent to it, and what the definition makes of that."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet as pq

import oracle
from crashes.servers import Record, received
from crashes.world import START, SimulatedWorld
from skyband.jobs import Job, parse_job

Row = dict[str, Any]
ROOT = Path("/simulated")
SCHEMA = pa.schema(
    [("ts", pa.int64()), ("flow", pa.int64()), ("team", pa.string()), ("bytes", pa.int64())]
)
DDL = "ts bigint, flow bigint, team string, bytes bigint"
TOPK = {"kind": "TopK", "k": 2, "score": "bytes", "id": "flow"}
HITTERS = {"kind": "HeavyHitters", "k": 3, "item": "flow"}
QUERIES: dict[str, dict[str, Any]] = {
    "best": TOPK | {"window": {"size": 40, "slide": 20}},
    "often": HITTERS | {"by": ["team"], "window": {"size": 30}},
    "faded": TOPK | {"window": {"half_life": 20, "slide": 20}},
    "since": HITTERS | {"window": {"since": 0, "slide": 40}},
    "counted": TOPK | {"by": ["team"], "window": {"count": 6, "slide": 3}},
}
FRESH = {"fresh": HITTERS | {"weight": "bytes", "window": {"size": 40, "slide": 20}}}
FORMS = ("parquet", "csv", "json")
CORRECTED = ("best",)
JITTER = 8
"""How far a row may be behind the ones before it."""


def bytes_of(table: pa.Table, form: str) -> bytes:
    out = io.BytesIO()
    if form == "parquet":
        pq.write_table(table, out)
    elif form == "csv":
        pa.csv.write_csv(table, out)
    elif form == "arrow":
        with pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)
    else:
        out.write(b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist()))
    return out.getvalue()


_READ: dict[str, Callable[[bytes], list[Row]]] = {
    "parquet": lambda text: pq.read_table(io.BytesIO(text)).to_pylist(),
    "csv": lambda text: pa.csv.read_csv(io.BytesIO(text)).to_pylist(),
    "json": lambda text: [json.loads(line) for line in text.splitlines()],
}


def plain(rows: Sequence[Row]) -> list[str]:
    """Rows as lines that no order of them changes."""
    return sorted(
        json.dumps({n: round(v, 6) if isinstance(v, float) else v for n, v in sorted(row.items())})
        for row in rows
    )


def _last_revisions(rows: list[Row]) -> list[Row]:
    """The rows of each window in its last revision, if it is corrected."""
    last: dict[Any, int] = {}
    for row in rows:
        end = row["window_end"]
        last[end] = max(row.get("revision", 0), last.get(end, 0))
    return [row for row in rows if row.get("revision", 0) == last[row["window_end"]]]


def _is_bad(row: Row, asked: dict[str, Any]) -> bool:
    """Whether a query needs what a row lacks."""
    return row["bytes"] is None and "bytes" in (asked.get("score"), asked.get("weight"))


@dataclass
class Script:
    """All of it follows from the seed."""

    seed: int
    batches: int = 5

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)
        self.family = chance.choice(("posts", "posts", "files", "topic"))
        self.served = self.family == "posts" and chance.random() < 0.5
        self.lazy = chance.random() < 0.5
        self.idle = chance.choice((0.1, 3.0, 12.0))
        """How much time passes between posts: the more of it, the more snapshots."""
        self.pace = 0.001 if self.family == "posts" else self.idle / 3
        self.save_bytes = chance.choice((1, 20_000, 1 << 30))
        self.together = chance.randint(1, 3)
        """How many posts wait at the same time."""
        self.rows_per_batch = chance.choice((None, 3))
        self.revises = self.family == "posts" and chance.random() < 0.5
        """Whether windows of one query are corrected when rows are late."""
        first = chance.sample(list(QUERIES), 3)
        if self.revises and not set(CORRECTED) & set(first):
            first[-1] = CORRECTED[0]
        self.boards = [first]
        if chance.random() < 0.5:
            self.boards.append([*first[1:], "fresh"])
        places = ("files", "postgres", "kafka", "http")
        self.sinks = {name: chance.choice(places) for name in (*QUERIES, "fresh")}
        self.forms = {name: chance.choice(FORMS) for name in self.sinks}
        self.lateness = {
            name: chance.choice((0, 10)) if self.family == "posts" else 30 for name in self.sinks
        }
        if self.family == "files":
            self.input_form = chance.choice(("parquet", "csv", "json", "arrow"))
        self.pushes = [self._rows(chance, number) for number in range(self.batches)]
        """Batch after batch, half of them for each board if there are two."""

    def _rows(self, chance: random.Random, number: int) -> list[Row]:
        found: list[Row] = []
        jitter = 20 if self.revises else JITTER
        for i in range(chance.randint(1, 6)):
            bad = bool(i) and chance.random() < 0.06
            found.append(
                {
                    # No window begins at an even time, where a query could be added in its midst.
                    "ts": 20 + 15 * number + (0 if bad else chance.randint(-jitter, 14)) | 1,
                    "flow": chance.randrange(5),
                    "team": chance.choice("abc"),
                    "bytes": None if bad else chance.randrange(1_000),
                }
            )
        return found

    def of_phase(self, phase: int) -> range:
        """The numbers of the batches that are sent to a board."""
        cut = [0, *([self.batches // 2] if len(self.boards) > 1 else []), self.batches]
        return range(cut[phase], cut[phase + 1])

    # The job -----------------------------------------------------------------------------------

    def query(self, name: str) -> dict[str, Any]:
        told = dict((QUERIES | FRESH)[name])
        if "count" in told["window"]:
            return told
        window = dict(told["window"])
        if self.lateness[name]:
            window["lateness"] = self.lateness[name]
        if name in CORRECTED and self.revises:
            window["revise"] = 15
        return told | {"time": "ts", "window": window}

    def _sink(self, name: str) -> dict[str, Any]:
        kind = self.sinks[name]
        if kind == "files":
            return {"kind": kind, "path": str(ROOT / "out" / name), "format": self.forms[name]}
        if kind == "postgres":
            return {"kind": kind, "dsn": "simulated", "table": name}
        if kind == "kafka":
            return {"kind": kind, "servers": "simulated", "topic": name}
        return {"kind": kind, "url": f"http://simulated/{name}", "retries": 1}

    def _source(self) -> dict[str, Any]:
        if self.family == "posts":
            return {"kind": "http", "schema": DDL}
        if self.family == "files":
            return {
                "kind": "files",
                "path": str(ROOT / "in"),
                "rows_per_batch": self.rows_per_batch,
            }
        return {"kind": "kafka", "servers": "simulated", "topic": "in", "schema": DDL}

    @cached_property
    def jobs(self) -> list[Job]:
        """The job of each board."""
        made = []
        for phase, board in enumerate(self.boards):
            last = phase + 1 == len(self.boards)
            once = {"trigger": {"once": True, "close": last}} if self.family != "posts" else {}
            told = {
                "name": "job",
                "engine": "local",
                "checkpoint": str(ROOT / "state"),
                "source": {n: v for n, v in self._source().items() if v is not None},
                "queries": {name: self.query(name) | {"sink": self._sink(name)} for name in board},
                "dead_letters": {"kind": "files", "path": str(ROOT / "bad")},
                "late": "letters",
                **once,
            }
            made.append(parse_job(told))
        return made

    # What is sent ------------------------------------------------------------------------------

    def table(self, number: int) -> pa.Table:
        return pa.Table.from_pylist(self.pushes[number], SCHEMA)

    def bring(self, world: SimulatedWorld, phase: int) -> None:
        """Place what a board's source reads; posts are sent while the job runs."""
        for number in self.of_phase(phase):
            if self.family == "files":
                self.place(world, number)
            elif self.family == "topic":
                records = [Record(None, json.dumps(row).encode()) for row in self.pushes[number]]
                world.servers.topics.setdefault("in", []).extend(records)

    def place(self, world: SimulatedWorld, number: int) -> None:
        """Place a file of the source; its time is always the same."""
        path = ROOT / "in" / f"{number}.{self.input_form}"
        content = bytes_of(self.table(number), self.input_form)
        world.disk.put(path, content, int((START - 60) * 1e9))

    # What comes of it --------------------------------------------------------------------------

    @cached_property
    def wanted(self) -> dict[str, list[str]]:
        """By the definition, what each sink holds in the end."""
        found = {}
        for name in sorted({each for board in self.boards for each in board}):
            asked = self.query(name)
            window = dict(asked.pop("window"))
            kind = asked.pop("kind")
            shape: Any = oracle.TimeWindow
            if "count" in window:
                shape, window["size"] = oracle.CountWindow, window.pop("count")
            elif "half_life" in window:
                shape = oracle.DecayWindow
            elif "since" in window:
                shape = oracle.LandmarkWindow
            phases = [phase for phase, board in enumerate(self.boards) if name in board]
            upto = self.of_phase(phases[-1]).stop
            pushes = [
                [row | {oracle.BAD: True} if _is_bad(row, asked) else row for row in push]
                for push in self.pushes[:upto]
            ]
            if shape is oracle.CountWindow:  # a bad row does not arrive
                pushes = [[row for row in push if oracle.BAD not in row] for push in pushes]
            run = oracle.answers(kind, shape(**window), pushes, **asked)
            closed = self.family != "posts" and phases[-1] + 1 == len(self.boards)
            given = [each for each in run.answers if closed or each.push is not None]
            if "revise" in window:
                given = list({each.end: each for each in given}.values())
            rows = [row for each in given for row in each.table]
            if name == "fresh":
                first = self.of_phase(phases[0]).start
                seen = max(row["ts"] for push in self.pushes[:first] for row in push)
                rows = [row for row in rows if row["window_start"] >= seen]
            found[name] = plain(rows)
        return found

    def held(self, world: SimulatedWorld) -> dict[str, list[str]]:
        """What each sink holds."""
        found = {}
        messages = list(received(world.servers).values())
        for name in self.wanted:
            kind = self.sinks[name]
            if kind == "files":
                texts = world.disk.files(ROOT / "out" / name).values()
                rows = [row for text in texts for row in _READ[self.forms[name]](text)]
            elif kind == "postgres":
                rows = world.servers.tables.get(name, [])
            elif kind == "kafka":
                rows = [json.loads(each.content) for each in world.servers.topics.get(name, [])]
                rows = [each for row in rows for each in row.get("rows", [row])]
            else:
                mine = [m for m in messages if m["query"] == name]
                rows = [m.get("group", {}) | row for m in mine for row in m["rows"]]
            if kind != "postgres":  # which keeps only the last revision of a window
                rows = _last_revisions(rows)
            found[name] = plain(rows)
        return found

    def letters(self, world: SimulatedWorld) -> list[str]:
        """The dead letters, each as often as it is there."""
        texts = world.disk.files(ROOT / "bad").values()
        return sorted(line.decode() for text in texts for line in text.splitlines())
