"""The state of one bucket and shard: a map of panes, a small head, and the fold built from them.

    head            what was answered so far, which panes exist, counts, the query's identity
    pane -> bytes   the summary of that pane, with the keys of its groups

A batch writes the head and the panes that it touched. The fold itself is not stored: it is rebuilt
from the panes when windows are due. A process may reuse a fold that it built earlier, if nothing
has been written since: ``head["token"]`` changes with every write, and folds are cached under it.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answers
from skyband.answers.changes import changes
from skyband.arrays import Ints
from skyband.contract.rows import Faults
from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable
from skyband.data.ipc import table_from, table_to_bytes
from skyband.data.packing import pack, unpack
from skyband.data.time_axis import window_column
from skyband.engine.fold import Fold
from skyband.engine.intake import refuse
from skyband.errors import EngineError
from skyband.spark.letters import late_letters
from skyband.spark.parcels import pack_runs, slices, unpack_runs
from skyband.spark.plan import Plan
from skyband.spark.promises import of_changes, of_rows

__all__ = ["Bucket", "Outcome", "Store", "answers_table", "finish"]

_MARKED = 8 * 4096
"""Bits in one of Spark's bitmaps."""
_KEPT_FOLDS = 64
_KEPT_BYTES = 512 << 20


class Store(Protocol):
    """Where a bucket's head and panes are kept."""

    def head(self) -> bytes | None: ...
    def set_head(self, blob: bytes) -> None: ...
    def pane(self, pane: int) -> bytes | None: ...
    def set_pane(self, pane: int, blob: bytes) -> None: ...
    def drop_pane(self, pane: int) -> None: ...
    def panes(self) -> Iterable[tuple[int, bytes]]: ...


class Folds:
    """A cache of the folds that this process built, by the token of the head they belong to."""

    def __init__(self) -> None:
        self.kept: OrderedDict[str, tuple[Fold, int]] = OrderedDict()

    def take(self, token: str | None) -> Fold | None:
        """Remove the fold of a head from the cache and return it, if there is one."""
        found = self.kept.pop(token, None) if token is not None else None
        return None if found is None else found[0]

    def keep(self, token: str, fold: Fold, nbytes: int) -> None:
        """Cache a fold under the token of the head just written; the oldest folds make room."""
        self.kept[token] = fold, nbytes
        while len(self.kept) > _KEPT_FOLDS or sum(n for _, n in self.kept.values()) > _KEPT_BYTES:
            self.kept.popitem(last=False)


FOLDS = Folds()


@dataclass
class Outcome:
    """The result of a step: the windows answered, their rows, and counts."""

    windows: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    payload: bytes | None = None
    """Finished rows; with several shards, this shard's piece of them."""
    letters: list[pa.Table] = field(default_factory=list)
    """Rows that were refused when their panes were sealed, if dead letters are wanted."""
    rows_late: int = 0
    rows_bad: int = 0

    def marks(self, newest: int) -> tuple[bytes, int]:
        """One bit per window, newest first, and the number of windows too old to have a bit.

        All keys answer a given window in the same batch, so the union of their bits is the set of
        windows answered in that batch.
        """
        age = newest - self.windows
        bits = np.zeros(min(int(age.max()) + 1, _MARKED) if len(age) else 0, np.bool_)
        bits[age[age < _MARKED]] = True
        return np.packbits(bits, bitorder="little").tobytes(), int((age >= _MARKED).sum())


class Bucket:
    """Takes packed summaries and watermarks, and returns the answers that are due."""

    def __init__(self, plan: Plan, store: Store) -> None:
        self.plan = plan
        self.store = store
        self.panes = plan.window.panes
        blob = store.head()
        self.before: pa.Table | None = None
        self.head: dict[str, Any] = {
            "identity": plan.identity,
            "token": None,
            "clock": None,
            "panes": {},
            "timer": None,
            "counts": dict.fromkeys(("rows_late", "rows_bad", "windows_out"), 0),
            "stats": {},
        }
        if blob is not None:
            self._read(blob)
        self._fold: Fold | None = FOLDS.take(self.head["token"])
        self.known = self.retained, self.state_bytes
        """``retained`` and ``state_bytes`` of the key before this step."""
        self._changed = False
        self._outcome = Outcome()

    def _read(self, blob: bytes) -> None:
        head, arrays = unpack(blob)
        check_identity(head.get("identity"), self.plan.identity)
        self.head = head
        self.head["panes"] = {int(pane): size for pane, size in head["panes"].items()}
        if "before" in arrays:
            self.before = table_from(arrays["before"].tobytes())

    # Steps --------------------------------------------------------------------------------------

    def step(self, watermark: int, blobs: Sequence[bytes]) -> Outcome:
        """Seal up to the watermark, then take summaries; those of sealed panes are late."""
        self._outcome = Outcome()
        self._advance(watermark)
        if blobs:
            self._take(blobs, int(self.panes.pane_of(watermark)))
        return self._outcome

    def save(self, timer: int | None) -> None:
        """Write the head if something has changed, and cache the fold."""
        if self._changed or timer != self.head["timer"]:
            self.head |= {"token": uuid.uuid4().hex, "timer": timer}
            arrays = {}
            if self.before is not None:
                arrays["before"] = np.frombuffer(table_to_bytes(self.before), np.uint8)
            self.store.set_head(pack(self.head, arrays))
        if self._fold is not None:
            FOLDS.keep(self.head["token"], self._fold, self.state_bytes)

    @property
    def next_end(self) -> int | None:
        """The end of the next window to answer: one with rows, or the first empty one after it."""
        clock = self.head["clock"] or {"answered": None, "pending": None}
        answered = clock["answered"]
        after = np.iinfo(np.int64).min if answered is None else answered + 1
        due = [max(int(self.panes.first_window_of(pane)), after) for pane in self.head["panes"]]
        if clock["pending"] is not None:
            due.append(after)
        return int(self.panes.end_of(min(due))) if due else None

    @property
    def state_bytes(self) -> int:
        return sum(self.head["panes"].values())

    @property
    def retained(self) -> int:
        return int(self.head["stats"].get("retained", 0))

    # Sealing ------------------------------------------------------------------------------------

    def _advance(self, watermark: int) -> None:
        end = self.next_end
        if end is None or watermark < end:
            return
        fold = self._loaded()
        due = fold.seal(watermark)
        self._changed = True
        self.head["clock"] = fold.time.state()
        answered = fold.time.answered
        if due is not None and due.mended is not None:
            for pane, runs in slices(due.mended):
                self._write(pane, runs, fold.groups)
        if answered is not None:
            for pane in [p for p in self.head["panes"] if self.panes.last_window_of(p) <= answered]:
                self._drop(pane)
        if due is None or not len(due.windows):
            return
        outcome = self._outcome
        outcome.windows = due.windows.number
        self.head["counts"]["windows_out"] += len(due.windows)
        if self.plan.shards > 1:
            if due.partial is not None:
                outcome.payload = pack_runs(due.partial, fold.groups)
            fold.forget(due.windows)
        else:
            answers = fold.answer([] if due.partial is None else [due.partial], due.windows)
            table = answers_table(self.plan, answers)
            outcome.payload = table_to_bytes(table) if table.num_rows else None
            if self.plan.changes:
                self.before = fold.before.get(0)
        self.head["stats"] = {n: v for n, v in fold.synopsis.stats().items() if n == "retained"}

    def _loaded(self) -> Fold:
        """The fold over all panes: cached by this process, or rebuilt from the store."""
        if self._fold is not None:
            self._fold.judge = self._judge
            return self._fold
        fold = self.plan.fold(self._judge)
        panes = [unpack_runs(blob, fold.groups)[0] for _, blob in self.store.panes()]
        fold.resume(self.head["clock"], panes)
        if self.before is not None:
            fold.before = {0: self.before}
        self._fold = fold
        return fold

    def _judge(self, faults: Faults) -> None:
        if self.plan.on_bad == "raise":
            refuse(faults)
        self._outcome.rows_bad += faults.count
        if self.plan.letters and faults.refused is not None:
            assert self._fold is not None
            self._outcome.letters.append(late_letters(faults.refused(), self._fold.groups))
        self.head["counts"]["rows_bad"] += faults.count

    # Taking -------------------------------------------------------------------------------------

    def _take(self, blobs: Sequence[bytes], sealed: int) -> None:
        fold = self._fold
        groups = self.plan.groups() if fold is None else fold.groups
        runs = Runs.concat([unpack_runs(blob, groups)[0] for blob in blobs])
        late = runs.stamp < sealed
        if late.any():
            count = int(runs.scalars["rows"][late].sum())
            self._outcome.rows_late += count
            self.head["counts"]["rows_late"] += count
            self._changed = True
            runs = runs.take(~late)
        if not len(runs):
            return
        self._changed = True
        touched = np.unique(runs.stamp)
        if fold is None:
            # No window is due, so only the panes touched by this batch are read.
            scratch = self.plan.open_panes()
            for pane in touched.tolist():
                if pane in self.head["panes"]:
                    known = self.store.pane(pane)
                    assert known is not None
                    scratch.take(unpack_runs(known, groups)[0])
            scratch.take(runs.ordered())
            held = scratch.whole()
        else:
            fold.take(runs.ordered())
            held = fold.open.whole()
        assert held is not None
        for pane, summary in slices(held.take(np.isin(held.stamp, touched)).ordered()):
            self._write(pane, summary, groups)

    def _write(self, pane: int, runs: Runs, groups: GroupTable) -> None:
        blob = pack_runs(runs, groups)
        self.store.set_pane(pane, blob)
        self.head["panes"][pane] = len(blob)

    def _drop(self, pane: int) -> None:
        self.store.drop_pane(pane)
        del self.head["panes"][pane]


def check_identity(found: Any, wanted: dict[str, Any]) -> None:
    """Raise EngineError if a state belongs to another query, split or version."""
    if found == wanted:
        return
    if not isinstance(found, dict) or found.get("version") != wanted["version"]:
        version = found.get("version") if isinstance(found, dict) else None
        raise EngineError(
            f"the state in this checkpoint has version {version}, but this Skyband reads version "
            f"{wanted['version']}; use the Skyband that wrote it, or start from a new checkpoint"
        )
    differ = ", ".join(sorted(name for name in wanted if found.get(name) != wanted[name]))
    raise EngineError(
        f"the state in this checkpoint belongs to another query (different: {differ}); continue "
        "with the query, columns and shards it was started with, or start from a new checkpoint"
    )


# Answers ------------------------------------------------------------------------------------------


def answers_table(plan: Plan, answers: Answers) -> pa.Table:
    """The rows that a job emits for these answers: their tables, or the changes."""
    if not plan.changes:
        if not plan.bounds:
            return answers.table
        return pa.Table.from_arrays([*answers.table.columns, *of_rows(answers)], schema=plan.output)
    pieces = list(_changelog(plan, answers))
    return pa.concat_tables(pieces) if pieces else plan.output.empty_table()


def _changelog(plan: Plan, answers: Answers) -> Iterator[pa.Table]:
    for i in range(len(answers)):
        found = changes(answers.previous(i), answers.slice(i), plan.query)
        rows = found.num_rows
        if rows:
            edges = [
                window_column(np.full(rows, int(edge[i])), answers.edge)
                for edge in (answers.start, answers.end)
            ]
            columns = [*edges, *found.columns]
            if plan.bounds:
                columns += of_changes(answers, i, found, plan.query.groups)
            yield pa.Table.from_arrays(columns, schema=plan.output)


def finish(
    plan: Plan,
    pieces: Iterable[tuple[int, Ints, bytes | None]],
    upto: int | None = None,
    before: pa.Table | None = None,
) -> tuple[pa.Table, pa.Table | None]:
    """Merge (shard, windows, piece) of all shards into the windows' rows, and the last answer.

    ``upto`` is the number of the last window to answer; pieces of several buckets may be mixed.
    """
    fold = plan.fold()
    if before is not None:
        fold.before = {0: before}
    by_shard: dict[int, list[Runs]] = {}
    numbers: list[Ints] = []
    for shard, windows, blob in pieces:
        numbers.append(windows)
        if blob is not None:
            by_shard.setdefault(shard, []).append(unpack_runs(blob, fold.groups)[0])
    asked = np.unique(np.concatenate(numbers)) if numbers else np.zeros(0, np.int64)
    if upto is not None:
        asked = asked[asked <= upto]
    if not len(asked):
        return plan.output.empty_table(), before
    partials = []
    for shard in sorted(by_shard):
        runs = Runs.concat(by_shard[shard])
        if upto is not None:
            runs = runs.take(runs.stamp <= upto)
        partials.append(runs.ordered(fold.groups.ranks))
    answers = fold.answer(partials, fold.windows(asked))
    return answers_table(plan, answers), fold.before.get(0)
