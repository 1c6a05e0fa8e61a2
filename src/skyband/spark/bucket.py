"""The state of one bucket and shard: a map of panes, a small head, and a session built from them.

    head            what was answered so far, which panes exist, counts, the query's identity, the
                    greatest time of the rows that were sent to this key
    pane -> bytes   the summary of that pane, with the keys of its groups
    piece -> bytes  what later batches added to a pane that is still open
    part -> bytes   a part of the state, if it outlives its panes (windows without a size)

A batch writes the head and what it adds to panes, never again what earlier batches wrote: the
pieces of a pane are joined when it is sealed, or when there are many. The session is not stored:
it is rebuilt from the panes when windows are due. A process may reuse a session that it built
earlier, if nothing has been written since: ``head["token"]`` changes with every write, and sessions
are cached under it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.rows import Faults
from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable
from skyband.data.ipc import table_from, table_to_bytes
from skyband.data.packing import pack, unpack
from skyband.engine.clocks import TimeClock
from skyband.engine.summary_session import SummarySession
from skyband.spark.answer_bytes import answers_to_bytes
from skyband.spark.finishing import answers_table
from skyband.spark.letters import late_letters
from skyband.spark.parcels import pack_runs, slices, unpack_runs
from skyband.spark.plan import Plan
from skyband.spark.sessions import SESSIONS

__all__ = ["Bucket", "Outcome", "Store"]

_MARKED = 8 * 4096
"""Bits in one of Spark's bitmaps."""
_FIRST_PART = -(1 << 40)
"""The key of the first part of the state among the panes; the others come before it."""
_FIRST_PIECE = -(1 << 50)
"""The key of the first piece of a pane; the others come before it."""
_MOST_PIECES = 32
"""Pieces of a pane that are joined before it is sealed, so that none grows without bound."""


class Store(Protocol):
    """Where a bucket's head and panes are kept."""

    def head(self) -> bytes | None: ...
    def set_head(self, blob: bytes) -> None: ...
    def pane(self, pane: int) -> bytes | None: ...
    def set_pane(self, pane: int, blob: bytes) -> None: ...
    def drop_pane(self, pane: int) -> None: ...
    def panes(self) -> Iterable[tuple[int, bytes]]: ...


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
            "pieces": {},
            "next_piece": 0,
            "parts": {},
            "filled": [],
            "timer": None,
            "counts": dict.fromkeys(("rows_late", "rows_bad", "windows_out"), 0),
            "stats": {},
        }
        self.new = blob is None
        """Whether the key had no state before this step."""
        if blob is not None:
            self._read(blob)
        self._session: SummarySession | None = SESSIONS.take(self.head["token"])
        self.known = self.retained, self.state_bytes
        """``retained`` and ``state_bytes`` of the key before this step."""
        self._changed = False
        self._outcome = Outcome()

    def _read(self, blob: bytes) -> None:
        head, arrays = unpack(blob)
        self.plan.check_identity(head.get("identity"))
        self.head = head
        self.head["identity"] = self.plan.identity  # of an older version, perhaps
        self.head["panes"] = {int(pane): size for pane, size in head["panes"].items()}
        known = head.get("pieces", {})  # version 1 of the state had none
        self.head["pieces"] = {int(pane): pieces for pane, pieces in known.items()}
        self.head.setdefault("next_piece", 0)
        # Version 0.1 had no such windows.
        self.head["parts"] = {int(part): size for part, size in head.get("parts", {}).items()}
        self.head.setdefault("filled", [])
        if "before" in arrays:
            self.before = table_from(arrays["before"].tobytes())

    def join(self, seen: int) -> None:
        """Begin with the first window that starts at or after ``seen``; for a key without state."""
        clock = TimeClock(self.panes, 0, self.plan.schemas)
        clock.join(seen)
        self.head |= {"clock": clock.state(), "since": clock.sealed}

    # Steps --------------------------------------------------------------------------------------

    def step(self, watermark: int, blobs: Sequence[bytes], latest_ms: int | None = None) -> Outcome:
        """Seal up to the watermark, then take summaries; those of sealed panes are late."""
        self._outcome = Outcome()
        known = self.head.get("latest")
        if latest_ms is not None and (known is None or latest_ms > known):
            self.head["latest"] = latest_ms
            self._changed = True
        self._advance(watermark)
        if blobs:
            sealed = int(self.panes.pane_of(watermark))
            self._take(blobs, max(sealed, self.head.get("since", sealed)))
        return self._outcome

    def save(self, timer: int | None, always: bool = False) -> None:
        """Write the head if something has changed, and cache the session."""
        if self._changed or always or timer != self.head["timer"]:
            self.head |= {"token": uuid.uuid4().hex, "timer": timer}
            arrays = {}
            if self.before is not None:
                arrays["before"] = np.frombuffer(table_to_bytes(self.before), np.uint8)
            self.store.set_head(pack(self.head, arrays))
        if self._session is not None:
            SESSIONS.keep(self.head["token"], self._session, self.state_bytes)

    @property
    def next_end(self) -> int | None:
        """The end of the next window to answer: one with rows, or the first empty one after it."""
        clock = self.head["clock"] or {"answered": None, "pending": None}
        answered = clock["answered"]
        after = np.iinfo(np.int64).min if answered is None else answered + 1
        filled = [*self.head["panes"], *self.head["filled"]]
        due = [max(int(self.panes.first_window_of(pane)), after) for pane in filled]
        if clock["pending"] is not None or (not self.panes.sized and clock.get("filled")):
            due.append(after)
        return int(self.panes.end_of(min(due))) if due else None

    @property
    def state_bytes(self) -> int:
        return int(sum(self.head["panes"].values()) + sum(self.head["parts"].values()))

    @property
    def retained(self) -> int:
        return int(self.head["stats"].get("retained", 0))

    # Sealing ------------------------------------------------------------------------------------

    def _advance(self, watermark: int) -> None:
        end = self.next_end
        if end is None or watermark < end:
            return
        session = self._loaded()
        joined = self._joined(session, int(self.panes.pane_of(watermark)))
        due = session.seal(watermark, np.array(self.head["filled"], np.int64))
        self.head["filled"] = [pane for pane in self.head["filled"] if pane >= session.sealed]
        self._changed = True
        self.head["clock"] = session.clock
        answered = self.head["clock"]["answered"]
        if due is not None and due.faults is not None:
            self._note(due.faults, session.groups)
        for pane, runs in joined:
            if answered is None or self.panes.last_window_of(pane) > answered:
                self._write(pane, runs, session.groups)
        if due is not None and due.mended is not None:
            for pane, runs in slices(due.mended):
                self._write(pane, runs, session.groups)
        if session.synopsis.accumulates:
            self._store(session)
        elif answered is not None:
            for pane in [p for p in self.head["panes"] if self.panes.last_window_of(p) <= answered]:
                self._drop(pane)
        if due is None or not len(due.windows):
            return
        outcome = self._outcome
        outcome.windows = due.windows.number
        self.head["counts"]["windows_out"] += len(due.windows)
        if self.plan.shards > 1:
            if due.partial is not None:
                outcome.payload = pack_runs(due.partial, session.groups)
            session.forget(due.windows)
        else:
            partials = [] if due.partial is None else [due.partial]
            answers = session.finish(partials, due.windows.number)
            table = answers_table(self.plan, answers)
            outcome.payload = answers_to_bytes(table) if table.num_rows else None
            if self.plan.changes:
                self.before = session.last_answer
        self.head["stats"] = {"retained": session.retained}

    def _loaded(self) -> SummarySession:
        """The session over all panes: cached by this process, or rebuilt from the store."""
        if self._session is None:
            session = self._session = self.plan.session()
            panes: list[Runs] = []
            parts: list[Runs] = []
            for key, blob in self.store.panes():
                runs = unpack_runs(blob, session.groups)[0]
                (parts if _FIRST_PIECE < key <= _FIRST_PART else panes).append(runs)
            session.resume(self.head["clock"], panes, self.before, parts)
        return self._session

    def _joined(self, session: SummarySession, upto: int) -> list[tuple[int, Runs]]:
        """The panes before this one that are in pieces, as one summary each."""
        panes = [pane for pane in self.head["pieces"] if pane < upto]
        if not panes or session.synopsis.accumulates:
            return []
        return list(slices(session.open.of(np.array(panes, np.int64))))

    def _store(self, session: SummarySession) -> None:
        """Write the changed parts of the state, which now holds all sealed panes."""
        for pane in [pane for pane in self.head["panes"] if pane < session.sealed]:
            self._drop(pane)
        for part, runs in session.changed():
            if len(runs):
                blob = pack_runs(runs, session.groups)
                self.store.set_pane(_FIRST_PART - part, blob)
                self.head["parts"][part] = len(blob)
            elif part in self.head["parts"]:
                self.store.drop_pane(_FIRST_PART - part)
                del self.head["parts"][part]

    def _note(self, faults: Faults, groups: GroupTable) -> None:
        """Count rows that were refused when their panes were sealed, and keep them as letters."""
        self._outcome.rows_bad += faults.count
        self.head["counts"]["rows_bad"] += faults.count
        if self.plan.letters and faults.refused is not None:
            self._outcome.letters.append(late_letters(faults.refused(), groups))

    # Taking -------------------------------------------------------------------------------------

    def _take(self, blobs: Sequence[bytes], sealed: int) -> None:
        session = self._session
        groups = self.plan.groups() if session is None else session.groups
        unpacked = [unpack_runs(blob, groups) for blob in blobs]
        runs = Runs.concat([each for each, _ in unpacked])
        self._note_filled([extra["filled"] for _, extra in unpacked if "filled" in extra], sealed)
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
        added = self.plan.open_panes() if session is None else session.open.another()
        added.take(runs.ordered())
        whole = added.whole()
        assert whole is not None
        if session is not None:
            session.take(whole)
        for pane, summary in slices(whole):
            if len(self.head["pieces"].get(pane, ())) >= _MOST_PIECES:
                added.take(self._stored(pane, groups))
                self._write(pane, added.of(np.array([pane])), groups)
            elif pane in self.head["panes"]:
                self._add(pane, summary, groups)
            else:
                self._write(pane, summary, groups)

    def _stored(self, pane: int, groups: GroupTable) -> Runs:
        """All that is stored of a pane."""
        keys = [pane, *(_FIRST_PIECE - piece for piece in self.head["pieces"][pane])]
        blobs = [self.store.pane(key) for key in keys]
        return Runs.concat([unpack_runs(blob, groups)[0] for blob in blobs if blob is not None])

    def _note_filled(self, told: Sequence[Ints], sealed: int) -> None:
        """Note panes that have rows in any bucket or shard, if that decides what is answered."""
        known = set(self.head["filled"])
        fresh = {int(pane) for panes in told for pane in panes if pane >= sealed} - known
        if fresh:
            self.head["filled"] = sorted(known | fresh)
            self._changed = True

    def _add(self, pane: int, runs: Runs, groups: GroupTable) -> None:
        """Write what a batch adds to a pane."""
        blob, piece = pack_runs(runs, groups), self.head["next_piece"]
        self.store.set_pane(_FIRST_PIECE - piece, blob)
        self.head["next_piece"] = piece + 1
        self.head["pieces"].setdefault(pane, []).append(piece)
        self.head["panes"][pane] += len(blob)

    def _write(self, pane: int, runs: Runs, groups: GroupTable) -> None:
        """Write all of a pane."""
        blob = pack_runs(runs, groups)
        self._drop_pieces(pane)
        self.store.set_pane(pane, blob)
        self.head["panes"][pane] = len(blob)

    def _drop(self, pane: int) -> None:
        self._drop_pieces(pane)
        self.store.drop_pane(pane)
        del self.head["panes"][pane]

    def _drop_pieces(self, pane: int) -> None:
        for piece in self.head["pieces"].pop(pane, ()):
            self.store.drop_pane(_FIRST_PIECE - piece)
