"""The state of a family of queries, in one bucket and shard.

    head            of each query, how far it has come; which queries keep one state; which pieces
                    of panes there are, and who reads them
    slot -> bytes   a piece of a pane: the summary of its rows, with the keys of its groups

As in ``bucket.py``, a batch writes the head and what it adds to panes, and sessions are rebuilt
from the pieces when windows are due, or taken from this process's cache.

Which queries keep one state is decided when the key is first used. Their panes are cut wherever a
window of any of them begins or ends, and each is stored once. A query that is added later keeps its
own. A row that is late for some queries is stored for the others.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from skyband.arrays import Ints, Mask
from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable
from skyband.data.ipc import table_from, table_to_bytes
from skyband.data.packing import pack, unpack
from skyband.engine.clocks import TimeClock
from skyband.engine.fold import Step
from skyband.engine.one_pass import regrouped
from skyband.engine.united_session import UnitedSession
from skyband.errors import EngineError
from skyband.spark.answer_bytes import answers_to_bytes
from skyband.spark.bucket import Outcome, Store
from skyband.spark.family_plan import FamilyPlan
from skyband.spark.finishing import answers_table
from skyband.spark.parcels import pack_runs, slices, unpack_runs
from skyband.spark.pieces import Names, Pieces
from skyband.spark.plan import Plan
from skyband.spark.sessions import SESSIONS

__all__ = ["FamilyBucket"]

_MOST_PIECES = 32
"""Pieces of a pane that are joined before it is sealed, so that none grows without bound."""
_FAMILY_VERSION = 1


class FamilyBucket:
    """Takes packed summaries and watermarks, and returns the answers of each query that are due."""

    def __init__(self, plan: FamilyPlan, store: Store, board: Collection[str] = ()) -> None:
        """``board`` are the names of all queries of the board, those of other families too."""
        self.plan = plan
        self.store = store
        self.pieces = Pieces()
        self.head: dict[str, Any] = {
            "family": _FAMILY_VERSION, "token": None, "timer": None, "unions": [], "members": {},
        }  # fmt: skip
        self.before: dict[str, Any] = {}
        """The last answer of each query, if changes are wanted."""
        blob = store.head()
        self.new = blob is None
        """Whether the key had no state before this step."""
        self._sessions: dict[Names, UnitedSession] = {}
        self._changed = False
        if blob is not None:
            self._read(blob, board)
        self.known = self.retained, self.state_bytes
        """``retained`` and ``state_bytes`` of the key before this step."""
        self.added = [name for name in plan.plans if name not in self.head["members"]]
        """Queries that are new here."""
        for name in self.added:
            self.head["members"][name] = _member(plan.plans[name])
        self.head["unions"] += plan.unions() if self.new else [[name] for name in self.added]
        self._changed |= bool(self.added)
        self._outcomes = {name: Outcome() for name in plan.plans}

    def _read(self, blob: bytes, board: Collection[str]) -> None:
        head, arrays = unpack(blob)
        if head.get("family") != _FAMILY_VERSION:
            raise EngineError(
                "the state in this checkpoint was written by another version of Skyband; use that "
                "version, or start from a new checkpoint"
            )
        self.head, self.pieces = head, Pieces.restored(head["pieces"], arrays)
        self.before = {
            name: table_from(arrays[f"before/{name}"].tobytes())
            for name in head["members"]
            if f"before/{name}" in arrays
        }
        self._sessions = SESSIONS.take(head["token"]) or {}
        for name, member in head["members"].items():
            if name in self.plan.plans:
                self.plan.plans[name].check_identity(member["identity"])
            elif name in board:
                raise EngineError(
                    f"the state in this checkpoint belongs to another query named {name!r}; give "
                    "the changed query a new name, or start from a new checkpoint"
                )
        gone = [name for name in head["members"] if name not in self.plan.plans]
        if gone:
            self._remove(gone)

    def _remove(self, gone: Sequence[str]) -> None:
        """Forget queries that were taken from the board, and what only they needed."""
        for name in gone:
            del self.head["members"][name]
            self.before.pop(name, None)
        left = [[name for name in names if name not in gone] for names in self.head["unions"]]
        self.head["unions"] = [names for names in left if names]
        self._forget(self.pieces.keep_readers(list(self.head["members"])))
        self._sessions = {}
        self._changed = True

    def join(self, seen: int) -> None:
        """Let new queries begin with the first window that starts at or after ``seen``."""
        for name in self.added:
            plan = self.plan.plans[name]
            clock = TimeClock(plan.window.panes, 0, plan.schemas)
            clock.join(seen)
            self.head["members"][name] |= {"clock": clock.state(), "since": clock.sealed}

    # Steps --------------------------------------------------------------------------------------

    def step(
        self, watermarks: Mapping[str, int], blobs: Sequence[bytes], latest_ms: int | None = None
    ) -> dict[str, Outcome]:
        """Seal up to each query's watermark, then take summaries, except late ones."""
        known = self.head.get("latest")
        if latest_ms is not None and (known is None or latest_ms > known):
            self.head["latest"] = latest_ms
            self._changed = True
        for names in self._unions:
            if any(self._is_due(name, watermarks[name]) for name in names):
                self._advance(names, watermarks)
        if blobs:
            self._take(blobs, {name: self._sealed(name, watermarks[name]) for name in watermarks})
        return self._outcomes

    def save(self, timer: int | None) -> None:
        """Write the head if something has changed, and cache the sessions."""
        if self._changed or timer != self.head["timer"]:
            self.head |= {"token": uuid.uuid4().hex, "timer": timer}
            self.head["pieces"], arrays = self.pieces.state()
            for name, table in self.before.items():
                arrays[f"before/{name}"] = np.frombuffer(table_to_bytes(table), np.uint8)
            self.store.set_head(pack(self.head, arrays))
        if self._sessions:
            SESSIONS.keep(self.head["token"], self._sessions, self.state_bytes)

    @property
    def next_due(self) -> int | None:
        """The time of the sources at which the next window of any query has to be answered."""
        ends = {name: self._next_end(name) for name in self.plan.plans}
        late = {name: plan.window.lateness_ticks for name, plan in self.plan.plans.items()}
        return min((end + late[n] for n, end in ends.items() if end is not None), default=None)

    @property
    def state_bytes(self) -> int:
        return int(self.pieces.size.sum())

    @property
    def retained(self) -> int:
        return sum(int(member["retained"]) for member in self.head["members"].values())

    @property
    def _unions(self) -> list[Names]:
        return [tuple(names) for names in self.head["unions"]]

    def _next_end(self, name: str) -> int | None:
        """The end of a query's next window: one with rows, or the first empty one after it."""
        panes, clock = self.plan.plans[name].window.panes, self.head["members"][name]["clock"]
        answered = None if clock is None else clock["answered"]
        after = np.iinfo(np.int64).min if answered is None else answered + 1
        due: list[int] = [after] if clock is not None and clock["pending"] is not None else []
        stamps = self.pieces.stamp[self.pieces.read_by_any(name)]
        if len(stamps):
            due.append(max(int(panes.first_window_of(panes.pane_of(stamps.min()))), after))
        return int(panes.end_of(min(due))) if due else None

    def _is_due(self, name: str, watermark: int) -> bool:
        end = self._next_end(name)
        return end is not None and watermark >= end

    def _sealed(self, name: str, watermark: int) -> int:
        """Rows from before this time are late for a query."""
        panes = self.plan.plans[name].window.panes
        sealed = int(panes.pane_of(watermark))
        return int(panes.pane_start(max(sealed, self.head["members"][name].get("since", sealed))))

    # Sealing ------------------------------------------------------------------------------------

    def _advance(self, names: Names, watermarks: Mapping[str, int]) -> None:
        session = self._loaded(names)
        whole = session.fresh(max(self._sealed(name, watermarks[name]) for name in names))
        due = session.seal({name: watermarks[name] for name in names})
        self._changed = True
        for name in names:
            self.head["members"][name]["clock"] = session.sessions[name].clock
        self._drop_expired(names)
        if whole is not None:
            self._join_pieces(names, whole, session.groups)
        for name, step in due.items():
            if len(step.windows):
                self._answer(name, step, session)
        for name in names:
            self.head["members"][name]["retained"] = int(session.sessions[name].retained)
        if session.parted and self._agree(names):
            del self._sessions[names]  # they can keep one state again

    def _agree(self, names: Names) -> bool:
        """Whether all queries of a union read the same pieces."""
        others = self.pieces.by_audience(names)
        return not any(mask.any() for readers, mask in others if readers != names)

    def _loaded(self, names: Names) -> UnitedSession:
        """The session over all panes: cached by this process, or rebuilt from the store."""
        if names not in self._sessions:
            session = self.plan.of(list(names)).session()
            panes: dict[Names, Runs] = {}
            for readers, chosen in self.pieces.by_audience(names):
                if chosen.any():
                    panes[readers] = self._stored(chosen, session.groups)
            members = self.head["members"]
            told = {name: (members[name]["clock"], self.before.get(name)) for name in names}
            session.resume(told, panes)
            self._sessions[names] = session
        return self._sessions[names]

    def _answer(self, name: str, step: Step, session: UnitedSession) -> None:
        """Note what a query answers, or this shard's piece of it."""
        plan, own, outcome = self.plan.plans[name], session.sessions[name], self._outcomes[name]
        outcome.windows = step.windows.number
        self.head["members"][name]["counts"]["windows_out"] += len(step.windows)
        if plan.shards > 1:
            if step.partial is not None:
                outcome.payload = pack_runs(step.partial, own.groups)
            own.forget(step.windows)
            return
        partials = [] if step.partial is None else [step.partial]
        answers = own.finish(partials, step.windows.number)
        table = answers_table(plan, answers)
        outcome.payload = answers_to_bytes(table) if table.num_rows else None
        if plan.changes and own.last_answer is not None:
            self.before[name] = own.last_answer

    # Taking -------------------------------------------------------------------------------------

    def _take(self, blobs: Sequence[bytes], sealed: Mapping[str, int]) -> None:
        cached = next(iter(self._sessions.values()), None)
        groups = self.plan.groups() if cached is None else cached.groups
        runs = Runs.concat([unpack_runs(blob, groups)[0] for blob in blobs])
        for names in self._unions:
            starts = self.plan.of(list(names)).one_pass.starts(runs.stamp)
            late = np.stack([starts < sealed[name] for name in names])
            for name, own in zip(names, late, strict=True):
                self._note_late(name, int(runs.scalars["rows"][own].sum()))
            for pattern in np.unique(late, axis=1).T:
                readers = tuple(n for n, out in zip(names, pattern, strict=True) if not out)
                if readers:
                    same = (late == pattern[:, None]).all(axis=0)
                    taken = runs.stamped(starts)
                    self._add(names, readers, taken if same.all() else taken.take(same), groups)

    def _note_late(self, name: str, count: int) -> None:
        if count:
            self._outcomes[name].rows_late += count
            self.head["members"][name]["counts"]["rows_late"] += count
            self._changed = True

    def _add(self, names: Names, readers: Names, runs: Runs, groups: GroupTable) -> None:
        """Store summaries for those who read them, and give them to the session, if it is there."""
        self._changed = True
        runs = runs.ordered()
        if runs.repeats.any():
            runs = self._combined(runs)
        session = self._sessions.get(names)
        if session is not None and session.united and readers != names:
            del self._sessions[names]  # from now on each of them keeps its own state
        elif session is not None:
            session.take(regrouped(runs, groups, session.groups), readers)
        stored = self.pieces.stamp[self.pieces.read_by(readers)]
        for stamp, summary in slices(runs):
            if np.count_nonzero(stored == stamp) >= _MOST_PIECES:
                same = self.pieces.read_by(readers) & (self.pieces.stamp == stamp)
                both = Runs.concat([self._stored(same, groups), summary]).ordered()
                self._replace(same, stamp, readers, self._combined(both), groups)
            else:
                self._write(stamp, readers, summary, groups)

    def _combined(self, runs: Runs) -> Runs:
        found: Runs = self.plan.summariser.combine(runs)
        return found

    # Pieces -------------------------------------------------------------------------------------

    def _stored(self, chosen: Mask, groups: GroupTable) -> Runs:
        """Some pieces, in order; each pane and group once."""
        blobs = [self.store.pane(slot) for slot in self.pieces.slots(chosen)]
        runs = Runs.concat([unpack_runs(blob, groups)[0] for blob in blobs if blob is not None])
        runs = runs.ordered()
        return self._combined(runs) if runs.repeats.any() else runs

    def _join_pieces(self, names: Names, whole: Runs, groups: GroupTable) -> None:
        """Store panes that all queries of a union read, and that are sealed, as one piece each."""
        mine, stamps = self.pieces.read_by(names), self.pieces.stamp
        stamp, count = np.unique(stamps[mine & np.isin(stamps, whole.stamp)], return_counts=True)
        for pane, runs in slices(whole.take(np.isin(whole.stamp, stamp[count > 1])).ordered()):
            same = self.pieces.read_by(names) & (self.pieces.stamp == pane)
            self._replace(same, pane, names, runs, groups)

    def _replace(
        self, same: Mask, stamp: int, readers: Names, runs: Runs, groups: GroupTable
    ) -> None:
        self._forget(self.pieces.drop(same))
        self._write(stamp, readers, runs, groups)

    def _write(self, stamp: int, readers: Names, runs: Runs, groups: GroupTable) -> None:
        blob = pack_runs(runs, groups)
        self.store.set_pane(self.pieces.add(stamp, len(blob), readers), blob)

    def _drop_expired(self, names: Names) -> None:
        """Drop the pieces that no window of their readers needs any more."""
        stamps = self.pieces.stamp
        gone = np.zeros(len(stamps), np.bool_)
        for readers, chosen in self.pieces.by_audience(names):
            gone |= chosen & ~np.any([self._needs(name, stamps) for name in readers], axis=0)
        self._forget(self.pieces.drop(gone))

    def _needs(self, name: str, stamps: Ints) -> Mask:
        panes, clock = self.plan.plans[name].window.panes, self.head["members"][name]["clock"]
        if clock is None or clock["answered"] is None:
            return np.ones(len(stamps), np.bool_)
        return np.asarray(panes.last_window_of(panes.pane_of(stamps)) > clock["answered"])

    def _forget(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self.store.drop_pane(slot)


def _member(plan: Plan) -> dict[str, Any]:
    """A query that has taken nothing yet."""
    counts = dict.fromkeys(("rows_late", "rows_bad", "windows_out"), 0)
    return {"identity": plan.identity, "clock": None, "counts": counts, "retained": 0}
