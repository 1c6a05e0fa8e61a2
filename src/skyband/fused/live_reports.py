"""The reports that an algorithm keeps, its objects and the view that answers are read from.

One ``fold`` takes rows in stretches of a few thousand. For each stretch it encodes the objects'
ids, runs the kernel ``advance`` (adds reports and removes expired ones, step by step), calls the
score function once for all values that changed, and runs the kernel ``settle`` (puts scores into
the view and reads windows from it). Between stretches an algorithm may drop what can no longer be
answered. Nothing runs per row in Python, and the score function, even a user's own, is called
once per stretch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.arrays import Codes, Floats, Ints, Mask, Saved, State, grown
from skyband.contract.checks import integer_option
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.column_store import ColumnStore
from skyband.data.columns import OFFSETS_32, OFFSETS_64, native_dtype, plain, spans, to_numpy
from skyband.data.flat_state import Form, admitted, load, require, save
from skyband.data.keys import KeyIndex
from skyband.data.order import sortable
from skyband.data.packing import prefixed, under
from skyband.fused.base import REPORTS, Guard, Scorer
from skyband.fused.kernels.live_reports import (
    REFILLS,
    VIEW,
    Log,
    Reports,
    View,
    advance,
    dead_of,
    settle,
    values_of,
)
from skyband.fused.sketches import Appearances, SelfJoin
from skyband.kernels.borrow import frozen
from skyband.kernels.strings import common_prefix, prefix_keys
from skyband.query.fused import FusedTopK

# Integers that stand for the ids of objects when ties are broken ---------------------------------


class IdKeys:
    """Keys that never contradict the order of the ids; equal keys leave the order open.

    A number is its own key. The key of text or bytes is the eight bytes after the common prefix of
    all ids so far. Other types have no key: their ties are broken when an answer is finished.

    >>> keys, names = IdKeys(), pa.array(["client 17", "client 18", "client 172"])
    >>> keys.narrows(names)
    True
    >>> np.argsort(keys.of(names)).tolist()
    [0, 2, 1]
    """

    def __init__(self) -> None:
        self.prefix: npt.NDArray[np.uint8] | None = None
        """The common prefix of all ids; None until the first id."""

    def narrows(self, ids: pa.Array) -> bool:
        """Whether these ids (at least one) shorten the common prefix: all keys are then invalid."""
        if not is_text(ids.type):
            return False
        offsets, octets = spans(plain(ids))
        known = self.prefix
        if known is None:
            known = octets[offsets[0] : offsets[1]]
        common = common_prefix(_wide(offsets), frozen(octets), frozen(known))
        if self.prefix is not None and common == len(self.prefix):
            return False
        self.prefix = known[:common].copy()
        return True

    def of(self, ids: pa.Array) -> Ints:
        """The keys of ids that start with the common prefix."""
        if native_dtype(ids.type) is not None:
            return sortable(to_numpy(ids))
        if not is_text(ids.type):
            return np.zeros(len(ids), np.int64)
        assert self.prefix is not None
        offsets, octets = spans(plain(ids))
        return prefix_keys(_wide(offsets), frozen(octets), len(self.prefix))


def _wide(offsets: npt.NDArray[np.int32] | Ints) -> Ints:
    return frozen(offsets.astype(np.int64, copy=False))


def is_text(kind: pa.DataType) -> bool:
    """Whether ids of this type are text or bytes."""
    return kind in OFFSETS_32 or kind in OFFSETS_64


# Reports: those that arrive, what they change, and the log of the live ones -----------------------

_SAVED = ("code", "stream", "value", "pane")


def _empty(room: int) -> Log:
    code, stream, chain = (np.zeros(room, np.int32) for _ in range(3))
    return code, stream, np.zeros(room), np.zeros(room, np.int64), chain


class Steps(NamedTuple):
    """A step adds reports, drops old panes, and reads a window if it has one."""

    end: Ints
    """Where its reports end."""
    first: Ints
    """The first pane that is live after it."""
    number: Ints
    """Its window, or ``UNREAD``."""


class ObjectChanges(NamedTuple):
    """Objects whose values changed, step by step."""

    codes: Codes
    values: Floats
    """One row per object: its value in each stream, the lower bound where it has none."""
    present: Mask
    """Where it has one."""
    scores: Floats
    """NaN for objects without a report."""
    offsets: Ints
    """Where the objects of each step begin."""

    @property
    def known(self) -> Floats:
        """The values, NaN where there is none."""
        return np.where(self.present, self.values, np.nan)


class ReportLog:
    """Reports ordered by pane: those from ``begin`` to ``end`` of the columns are live.

    ``links`` of the owner holds the positions of each object's first and last report.
    """

    def __init__(self) -> None:
        self.columns = _empty(0)
        self.begin = self.end = 0

    def __len__(self) -> int:
        return self.end - self.begin

    @property
    def nbytes(self) -> int:
        columns: tuple[Any, ...] = self.columns
        return sum(column.nbytes for column in columns)

    @property
    def chain(self) -> Codes:
        """The position of the object's next report, by position."""
        return self.columns[4]

    def live(self) -> Log:
        """The columns of the live reports."""
        code, stream, value, pane, chain = self.columns
        at = slice(self.begin, self.end)
        return code[at], stream[at], value[at], pane[at], chain[at]

    def reserve(self, reports: int, links: Codes) -> None:
        """Make room for more reports; positions, in ``links`` too, may move."""
        room = len(self.columns[0])
        if self.end + reports <= room:
            return
        needed, shift = 2 * (len(self) + reports), self.begin
        target: tuple[Any, ...] = self.columns if needed <= room else _empty(needed)
        live: tuple[Any, ...] = self.live()
        for old, new in zip(live, target, strict=True):
            new[: len(self)] = old.copy()
        chain = target[4][: len(self)]
        chain[chain >= 0] -= shift
        links[links >= 0] -= shift
        self.columns, self.begin, self.end = target, 0, len(self)

    def values_within(self, first: int, end: int, low: Floats) -> tuple[Codes, Floats, Mask]:
        """Objects that report in some panes, their values, and where they have any: see ``low``.

        The panes are ``[first, end)``; ``low`` is the value in a stream without reports.
        """
        code, stream, value, pane, _ = self.live()
        inside = (pane >= first) & (pane < end)
        codes, place = np.unique(code[inside], return_inverse=True)
        values = np.zeros((len(codes), len(low)))
        seen = np.zeros((len(codes), len(low)), np.int64)
        np.add.at(values, (place, stream[inside]), value[inside])
        np.add.at(seen, (place, stream[inside]), 1)
        return codes, np.where(seen > 0, values, low), seen > 0

    def state(self) -> State:
        """A copy of the live reports, as flat arrays."""
        live: tuple[Any, ...] = self.live()
        return {name: column.copy() for name, column in zip(_SAVED, live, strict=False)}

    def saved(self, arrays: Saved, objects: int, streams: int) -> Reports:
        """The reports of a snapshot, checked."""
        live = len(arrays["code"])
        forms = dict.fromkeys(_SAVED, Form(live)) | {
            "code": Form(live, 0, objects),
            "stream": Form(live, 0, streams),
            "pane": Form(live, ascends=True),
        }
        like = dict(zip(_SAVED, self.columns, strict=False))
        code, stream, value, pane = admitted(arrays, like, forms).values()
        return frozen(code), frozen(stream), frozen(value), frozen(pane)


# The state ----------------------------------------------------------------------------------------

NEVER = int(np.iinfo(np.int64).min)
UNREAD = NEVER
STRETCH = 8192
"""Reports taken at once, if there are that many: enough to spread the cost of a call."""
_OBJECT = {"key": 0, "links": -1, "ever": 0, "mark": 0, "points": np.nan, "view": -1, "place": -1}
"""Arrays with one entry per object, and the initial value of an entry."""


class LiveReports:
    """A mixin for synopses: a log of reports by pane, objects with dense codes, and their view."""

    # What a ``FusedSynopsis`` brings.
    query: FusedTopK
    low: Floats
    parts: tuple[str, ...]
    id_type: pa.DataType
    guard: Guard | None
    score: Scorer
    note_reports: Callable[[Runs], None]
    rows_of: Callable[[pa.Array, Floats, Floats], dict[str, Any]]

    shortens = True
    scans: ClassVar[bool] = True
    """Whether a view that has become too small is refilled by scanning all scores."""
    sketches: Mapping[str, Appearances | SelfJoin] = {}
    """What sees every report, by the prefix of its names in a snapshot."""

    def start(self) -> None:
        """No reports and no objects."""
        d, query = len(self.low), self.query
        self.aim = integer_option(query.options, "kmax", 4 * query.k + 32, query.k)
        self.work = {"reports_in": 0, "score_updates": 0}
        self.index = KeyIndex()
        self.ids = ColumnStore(self.id_type)
        self.serial = 0
        self.log = ReportLog()
        self.keys = IdKeys()
        self.key = np.zeros(0, np.int64)
        self.links = np.zeros((0, 2), np.int32)
        self.ever = np.zeros((0, d), np.int32)
        self.mark = np.zeros(0, np.int64)
        self.points = np.zeros(0)
        self.values = np.zeros((0, d))
        """The values of each object, NaN where it has none; kept only if answers show them."""
        self.view = np.zeros(0, np.int32)
        self.place = np.zeros(0, np.int32)
        self.counters = np.zeros(4, np.int64)
        self.floor = np.full(1, -np.inf)

    # Panes ------------------------------------------------------------------------------------

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        self.note_reports(panes)
        part = panes.parts[REPORTS]
        end = part.offsets[np.searchsorted(panes.stamp, windows.end)]
        steps = Steps(end, windows.first, windows.number)
        if len(panes) and (not len(end) or end[-1] < len(part)):
            # Panes after the last window: one step per pane, since they may hold many rows.
            extra = part.offsets[1:][part.offsets[1:] > (end[-1] if len(end) else 0)]
            unread = np.full(len(extra), NEVER), np.full(len(extra), UNREAD)
            steps = Steps(*map(np.append, steps, (extra, *unread)))
        pane = np.repeat(panes.stamp, part.lengths)
        answers: list[Runs] = []
        at, row = 0, 0
        while at < len(steps.end):
            within = np.searchsorted(steps.end, row + self._room(), side="right")
            to = max(int(within), at + 1)
            some = Steps(*(array[at:to] for array in steps))
            answers.append(self._stretch(part, pane, row, some))
            at, row = to, int(some.end[-1])
        return Runs.concat(answers) if len(windows) else None

    def _stretch(self, part: Part, pane: Ints, row: int, steps: Steps) -> Runs:
        """Run some steps, of the reports from ``row`` on; returns the answers to their windows."""
        reports = slice(row, int(steps.end[-1]))
        if reports.stop > row:
            for sketch in self.sketches.values():
                sketch.add(part["hash"][reports], part["stream"][reports], pane[reports])
        changed = self._take(self._encoded(part, pane, reports), steps.end - row, steps.first)
        self.work["reports_in"] += reports.stop - row
        self.work["score_updates"] += len(changed.codes)
        reads = steps.number != UNREAD
        codes, points, lengths = self._settle(changed, reads)
        ids, values = self.ids.gather(codes), self._known(codes, lengths, changed)
        some = reads & (lengths > 0)
        rows = Part(offsets_of(lengths[some]), self.rows_of(ids, points, values))
        answers = Runs(steps.number[some], np.zeros(int(some.sum()), np.int32), {"rows": rows})
        answers = self._read(steps.first[reads], answers, steps.first[some])
        self._note(changed)
        self._release(changed.codes)
        self._drop()
        return answers

    def _take(self, rows: Reports, step_end: Ints, step_first: Ints) -> ObjectChanges:
        """Add reports to the log and expire others, step by step."""
        log = self.log
        log.begin, log.end, touched, values, present, offsets = advance(
            rows, step_end, step_first, log.columns, log.begin, log.end, self.links, self.ever,
            self.mark, self.serial, self.low,
        )  # fmt: skip
        self.serial += len(step_end)
        return self._scored(touched, values, present, offsets)

    def _known(self, codes: Codes, lengths: Ints, changed: ObjectChanges) -> Floats:
        """The values of the objects read at each step, NaN where there is none."""
        if not self.parts:
            return np.zeros((len(codes), 0))
        step = np.repeat(np.arange(len(lengths)), lengths)
        found, many = self.values[codes], len(changed.codes) + 1
        if many > 1:  # of the changes up to its step, the last one of the object
            order = np.argsort(changed.codes, kind="stable")
            keys = changed.codes[order].astype(np.int64) * many + order
            wanted = codes.astype(np.int64) * many + changed.offsets[step + 1]
            last = order[np.maximum(np.searchsorted(keys, wanted) - 1, 0)]
            fresh = (changed.codes[last] == codes) & (last < changed.offsets[step + 1])
            found[fresh] = changed.known[last[fresh]]
        return found

    def _note(self, changed: ObjectChanges) -> None:
        """Remember the values of objects, where answers show them."""
        if self.parts:
            self.values[changed.codes] = changed.known  # of several changes, the last one

    def _scored(self, codes: Codes, values: Floats, present: Mask, offsets: Ints) -> ObjectChanges:
        scores = self.score(values)
        scores[~present.any(axis=1)] = np.nan
        return ObjectChanges(codes, values, present, scores, offsets)

    def _encoded(self, part: Part, pane: Ints, reports: slice) -> Reports:
        """Replace the objects of rows by codes, and make room for the rows in the log."""
        if reports.start == reports.stop:
            none = frozen(np.zeros(0, np.int32))
            return none, none, frozen(np.zeros(0)), frozen(np.zeros(0, np.int64))
        codes, fresh_rows, fresh = self.index.encode(part["hash"][reports])
        self._reserve(self.index.bound, len(codes))
        if len(fresh):
            self.ids.put(fresh, part["id"].slice(reports.start, len(codes)), fresh_rows)
            self._give_keys(fresh)
        stream, value = part["stream"][reports], part["value"][reports]
        return frozen(codes), frozen(stream), frozen(value), frozen(pane[reports])

    def _give_keys(self, fresh: Codes) -> None:
        """Set the keys of new objects; of all objects if their common prefix became shorter."""
        names = self.ids.gather(fresh)
        if self.keys.narrows(names):
            fresh = self.index.codes().astype(np.int32)
            names = self.ids.gather(fresh)
        self.key[fresh] = self.keys.of(names)

    def _settle(self, changed: ObjectChanges, reads: Mask) -> tuple[Codes, Floats, Ints]:
        """Put scores into the view; returns the codes and scores read, and the count per step."""
        k = self.query.k
        step, resumed = 0, False
        codes, points, lengths = [], [], []
        while step < len(reads):
            step, found, at, ends = settle(
                self._best_of_all(), changed.codes, changed.scores, changed.offsets, reads, step,
                resumed, self.scans, k, self.aim,
            )  # fmt: skip
            codes.append(found)
            points.append(at)
            lengths.append(np.diff(ends))
            if step < len(reads):
                self._refill(step)
                resumed = True
        return np.concatenate(codes), np.concatenate(points), np.concatenate(lengths)

    def _best_of_all(self) -> View:
        """What the kernels of the view work on."""
        return View(self.points, self.key, self.view, self.place, self.counters, self.floor)

    def _refill(self, step: int) -> None:
        """Choose a view of at least k objects as of a step; only needed if ``scans`` is False."""
        raise AssertionError("scores are scanned instead")

    # Objects ----------------------------------------------------------------------------------

    def _reserve(self, objects: int, reports: int) -> None:
        """Make room for objects with codes below ``objects`` and for ``reports`` more reports."""
        self.log.reserve(reports, self.links)
        for name, fill in _OBJECT.items():
            setattr(self, name, grown(getattr(self, name), max(objects, 64), fill))
        if self.parts:
            self.values = grown(self.values, len(self.key), np.nan)

    def _release(self, touched: Codes) -> None:
        """Forget those of the touched objects that have no report left."""
        self.serial += 1
        dead = dead_of(touched, self.links, self.mark, self.serial)
        if len(dead):
            self.index.release(dead)
            self.ever[dead] = 0

    def _read(self, first: Ints, answers: Runs, answered: Ints) -> Runs:
        """Hook: called with the first panes of windows that were just read, and their answers.

        ``answered`` are the first panes of those that have an answer, which may get its bounds.
        """
        return answers

    def _room(self) -> int:
        """Reports that may arrive before something should be dropped."""
        return STRETCH

    def _drop(self) -> None:
        """Hook: drop what can no longer be answered, if that is worth the effort."""

    # Reading now ------------------------------------------------------------------------------

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        """The answer over the panes ``[first, end)``, computed from the log alone."""
        codes, values, seen = self.log.values_within(first, end, self.low)
        scores = self.score(values)
        order = np.lexsort((self.key[codes], -scores))
        k = min(self.query.k, len(order))
        if len(order) > k:
            last = order[k - 1]
            tied = (scores == scores[last]) & (self.key[codes] == self.key[codes[last]])
            order = np.append(order[:k], order[k:][tied[order[k:]]])
        runs = 1 if len(order) else 0
        known = np.where(seen[order], values[order], np.nan)
        columns = self.rows_of(self.ids.gather(codes[order]), scores[order], known)
        part = Part(offsets_of(np.full(runs, len(order))), columns)
        return Runs(np.full(runs, end), np.zeros(runs, np.int32), {"rows": part})

    # State ------------------------------------------------------------------------------------

    @property
    def _parts(self) -> dict[str, Any]:
        """What has a state of its own, by the prefix of its names in a snapshot."""
        parts = {"log/": self.log, "index/": self.index, "ids/": self.ids, **self.sketches}
        return parts if self.guard is None else parts | {"guard/": self.guard}

    def snapshot(self) -> State:
        arrays: State = {}
        for prefix, part in self._parts.items():
            arrays |= prefixed(prefix, part.state())
        arrays["ever"] = self.ever[: self.index.bound].copy()
        arrays["work"] = np.array(list(self.work.values()), np.int64)
        arrays["refills"] = self.counters[REFILLS : REFILLS + 1].copy()
        return arrays | save(self)

    def restore(self, arrays: Saved) -> None:
        self.start()
        self.index.restore(under(arrays, "index/"))
        self.ids.restore(under(arrays, "ids/"))
        for prefix in self._parts.keys() & {"guard/", *self.sketches}:
            self._parts[prefix].restore(under(arrays, prefix))
        bound, codes = self.index.bound, self.index.codes().astype(np.int32)
        require(len(self.ids) >= bound, "an id is missing")
        rows = self.log.saved(under(arrays, "log/"), bound, len(self.low))
        require(np.array_equal(np.unique(rows[0]), codes), "an object has no report")
        self._reserve(bound, len(rows[0]))
        if len(codes):
            self._give_keys(codes)
        changed = self._take(rows, np.array([len(rows[0])]), np.array([NEVER]))
        self._note(changed)
        self._settle(changed, np.zeros(1, np.bool_))
        saved = admitted(arrays, {"ever": self.ever}, {"ever": Form(bound, 0)})
        self.ever[:bound] = saved["ever"]
        done = np.zeros(0, np.int64)
        work = admitted(arrays, {"work": done}, {"work": Form(len(self.work), 0, 1 << 62)})["work"]
        self.work = dict(zip(self.work, work.tolist(), strict=True))
        saved = admitted(arrays, {"refills": done}, {"refills": Form(1)})
        self.counters[REFILLS] = saved["refills"][0]
        load(self, arrays)  # last: the lists of ``sla`` have counted that they were filled again

    def _rescore(self, codes: Codes) -> None:
        """Re-read the values of objects from the log, and settle their scores."""
        values, present = values_of(codes, self.links, self.log.columns, self.low)
        changed = self._scored(codes, values, present, np.array([0, len(codes)]))
        self._note(changed)
        self._settle(changed, np.zeros(1, np.bool_))

    def stats(self) -> dict[str, int | float]:
        held = [*self._parts.values(), *(getattr(self, name) for name in _OBJECT)]
        return {
            "retained": self.retained(),
            "reports": len(self.log),
            "objects": len(self.index),
            "state_bytes": sum(int(each.nbytes) for each in (*held, self.values)),
            "refills": int(self.counters[REFILLS]),
            **self.work,
        }

    @abstractmethod
    def retained(self) -> int:
        """Items kept, as the paper counts them."""

    def _check(self) -> None:
        code, stream, value, pane, chain = self.log.columns
        live = range(self.log.begin, self.log.end)
        assert all(pane[i] <= pane[i + 1] for i in list(live)[:-1])
        chains: dict[int, list[int]] = {}
        for i in live:
            chains.setdefault(int(code[i]), []).append(i)
        assert sorted(chains) == self.index.codes().tolist()
        for owner, reports in chains.items():
            assert self.links[owner].tolist() == [reports[0], reports[-1]]
            assert chain[reports].tolist() == [*reports[1:], -1]
            row = np.array([
                sum((value[i] for i in reports if stream[i] == s), 0.0)
                if any(stream[i] == s for i in reports) else self.low[s]
                for s in range(len(self.low))
            ])  # fmt: skip
            assert self.points[owner] == self.score(row[None, :])[0]
            seen = np.isin(np.arange(len(self.low)), stream[reports])
            shown = self.values[owner] if self.parts else row[seen]
            assert np.array_equal(shown[~np.isnan(shown)], row[seen])
            at = self.place[owner]
            assert (at >= 0) == (self.points[owner] >= self.floor[0])
            assert at < 0 or self.view[at] == owner
        scored = np.flatnonzero(~np.isnan(self.points))
        assert scored.tolist() == sorted(chains)
        assert int((self.place >= 0).sum()) == self.counters[VIEW]
        assert self.counters[1] == len(chains)
        if self.guard is not None:
            self.guard._check()
