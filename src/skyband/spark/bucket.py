"""The state of the queries with one label, in one bucket and shard: a head, and summaries of panes.

    head            of each fold, how far it has come, which panes it has and in which slots they
                    are; of each query its counts and its last answer; what the state belongs to
    slot -> bytes   the summary of a pane, what a later batch added to a pane that is still open,
                    or a part of a state that outlives its panes; with the keys of the groups

A batch writes the head and what it adds to panes, never again what earlier batches wrote: the
pieces of a pane are joined when it is sealed, or when there are many. Folds are not stored: they
are rebuilt from the panes when windows are due. A process may reuse folds that it built earlier, if
nothing has been written since: ``head["token"]`` changes with every write, and folds are cached
under it.

Usually there is one fold. Which queries read it is decided when the key is first used; a query that
is added later has a fold of its own.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from skyband.arrays import Ints, State
from skyband.contract.accumulated import Accumulated
from skyband.contract.capabilities import PaneShrinking, ReaderFold
from skyband.contract.rows import Faults
from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable
from skyband.data.ipc import table_from, table_to_bytes
from skyband.data.keys import hash_columns
from skyband.data.letters import CarriedColumns, row_letters
from skyband.data.packing import pack, under, unpack
from skyband.engine.clock import TimeClock
from skyband.engine.fold import Fold, Step
from skyband.errors import EngineError
from skyband.query.board import named
from skyband.spark.finishing import answers_from, answers_table, answers_to_bytes
from skyband.spark.parcels import pack_runs, schema_of, unpack_runs
from skyband.spark.plan import STATE_VERSION, BoardPlan, QueryPlan, wrong_version
from skyband.spark.processor import ANSWERED_DDL

# Folds that a process built from stored panes, kept for the next batch of the same key -----------

_MOST_KEPT = 64
_MOST_BYTES = 512 << 20


class FoldCache:
    """A cache of the folds that this process built, by the token of the head they belong to."""

    def __init__(self) -> None:
        self.kept: OrderedDict[str, tuple[Any, int]] = OrderedDict()

    def take(self, token: str | None) -> Any:
        """Remove the folds of a head from the cache and return them; None if there are none."""
        return self.kept.pop(token or "", (None, 0))[0]

    def keep(self, token: str, folds: Any, nbytes: int) -> None:
        """Cache the folds under the token of the head just written."""
        self.kept[token] = folds, nbytes
        # The oldest make room.
        while len(self.kept) > _MOST_KEPT or sum(n for _, n in self.kept.values()) > _MOST_BYTES:
            self.kept.popitem(last=False)


CACHED_FOLDS = FoldCache()


_MARKED = 8 * 4096
"""Bits in one of Spark's bitmaps."""
_MOST_PIECES, _MOST_GROWTH = 32, 4
"""The pieces of an open pane are joined once there are so many, or once they have so many times the
bytes of the first of them, which is what was joined before. So a pane whose summary has a greatest
size never takes much more, and each byte of a pane that only grows is written less than twice."""
_NEVER = int(np.iinfo(np.int64).min)


class PaneStore:
    """Where a bucket's head and summaries are: a value and a map of Spark's state."""

    def __init__(self, head: Any, slots: Any) -> None:
        self._head = head
        self._slots = slots

    def head(self) -> bytes | None:
        value = self._head.get()
        return None if value is None else bytes(value[0])

    def set_head(self, blob: bytes) -> None:
        self._head.update((blob,))

    def get(self, slot: int) -> bytes | None:
        value = self._slots.getValue((slot,))
        return None if value is None else bytes(value[0])

    def put(self, slot: int, blob: bytes) -> None:
        self._slots.updateValue((slot,), (blob,))

    def drop(self, slot: int) -> None:
        self._slots.removeKey((slot,))

    def clear(self) -> None:
        self._head.clear()
        self._slots.clear()

    def slots(self) -> Iterable[tuple[int, bytes]]:
        return [(int(key[0]), bytes(value[0])) for key, value in self._slots.iterator()]


@dataclass
class QueryOutcome:
    """The result of a step for one query: the windows answered, their rows, and counts."""

    windows: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    payload: bytes | None = None
    """Finished rows; with several shards, this shard's piece of them."""
    before: bytes | None = None
    """This shard's piece of the answer before, if changes are wanted of several shards."""
    totals: bytes | None = None
    """This shard's totals, if they are shown."""
    letters: list[pa.Table] = field(default_factory=list)
    """Rows that were refused when their panes were sealed, if dead letters are wanted."""
    rows_late: int = 0
    rows_bad: int = 0


def pane_table(number: int, arrays: Mapping[str, Any]) -> Ints:
    """The panes of a fold: one row of pane, slot, bytes and items for each piece."""
    return np.asarray(arrays[f"{number}/panes"]).reshape(-1, 4)


class StoredFold:
    """What is stored of a fold, and the fold itself once windows are due."""

    def __init__(
        self, names: Sequence[str], clock: dict[str, Any] | None = None, since: int | None = None
    ) -> None:
        self.names = list(names)
        self.clock = clock
        self.since = since
        """The first pane that a fold takes that was added to a running stream."""
        self.panes: Ints = np.zeros((0, 4), np.int64)
        """One row of pane, slot, bytes and items for each piece of a pane."""
        self.parts: dict[int, tuple[int, int, int]] = {}
        """Slot, bytes and items of each part of a state that outlives its panes."""
        self.filled: list[int] = []
        """Panes with rows in any bucket or shard, if that decides what is answered."""
        self.histories: dict[str, bytes] = {}
        """Of each query, the answers that late rows may correct: see ``WindowHistory``."""
        self.live: Fold | None = None

    def header(self) -> dict[str, Any]:
        """Plain values for the head."""
        parts = [[part, *sizes] for part, sizes in self.parts.items()]
        return {
            "names": self.names, "clock": self.clock, "since": self.since, "parts": parts,
            "filled": self.filled, "retained": self.retained, "nbytes": self.nbytes,
        }  # fmt: skip

    @staticmethod
    def of(header: Mapping[str, Any], panes: Ints) -> StoredFold:
        """The inverse of ``header``."""
        stored = StoredFold(header["names"], header["clock"], header["since"])
        stored.filled = list(header["filled"])
        stored.parts = {part: tuple(sizes) for part, *sizes in header["parts"]}
        stored.panes = panes.copy()
        return stored

    @property
    def nbytes(self) -> int:
        return int(self.panes[:, 2].sum()) + sum(size for _, size, _ in self.parts.values())

    @property
    def retained(self) -> int:
        """The rows or items of all summaries."""
        return int(self.panes[:, 3].sum()) + sum(items for *_, items in self.parts.values())

    @property
    def answered(self) -> int | None:
        """The last window that was answered."""
        answered: int | None = None if self.clock is None else self.clock["answered"]
        return answered

    def pieces(self, pane: int) -> tuple[list[int], bool]:
        """The slots of a pane, and whether it is time to join them."""
        pieces = self.panes[self.panes[:, 0] == pane]
        sizes = pieces[:, 2]
        grown = sizes[1:].sum() >= (_MOST_GROWTH - 1) * sizes[:1].sum()
        return pieces[:, 1].tolist(), len(pieces) > 1 and (grown or len(pieces) > _MOST_PIECES)

    def keep(self, names: Collection[str]) -> None:
        """Go on with some of the queries only."""
        kept = [i for i, name in enumerate(self.names) if name in names]
        self.histories = {n: own for n, own in self.histories.items() if n in names}
        self.names = [self.names[i] for i in kept]


class Bucket:
    """Takes packed summaries and watermarks, and returns the answers that are due."""

    def __init__(self, board: BoardPlan, label: str, store: PaneStore) -> None:
        self.board, self.label, self.store = board, label, store
        self.names = board.labels[label]
        self.plan = board.plans[self.names[0]]
        """Any of the plans: what is read of it is the same for all."""
        self.panes = self.plan.window.panes
        """Of any query, too: sizes of windows differ, but not where panes and windows end."""
        self.head: dict[str, Any] = {"token": None, "timer": None, "latest": None, "next_slot": 0}
        self.counts: dict[str, dict[str, int]] = {}
        """Late and bad rows and windows of each query, since it was added."""
        self.folds: list[StoredFold] = []
        self.last: dict[str, bytes] = {}
        """The last answer of each query, or this shard's piece of it, if changes are wanted."""
        self._changed = False
        blob = store.head()
        if blob is not None:
            self._read(blob)
        self.known = self.retained, self.state_bytes
        """``retained`` and ``state_bytes`` of the key before this step."""
        self.added = [name for name in self.names if name not in self.counts]
        """Queries that are new here."""
        new = [self.added] if blob is None else [[name] for name in self.added]
        self.folds += [StoredFold(names) for names in new]
        for name in self.added:
            self.counts[name] = dict.fromkeys(("rows_late", "rows_bad", "windows_out"), 0)
        self._changed |= bool(self.added) and not board.alone
        self._outcomes = {name: QueryOutcome() for name in self.names}

    def _read(self, blob: bytes) -> None:
        head, arrays = unpack(blob)
        if head.get("version") != STATE_VERSION:
            raise wrong_version(head.get("version"))
        self.head = {name: head[name] for name in self.head}
        for name, query in head["queries"].items():
            if name in self.names:
                plan, saved = self.board.plans[name], query["identity"]
                if saved != plan.identity:
                    raise plan.differs(saved)
            elif name in self.board.plans:
                raise EngineError(
                    f"the state in this checkpoint belongs to another query named {name!r}; give "
                    "the changed query a new name, or start from a new checkpoint"
                )
        self.counts = {n: query["counts"] for n, query in head["queries"].items()}
        self.last = {
            name: arrays[f"last/{name}"].tobytes()
            for name in self.counts
            if f"last/{name}" in arrays
        }
        for i, header in enumerate(head["folds"]):
            self.folds.append(StoredFold.of(header, pane_table(i, arrays)))
            histories = under(arrays, f"{i}/history/").items()
            self.folds[-1].histories = {name: own.tobytes() for name, own in histories}
        for stored, (names, live) in zip(
            self.folds, CACHED_FOLDS.take(head["token"]) or (), strict=False
        ):
            stored.live = live if names == stored.names else None
        if set(self.counts) - set(self.names):
            self._remove_others()

    def _remove_others(self) -> None:
        """Forget queries that were taken from the board, and what only they needed."""
        self.counts = {name: own for name, own in self.counts.items() if name in self.names}
        self.last = {name: own for name, own in self.last.items() if name in self.names}
        for stored in self.folds:
            if set(stored.names) - set(self.names):
                stored.keep(self.names)
                stored.live = None
                self._drop_expired(stored)
            if not stored.names:
                for slot, *_ in stored.parts.values():
                    self.store.drop(slot)
        self.folds = [stored for stored in self.folds if stored.names]
        self._changed = True

    def join(self, seen: int) -> None:
        """Let each new query begin with its first window that starts at or after ``seen``."""
        self.folds = [stored for stored in self.folds if stored.names[0] not in self.added]
        for name in self.added:
            clock = TimeClock(self.board.plans[name].window.panes, 0, self.plan.schemas)
            clock.join(seen)
            self.folds.append(StoredFold([name], clock.state(), clock.sealed))

    # Steps --------------------------------------------------------------------------------------

    def step(
        self, watermark: int, blobs: Sequence[bytes], latest_ms: int | None = None
    ) -> dict[str, QueryOutcome]:
        """Seal up to the watermark, then take summaries; those of sealed panes are late."""
        known = self.head["latest"]
        if latest_ms is not None and (known is None or latest_ms > known):
            self.head["latest"] = latest_ms
            self._changed = True
        for stored in self.folds:
            self._advance(stored, watermark)
        if blobs:
            sealed = int(self.panes.pane_of(watermark))
            for stored in self.folds:
                least = _NEVER if stored.since is None else stored.since
                self._take(stored, blobs, max(sealed, least), watermark)
        return self._outcomes

    def save(self, timer: int | None) -> None:
        """Write the head if something has changed, and cache the folds."""
        if self._changed or timer != self.head["timer"]:
            self.head |= {"token": uuid.uuid4().hex, "timer": timer}
            queries = {
                name: {"identity": self.board.plans[name].identity, "counts": self.counts[name]}
                for name in self.counts
            }
            folds = [stored.header() for stored in self.folds]
            arrays: State = {
                f"last/{name}": np.frombuffer(blob, np.uint8) for name, blob in self.last.items()
            }
            arrays |= {f"{i}/panes": stored.panes for i, stored in enumerate(self.folds)}
            for i, stored in enumerate(self.folds):
                for name, blob in stored.histories.items():
                    arrays[f"{i}/history/{name}"] = np.frombuffer(blob, np.uint8)
            head = {"version": STATE_VERSION, "queries": queries, "folds": folds}
            self.store.set_head(pack(self.head | head, arrays))
        if any(stored.live is not None for stored in self.folds):
            live = [(stored.names, stored.live) for stored in self.folds]
            CACHED_FOLDS.keep(self.head["token"], live, self.state_bytes)

    @property
    def next_end(self) -> int | None:
        """The end of the next window to answer: one with rows, or the first empty one after it."""
        ends = [end for stored in self.folds if (end := self._next_end(stored)) is not None]
        return min(ends, default=None)

    def _next_end(self, stored: StoredFold) -> int | None:
        clock = stored.clock or {"filled": []}
        after = _NEVER if stored.answered is None else stored.answered + 1
        panes = stored.panes[:, 0]
        if self.plan.revises:  # others are stored for corrections only
            panes = panes[self._last_read(stored) >= after]
        filled = [*stored.filled, *clock["filled"][:1], *([panes.min()] if len(panes) else [])]
        if not filled:
            return None
        return int(self.panes.end_of(max(int(self.panes.first_window_of(min(filled))), after)))

    @property
    def state_bytes(self) -> int:
        return sum(stored.nbytes for stored in self.folds)

    @property
    def retained(self) -> int:
        return sum(stored.retained for stored in self.folds)

    # Sealing ------------------------------------------------------------------------------------

    def _advance(self, stored: StoredFold, watermark: int, late: Ints | None = None) -> None:
        """Answer what is due at a watermark; and what rows of the ``late`` panes correct."""
        end = self._next_end(stored)
        if late is None and (end is None or watermark < end):
            return
        fold = self._loaded(stored)
        pieced = self._pieced(stored, fold, int(self.panes.pane_of(watermark)))
        joined = list(slices(fold.open.of(pieced))) if len(pieced) else []
        before = fold.clock.sealed
        elsewhere = np.array(stored.filled, np.int64)
        step = fold.begin(watermark, elsewhere if late is None else np.append(elsewhere, late))
        if fold.archive is not None and len(pieced):  # where late rows are, too
            joined = list(slices(fold.archive.of(pieced)))
        parts = [None] * len(fold.readers) if step is None else fold.folded(step)
        clock = fold.clock
        stored.filled = [pane for pane in stored.filled if pane >= clock.sealed]
        self._changed = True
        stored.clock = clock.state()
        if step is not None and step.faults is not None:
            self._note_refused(stored, step.faults, fold.groups)
        answered = stored.answered
        for pane, runs in joined:
            if self.plan.revises or answered is None or fold.panes.last_read_of(pane) > answered:
                self._write(stored, pane, runs, fold.groups)
        if step is not None and step.mended is not None:
            # A pane of which all rows were refused is not among the mended ones.
            panes = stored.panes[:, 0]
            self._drop(stored, (panes >= before) & (panes < clock.sealed))
            for pane, runs in slices(step.mended):
                self._write(stored, pane, runs, fold.groups)
        if isinstance(fold.synopsis, Accumulated):
            self._write_parts(stored, fold, fold.synopsis)
        else:
            self._drop_expired(stored)
            if isinstance(fold.state, PaneShrinking) and not self.plan.revises:
                self._shrink(stored, fold, fold.state)
        if step is not None and any(map(len, step.windows)):
            self._answer(stored, fold, step, parts)

    def _shrink(self, stored: StoredFold, fold: Fold, state: PaneShrinking) -> None:
        """Write sealed panes again of whose rows half or more are no longer needed."""
        needed = state.needed_rows()
        sealed = stored.panes[(stored.panes[:, 0] < fold.clock.sealed) & (needed is not None)]
        for pane, slot, _, items in sealed.tolist():
            left = (needed or {}).get(pane, 0)
            blob = self.store.get(slot) if items and 2 * left <= items else None
            if blob is not None:
                runs = state.shrunk(unpack_runs(blob, fold.groups)[0])
                self._write(stored, pane, runs, fold.groups)
                stored.panes[-1, 3] = left

    def _answer(
        self, stored: StoredFold, fold: Fold, step: Step, parts: Sequence[Runs | None]
    ) -> None:
        """Note what each query answers, or this shard's piece of it."""
        for i, name in enumerate(stored.names):
            windows, part, plan = step.windows[i], parts[i], self.board.plans[name]
            if not len(windows):
                continue
            outcome = self._outcomes[name]
            outcome.windows = np.append(outcome.windows, windows.number)
            self.counts[name]["windows_out"] += len(windows)
            if plan.shards > 1:
                outcome.payload = None if part is None else pack_runs(part, fold.groups)
                if plan.total:
                    outcome.totals = pack_runs(fold.shares(windows), fold.groups)
                if plan.changes:
                    outcome.before = self.last.pop(name, None)
                    newest = None if part is None else part.take(part.stamp == windows.number[-1])
                    if newest is not None and len(newest):
                        self.last[name] = pack_runs(newest, fold.groups)
                continue
            answers = fold.answer(i, [] if part is None else [part], windows)
            table = answers_table(plan, answers)
            if table.num_rows and outcome.payload is not None:  # corrections follow what is due
                table = pa.concat_tables([answers_from(outcome.payload, plan.output), table])
            outcome.payload = answers_to_bytes(table) if table.num_rows else outcome.payload
            reader = fold.readers[i]
            if plan.changes:
                self.last[name] = table_to_bytes(reader.last_tables[0])
            if reader.history is not None:
                stored.histories[name] = pack(*reader.history.snapshot())
        fold.forget(step.windows)

    def _loaded(self, stored: StoredFold) -> Fold:
        """The fold over all panes: cached by this process, or rebuilt from the store."""
        if stored.live is None:
            fold = stored.live = self.board.fold(stored.names)
            blobs = dict(self.store.slots())
            panes = [self._unpacked(blobs[slot], fold) for slot in stored.panes[:, 1].tolist()]
            parts = [unpack_runs(blobs[s], fold.groups)[0] for s, *_ in stored.parts.values()]
            fold.resume(stored.clock, panes, parts)
            for name, reader in zip(stored.names, fold.readers, strict=True):
                if name in self.last and self.plan.shards == 1:
                    reader.last = {0: table_from(self.last[name])}
                if reader.history is not None:
                    reader.history.keeps_tables = bool(self.board.plans[name].changes)
                    if name in stored.histories:
                        header, rows = unpack(stored.histories[name])
                        reader.history.restore(header, rows, fold.schema(stored.names.index(name)))
        return stored.live

    def _unpacked(self, blob: bytes, fold: Fold) -> Runs:
        """Summaries, for what the fold serves.

        On a board they may be made for a greater k: that of a query which is elsewhere, or gone.
        """
        runs = unpack_runs(blob, fold.groups)[0]
        wider = isinstance(fold.synopsis, ReaderFold) and not self.board.alone
        return fold.synopsis.combine(runs) if wider and len(runs) else runs

    def _pieced(self, stored: StoredFold, fold: Fold, upto: int) -> Ints:
        """The panes before this one that are stored in pieces, which are to be joined."""
        panes, pieces = np.unique(stored.panes[:, 0], return_counts=True)
        panes = panes[(pieces > 1) & (panes < upto)]
        return panes[:0] if isinstance(fold.synopsis, Accumulated) else panes

    def _write_parts(self, stored: StoredFold, fold: Fold, state: Accumulated) -> None:
        """Write the changed parts of the state, which now holds all sealed panes."""
        self._drop(stored, stored.panes[:, 0] < fold.clock.sealed)
        if not fold.synopsis.ready:
            return
        stable = np.zeros(fold.groups.bound, np.uint64)
        if fold.groups.names:
            live = fold.groups.live
            stable[live] = hash_columns(fold.groups.gather(live))
        for part, runs in state.changed(stable):
            if part in stored.parts:
                self.store.drop(stored.parts.pop(part)[0])
            if len(runs):
                stored.parts[part] = self._put(runs, fold.groups)

    def _note_refused(self, stored: StoredFold, faults: Faults, groups: GroupTable) -> None:
        """Count rows that were refused when their panes were sealed, and keep them as letters."""
        for name in stored.names:
            self._outcomes[name].rows_bad += faults.count
            self.counts[name]["rows_bad"] += faults.count
        if self.plan.letters and faults.refused is not None:
            refused = faults.refused()
            rows, keys = refused.rows, groups.gather(refused.group) if groups.names else []
            for name, key in zip(groups.names, keys, strict=True):
                if name not in rows.column_names:
                    rows = rows.append_column(name, key)
            letters = row_letters("", CarriedColumns(), rows, refused.reasons)
            self._outcomes[stored.names[0]].letters.append(letters)

    # Taking -------------------------------------------------------------------------------------

    def _take(
        self, stored: StoredFold, blobs: Sequence[bytes], sealed: int, watermark: int
    ) -> None:
        least = sealed  # the first pane that still takes rows
        if self.plan.revises:
            revise = self.plan.query.window.revise_ticks or 0
            since = _NEVER if stored.since is None else stored.since
            least = max(int(self.panes.pane_of(watermark - revise)), since)
        groups, runs, filled = self._read_runs(stored, blobs)
        stamps = np.unique(np.concatenate([runs.stamp, *filled]))
        late = stamps[(stamps >= least) & (stamps < sealed)]
        if len(late):
            self._advance(stored, watermark, late[:0])
            groups, runs, filled = self._read_runs(stored, blobs)
        self._note_filled(stored, filled, sealed)
        self._take_runs(stored, runs, least, groups)
        if len(late):
            self._advance(stored, watermark, late)

    def _read_runs(
        self, stored: StoredFold, blobs: Sequence[bytes]
    ) -> tuple[GroupTable, Runs, list[Ints]]:
        """The summaries in a batch with the groups of the fold, and the panes with rows if told."""
        groups = self.plan.groups() if stored.live is None else stored.live.groups
        unpacked = [unpack_runs(blob, groups) for blob in blobs]
        filled = [more["filled"] for _, more in unpacked if "filled" in more]
        return groups, Runs.concat([each for each, _ in unpacked]), filled

    def _take_runs(self, stored: StoredFold, runs: Runs, least: int, groups: GroupTable) -> None:
        """Take summaries, but count those of panes before ``least`` as late."""
        fold, late = stored.live, runs.stamp < least
        if late.any():
            count = int(runs.scalars["rows"][late].sum())
            for name in stored.names:
                self._outcomes[name].rows_late += count
                self.counts[name]["rows_late"] += count
            self._changed = True
            runs = runs.take(~late)
        if not len(runs):
            return
        self._changed = True
        synopsis = self.board.summarising(self.label)[0].synopsis
        served, combine = synopsis.query, synopsis.combine
        runs = runs.ordered()
        whole = combine(runs) if runs.repeats.any() else runs
        if fold is not None:
            fold.take(whole if fold.query == served else fold.synopsis.combine(whole))
        for pane, summary in slices(whole):
            slots, many = stored.pieces(pane)
            if many:
                pieces = [self.store.get(slot) for slot in slots]
                held = [unpack_runs(blob, groups)[0] for blob in pieces if blob is not None]
                self._write(stored, pane, combine(Runs.concat([*held, summary]).ordered()), groups)
            else:
                self._add(stored, pane, summary, groups)

    def _note_filled(self, stored: StoredFold, filled: Sequence[Ints], sealed: int) -> None:
        """Note panes that have rows in any bucket or shard, if that decides what is answered."""
        known = set(stored.filled)
        fresh = {int(pane) for panes in filled for pane in panes if pane >= sealed} - known
        if fresh:
            stored.filled = sorted(known | fresh)
            self._changed = True

    # Slots --------------------------------------------------------------------------------------

    def _put(self, runs: Runs, groups: GroupTable) -> tuple[int, int, int]:
        """Write summaries; their slot, their bytes and their items."""
        slot: int = self.head["next_slot"]
        self.head["next_slot"] = slot + 1
        blob = pack_runs(runs, groups)
        self.store.put(slot, blob)
        return slot, len(blob), sum(map(len, runs.parts.values()))

    def _add(self, stored: StoredFold, pane: int, runs: Runs, groups: GroupTable) -> None:
        """Write what a batch adds to a pane."""
        piece = np.array([[pane, *self._put(runs, groups)]])
        stored.panes = np.concatenate([stored.panes, piece])

    def _write(self, stored: StoredFold, pane: int, runs: Runs, groups: GroupTable) -> None:
        """Write all of a pane."""
        self._drop(stored, stored.panes[:, 0] == pane)
        self._add(stored, pane, runs, groups)

    def _drop_expired(self, stored: StoredFold) -> None:
        """Drop the panes that no future answer of any reader reads, and no correction."""
        if stored.answered is None:
            return
        gone = self._last_read(stored) <= stored.answered
        if self.plan.revises:
            clock = None if stored.live is None else stored.live.clock
            kept = clock.first_kept() if isinstance(clock, TimeClock) else _NEVER
            gone &= stored.panes[:, 0] < kept
        self._drop(stored, gone)

    def _last_read(self, stored: StoredFold) -> Ints:
        """The last window of any reader that reads each stored pane."""
        each = [self.board.plans[n].window.panes for n in stored.names] or [self.panes]
        lasts = [panes.last_read_of(stored.panes[:, 0]) for panes in each]
        return np.asarray(np.max(lasts, axis=0))

    def _drop(self, stored: StoredFold, gone: Any) -> None:
        for slot in stored.panes[gone, 1].tolist():
            self.store.drop(slot)
        stored.panes = stored.panes[~gone]


def slices(runs: Runs) -> Iterator[tuple[int, Runs]]:
    """Split ordered runs by stamp."""
    cuts: Sequence[Any] = [0, *(np.flatnonzero(np.diff(runs.stamp)) + 1), len(runs)]
    for low, high in pairwise(cuts):
        if high > low:
            yield int(runs.stamp[low]), runs.slice(int(low), int(high))


# A step of a key --------------------------------------------------------------------------------


def reached_ms(board: BoardPlan, name: str, watermark_ms: int) -> int:
    """How far a query's own watermark has come, given Spark's."""
    if board.closing is not None and watermark_ms == board.closing.watermark_ms:
        # Windows end at different times, and each query ends with its own last window.
        return board.closing.ends_ms.get(name, 0)
    return max(watermark_ms - board.held_ms[name], 0)


class BucketKeeper:
    """Takes the rows and timers of state keys; each step gives a packed row for each query."""

    output = schema_of(ANSWERED_DDL)

    def __init__(self, board: BoardPlan, store: PaneStore, timers: Any) -> None:
        """``timers`` is Spark's handle of the timers of the current key."""
        self.board, self.store, self.timers = board, store, timers

    def take(
        self, key: Any, rows: Iterator[pd.DataFrame], watermark_ms: int
    ) -> Iterator[pd.DataFrame]:
        """Seal up to the watermark first, then take new summaries."""
        blobs: list[bytes] = []
        latest: list[int] = []
        for frame in rows:
            latest += [int(time) for time in frame["latest"].dropna()]
            blobs += [bytes(blob) for blob in frame["payload"] if blob is not None]
            letters = [bytes(blob) for blob in frame["letters"] if blob is not None]
            yield from (self._letters(key, blob) for blob in letters)
        yield from self._step(key, watermark_ms, blobs, latest_ms=max(latest, default=None))

    def fire(self, key: Any, watermark_ms: int) -> Iterator[pd.DataFrame]:
        """Answer what is due: a timer has fired."""
        yield from self._step(key, watermark_ms, fired=True)

    def _step(
        self, key: Any, watermark_ms: int, blobs: Sequence[bytes] = (), **more: Any
    ) -> Iterator[pd.DataFrame]:
        board, (label, bucket_number, shard) = self.board, key
        if label not in board.labels:
            self.store.clear()  # its queries were removed from the board
            return
        with named(board.labels[label][0]):
            bucket, outcomes = self.step(label, watermark_ms, blobs, **more)
        rows = []
        for name, outcome in outcomes.items():
            for letters in outcome.letters:
                yield self._letters(key, table_to_bytes(self._told(name, letters)))
            row = {"query": name, "bucket": bucket_number, "shard": shard}
            reached = reached_ms(board, name, watermark_ms)
            rows.append(row | _row_of(board.plans[name], outcome, reached))
        rows[0] |= {
            "retained": bucket.retained,
            "retained_more": bucket.retained - bucket.known[0],
            "state_bytes": bucket.state_bytes,
            "state_bytes_more": bucket.state_bytes - bucket.known[1],
        }
        yield self._frame(rows)

    def step(
        self,
        label: str,
        watermark_ms: int,
        blobs: Sequence[bytes] = (),
        fired: bool = False,
        latest_ms: int | None = None,
    ) -> tuple[Bucket, dict[str, QueryOutcome]]:
        """Answer what is due, then take new summaries; ``fired`` if a timer caused this step.

        A key has one timer, at the end of the next window that it has to answer, later by as much
        as its queries' watermark is behind Spark's. ``latest_ms`` is the greatest time of the rows
        behind the new summaries. Queries without state join the board now, if the sources were
        read before.
        """
        board, bucket = self.board, Bucket(self.board, label, self.store)
        tick_ms = bucket.plan.tick_ms
        if bucket.added and not board.alone and watermark_ms > 0:
            bucket.join(watermark_ms * tick_ms)
        # A query that is new is not in the record of how the job was closed; the others are.
        reached = max(reached_ms(board, name, watermark_ms) for name in bucket.names)
        outcomes = bucket.step(reached * tick_ms, blobs, latest_ms)
        end, known, timer = bucket.next_end, bucket.head["timer"], None
        if end is not None:
            timer = max(end // tick_ms + board.held_ms[bucket.names[0]], watermark_ms + 1)
        if timer != known:
            # Spark deletes a timer that has fired. Any other is deleted here, even if it is due:
            # this step has already answered its windows.
            if known is not None and not (fired and known <= watermark_ms):
                self.timers.deleteTimer(known)
            if timer is not None:
                self.timers.registerTimer(timer)
        bucket.save(timer)
        return bucket, outcomes

    def _letters(self, key: Any, blob: bytes) -> pd.DataFrame:
        label, bucket, shard = key
        name = self.board.labels.get(label, [label])[0]
        return self._frame([{"query": name, "bucket": bucket, "shard": shard, "letters": blob}])

    def _told(self, name: str, letters: pa.Table) -> pa.Table:
        """On a board, each letter says which query refused the row."""
        if self.board.alone:
            return letters
        reasons = [f"{name}: {reason}" for reason in letters["reason"].to_pylist()]
        place = letters.schema.get_field_index("reason")
        return letters.set_column(place, letters.schema.field(place), pa.array(reasons))

    def _frame(self, rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
        """Rows of the output; columns that are not given are empty or 0."""
        empty = dict.fromkeys(("payload", "before", "totals", "letters"))
        empty |= {"windows": b"", "marks": b""}
        columns = {name: empty.get(name, 0) for name in self.output.names}
        return pd.DataFrame({n: [row.get(n, none) for row in rows] for n, none in columns.items()})


def _row_of(plan: QueryPlan, outcome: QueryOutcome, reached: int) -> dict[str, Any]:
    """What a row of the output says of a step.

    ``marks`` has one bit per window, newest first; ``unmarked`` counts windows too old to have one.
    All keys answer a given window in the same batch, so the union of their bits is the set of
    windows answered in that batch.
    """
    newest = plan.window.panes.last_window_ending_by(reached * plan.tick_ms)
    age = newest - outcome.windows
    marks = np.zeros(min(int(age.max()) + 1, _MARKED) if len(age) else 0, np.bool_)
    marks[age[age < _MARKED]] = True
    return {
        "windows": outcome.windows.tobytes(),
        "payload": outcome.payload,
        "before": outcome.before,
        "totals": outcome.totals,
        "rows_late": outcome.rows_late,
        "rows_bad": outcome.rows_bad,
        "windows_out": len(outcome.windows),
        "marks": np.packbits(marks, bitorder="little").tobytes(),
        "unmarked": int((age >= _MARKED).sum()),
    }
