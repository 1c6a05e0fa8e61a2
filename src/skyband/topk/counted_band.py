"""One k-skyband of each group for TopK queries over count windows, with progress by group.

Each group counts its own arrivals, so its panes are sealed when it has filled them, whatever other
groups do. Bands lie one after the other in common arrays; a batch takes those of its groups out,
and writes them behind the last one, until half of the room is unused:

    before   ├ a ┼ b ┼── c ──┼ d ┤
    after    ├ a ┼···┼── c ──┼···┼─ b ─┼─ d ─┤      a batch with rows of b and d
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Array, Codes, Ints, copied, grown, pooled
from skyband.contract.one_state import Reader
from skyband.contract.rows import Windows
from skyband.contract.runs import PaneFeed, Part, Runs, expand, offsets_of
from skyband.kernels.core.borrow import frozen
from skyband.kernels.topk.one_band import Band, Reads, Turns, count_each, fold_each
from skyband.kernels.topk.runs import Runs as Pushed
from skyband.topk.one_band import OneBand
from skyband.topk.payload import Payload, Value

__all__ = ["CountedBand"]

_SPARE = 4096


class Each(NamedTuple):
    """Windows of several queries, sorted by group and end; edges are arrival numbers."""

    place: Ints  # which query asks
    number: Ints
    group: Ints
    first: Ints
    end: Ints
    most: Ints

    def take(self, chosen: Any) -> Each:
        """Only these."""
        return Each(*(each[chosen] for each in self))


class Room(NamedTuple):
    """The rows that were read of each window: ``lengths`` of them from ``at`` on."""

    at: Ints
    lengths: Ints
    rows: Ints  # slot, key and tie


class CountedBand(OneBand):
    """As ``OneBand``, where each group has sealed its own panes.

    Cost: as there, for the groups that have rows in a batch.
    """

    def __init__(self, readers: Sequence[Reader], feed: PaneFeed, payload: Payload | Value) -> None:
        super().__init__(readers, feed, payload)
        self.upto: Ints = np.zeros((len(readers), 1), np.int64)
        """The end of the last pane that each query has sealed of each group."""
        self.starts: Ints = np.zeros(1, np.int64)
        self.used = 0
        self._sizes_asked = np.array([[reader.panes.size] for reader in readers])
        self._recent_by_group: tuple[Runs, Turns] | None = None

    def __len__(self) -> int:
        recent = 0 if self.recent is None else len(self.recent.parts["rows"])
        return int(self.sizes.sum()) + recent

    # Progress ---------------------------------------------------------------------------------

    def begin(self, sealed: Sequence[Ints]) -> None:
        self._reserve(max(map(len, sealed)))
        for upto, own in zip(self.upto, sealed, strict=True):
            upto[: len(own)] = own
        self.pull()
        self.settle()

    def reach(self, place: int, panes: Runs | None, windows: Windows) -> None:
        own = self.readers[place].panes
        reached = []
        if panes is not None and len(panes):
            reached.append((panes.group, panes.stamp + 1))
        if len(windows):
            assert windows.group is not None
            reached.append((windows.group, windows.end))
        for group, end in reached:
            self._reserve(int(group.max()) + 1)
            np.maximum.at(self.upto[place], group, own.pane_start(end))

    def _reserve(self, groups: int) -> None:
        known = self.upto.shape[1]
        if groups > known:
            many = max(groups, 2 * known)
            self.upto = np.concatenate(
                [self.upto, np.zeros((len(self.upto), many - known), np.int64)], axis=1
            )
            self.sizes, self.starts = grown(self.sizes, many), grown(self.starts, many)

    @property
    def reached(self) -> Ints:
        return np.asarray(self.upto.max(axis=0))

    # Windows ----------------------------------------------------------------------------------

    def _asked(self, windows: dict[int, Windows]) -> Each:
        pieces = []
        for place, own in windows.items():
            panes, k = self.readers[place].panes, self.readers[place].k
            assert own.group is not None
            edges = panes.pane_start(own.first), panes.pane_start(own.end)
            group, many = own.group.astype(np.int64), len(own)
            pieces.append((np.full(many, place), own.number, group, *edges, np.full(many, k)))
        asked = Each(*(np.concatenate(each) for each in zip(*pieces, strict=True)))
        return asked.take(np.lexsort((asked.end, asked.group)))

    def room(self, asked: Any) -> Any:
        lengths = np.zeros(len(asked.end), np.int64)
        if self.recent is not None and len(lengths):
            groups = np.unique(asked.group)
            panes = self._recent_of(groups)
            work = expand(self.starts[groups], self.sizes[groups])
            rows = self.band.pane[work], offsets_of(self.sizes[groups]), _turns(panes, groups)
            pushed = frozen(panes.stamp), frozen(panes.parts["rows"].offsets)
            first, end, most = map(frozen, (asked.first, asked.end, asked.most))
            count_each(*rows, *pushed, _ends(asked, groups), first, end, most, lengths)
        # One query after the other, so that the rows of each lie together.
        order = np.argsort(asked.place, kind="stable")
        ends, at = np.cumsum(lengths[order]), np.empty_like(lengths)
        at[order] = ends - lengths[order]
        return Room(at, lengths, pooled((3, int(ends[-1]) if len(ends) else 0), np.int64))

    def _read(self, asked: Any, room: Any) -> None:
        assert self.recent is not None
        recent, settled = self.recent, self.upto.min(axis=0)
        done = recent.stamp < settled[recent.group]
        early = asked.end <= settled[asked.group]
        late = np.flatnonzero(~early)
        expired = (self.upto - self._sizes_asked).min(axis=0)
        np.minimum.at(expired, asked.group[late], asked.first[late])
        self._push(recent.take(done), asked, np.flatnonzero(early), room, expired)
        if done.any():
            self.recent = recent.take(~done)
        if len(late):
            self._push(self._recent_of(np.unique(asked.group[late])), asked, late, room)

    def _push(
        self, panes: Runs, asked: Each, which: Ints, room: Room, expired: Ints | None = None
    ) -> None:
        """Push panes and read some windows; the state stays so if ``expired`` is given."""
        reading = asked.take(which)
        groups = np.unique(np.concatenate([panes.group.astype(np.int64), reading.group]))
        rows, sizes = panes.parts["rows"], self.sizes[groups]
        fresh = np.zeros(len(groups), np.int64)
        np.add.at(fresh, np.searchsorted(groups, panes.group), rows.lengths)
        starts = offsets_of(sizes + fresh)
        band = Band(*(np.empty(starts[-1], np.int64) for _ in self.band))
        held, source = expand(starts[:-1], sizes), expand(self.starts[groups], sizes)
        for each, old in zip(band, self.band, strict=True):
            each[held] = old[source]
        gone = np.full(len(groups), np.iinfo(np.int64).min) if expired is None else expired[groups]
        pushed = (panes.stamp, rows.offsets, rows["key"], rows["tie"], rows["slot"])
        most, at = room.lengths[which][:, None], room.at[which][:, None]
        reads = (reading.first, reading.end, reading.end - self.longest, most, at)
        fold_each(
            band, starts, sizes, Pushed(*map(frozen, pushed)), _turns(panes, groups), self.k,
            Reads(*map(frozen, reads)), _ends(reading, groups), room.rows, frozen(gone),
        )  # fmt: skip
        if expired is not None:
            kept = expand(starts[:-1], sizes)
            self._put(groups, sizes, Band(*(each[kept] for each in band)))

    def _put(self, groups: Ints, sizes: Ints, band: Band) -> None:
        """Write the bands of these groups, one after the other, behind all others."""
        self.sizes[groups] = 0
        if self.used + len(band.key) > 2 * int(self.sizes.sum() + len(band.key)) + _SPARE:
            self._tidy()
        upto = self.used + len(band.key)
        self.band = Band(*(grown(each, upto) for each in self.band))
        for each, new in zip(self.band, band, strict=True):
            each[self.used : upto] = new
        self.starts[groups] = self.used + offsets_of(sizes)[:-1]
        self.sizes[groups], self.used = sizes, upto

    def _tidy(self) -> None:
        """Let the bands of all groups lie in order, without room between them."""
        held = expand(self.starts, self.sizes)
        self.band = Band(*(each[held] for each in self.band))
        self.starts, self.used = offsets_of(self.sizes)[:-1].copy(), len(held)

    def _recent_of(self, groups: Ints) -> Runs:
        """The panes of some groups that not every query has sealed."""
        assert self.recent is not None
        many, known = self.upto.shape[1], self._recent_by_group
        if known is None or known[0] is not self.recent or len(known[1].ends) <= many:
            known = self._recent_by_group = self.recent, _turns(self.recent, np.arange(many))
        turns = known[1]
        return self.recent.take(turns.run[expand(turns.ends[groups], np.diff(turns.ends)[groups])])

    def partial(self, asked: Any, own: Ints, room: Any) -> Runs:
        lengths = room.lengths[own]
        some = own[lengths > 0]
        offsets = offsets_of(room.lengths[some])
        first = int(room.at[own[0]]) if len(own) else 0
        slot, key, tie = room.rows[:, first : first + int(offsets[-1])]
        columns: dict[str, Any] = {"key": key, "tie": copied(tie)} | self.payload.gather(slot)
        group = asked.group[some].astype(np.int32)
        return Runs(asked.number[some], group, {"rows": Part(offsets, columns)})

    def peek(self, place: int, first: int, end: int, group: int | None = None) -> Runs:
        assert group is not None
        at, edges = np.zeros(1, np.int64), (np.array([first]), np.array([end]))
        asked = self._asked({place: Windows(at, *edges, at, np.array([group], np.int32))})
        self._reserve(group + 1)
        room = self.room(asked)
        if self.recent is not None:
            self._push(self._recent_of(asked.group), asked, at, room)
        return self.partial(asked, at, room)

    # State ------------------------------------------------------------------------------------

    def rows(self) -> Runs:
        self._tidy()
        return super().rows()

    def rows_of(self, place: int) -> Runs | None:
        if self.recent is None:
            return None
        panes, upto, runs = self.readers[place].panes, self.upto[place], self.rows()
        own = (runs.stamp >= (upto - panes.size)[runs.group]) & (runs.stamp < upto[runs.group])
        return runs.take(own).stamped(np.asarray(panes.pane_of(runs.stamp[own]))).ordered()

    def forget(self, groups: Codes) -> None:
        """Groups over count windows are never forgotten."""

    def compact(self) -> None:
        if self.payload.crowded(len(self)):
            self._tidy()
            super().compact()

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.upto.nbytes + self.starts.nbytes

    def _check(self) -> None:
        self._tidy()
        self._check_bands()
        recent = self.recent
        if recent is not None:
            for group in np.unique(recent.group):
                stamp = recent.stamp[recent.group == group]
                assert (np.diff(stamp) > 0).all()
                low = self.starts[group]
                held = self.band.pane[low : low + self.sizes[group]]
                assert stamp[0] > held.max(initial=-1)


def _turns(runs: Runs, groups: Array) -> Turns:
    """Runs in order of their groups, which are among these."""
    local = np.searchsorted(groups, runs.group)
    counts = np.bincount(local, minlength=len(groups))
    return Turns(np.argsort(local, kind="stable"), offsets_of(counts))


def _ends(asked: Each, groups: Array) -> Ints:
    """Where the windows of each group begin, and where the last ones end."""
    return np.searchsorted(asked.group, np.append(groups, np.iinfo(np.int64).max))
