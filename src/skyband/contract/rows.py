"""What the engine and an algorithm exchange, in addition to runs: rows, windows, faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Codes, Ints, Mask
from skyband.contract.runs import Part, Runs, expand, offsets_of
from skyband.data.columns import take, to_numpy
from skyband.kernels.select import select_runs

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Rows:
    """Good rows of one batch of one source, arranged in runs of one (pane, group) each.

    Within a run, rows are in order of arrival. ``index`` maps positions in run order to rows of
    ``batch``; None means that the batch is already in run order, so no column is copied.
    """

    source: str
    batch: pa.RecordBatch
    pane: Ints
    group: Codes
    offsets: Ints
    index: Ints | None = None
    times: Ints | None = None
    """Native event times in batch order, if the query has a time."""
    arrival: Ints | None = None
    """Arrival number of the first row of each run, for count windows."""

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def numpy(self, name: str) -> Array:
        """A fixed-width column in run order."""
        return self._arrange(to_numpy(self.batch.column(name)))

    def arrow(self, name: str) -> pa.Array:
        """A column in run order."""
        column = self.batch.column(name)
        return column if self.index is None else take(column, self.index)

    def take(self, name: str, positions: Ints) -> pa.Array:
        """The values of a column at these positions of the run order."""
        return take(self.batch.column(name), self.rows(positions))

    def rows(self, positions: Ints) -> Ints:
        """The rows of the batch at these positions of the run order."""
        return positions if self.index is None else self.index[positions]

    @cached_property
    def tie(self) -> Ints:
        """What decides which row is later: the arrival number or native time, in run order."""
        if self.arrival is not None:
            lengths = np.diff(self.offsets)
            within = np.arange(len(self), dtype=np.int64) - np.repeat(self.offsets[:-1], lengths)
            return np.asarray(np.repeat(self.arrival, lengths) + within)
        assert self.times is not None
        return self._arrange(self.times)

    def ties(self, positions: Ints, offsets: Ints, runs: Any = slice(None)) -> Ints:
        """``tie`` at some positions only: ``offsets`` cuts them into those of each of ``runs``."""
        if self.arrival is None:
            return self.tie[positions]
        starts = self.arrival[runs] - self.offsets[:-1][runs]
        return np.asarray(np.repeat(starts, np.diff(offsets)) + positions)

    @property
    def lengths(self) -> Ints:
        return self.offsets[1:] - self.offsets[:-1]  # faster than np.diff

    def runs(self, parts: Mapping[str, Part], total: Array | None = None) -> Runs:
        """Summaries of these runs; ``total`` is their weight if it is not the number of rows."""
        scalars = {"rows": self.lengths}
        if total is not None:
            scalars["total"] = total
        return Runs(self.pane, self.group, parts, scalars)

    def best(self, score: Array, runs: Ints, look: int, largest: bool) -> tuple[Ints, Ints]:
        """Positions of the best ``look`` rows of some runs, with what ties with the last; offsets.

        ``score`` is in run order.
        """
        lengths = self.lengths[runs]
        longest = lengths.max(initial=0)
        if longest > look and len(runs) == len(self.pane):
            tie = _NONE if self.arrival is not None else self.tie
            return select_runs(score, tie, self.offsets, look, largest)
        some, offsets = expand(self.offsets[:-1][runs], lengths), offsets_of(lengths)
        if longest <= look:
            return some, offsets
        tie = _NONE if self.arrival is not None else self.tie[some]
        positions, offsets = select_runs(score[some], tie, offsets, look, largest)
        return some[positions], offsets

    def widened(self, look: int, search: Callable[[Ints, int], tuple[Part, Mask]]) -> Runs:
        """Summaries of these runs that mostly follow from their best few rows.

        ``search(runs, look)`` summarises some runs from the best ``look`` rows of each, and says
        for which of them that was enough; the others are searched with four times as many.
        """
        runs = np.arange(len(self.pane))
        part, done = search(runs, look)
        if done.all():
            return self.runs({"rows": part})
        pieces = []
        while len(runs):
            mine = runs[done]
            pieces.append(Runs(mine, self.group[mine], {"rows": part.take(np.flatnonzero(done))}))
            runs, look = runs[~done], 4 * look
            part, done = search(runs, look)
        return self.runs({"rows": Runs.concat(pieces).ordered().parts["rows"]})

    def _arrange(self, values: Array) -> Array:
        return values if self.index is None else values[self.index]


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows to read, in order: the panes ``[first, end)`` of each.

    ``group`` is None for time windows, which cover every group; a count window belongs to one
    group. ``ranks[group]`` is the position of a group when all groups are sorted by key.
    """

    number: Ints
    first: Ints
    end: Ints
    ranks: Ints
    group: Codes | None = None

    def __len__(self) -> int:
        return len(self.number)

    def slice(self, start: int, stop: int) -> Windows:
        """The windows from ``start`` to ``stop``."""
        group = None if self.group is None else self.group[start:stop]
        cut = (self.number[start:stop], self.first[start:stop], self.end[start:stop])
        return Windows(*cut, self.ranks, group)

    def needed_from(self, groups: Codes) -> Any:
        """The first pane that a window after these may read, for each of these groups."""
        if self.group is None:
            return self.first[-1]
        most = int(max(groups.max(initial=0), self.group.max()))
        first = np.full(most + 1, np.iinfo(np.int64).min)
        np.maximum.at(first, self.group, self.first)
        return first[groups]

    @staticmethod
    def merged(many: Sequence[Windows]) -> tuple[Windows, Codes]:
        """All these windows in order of their ends, and which of the many each belongs to.

        If each group has its own windows, they come group by group.
        """
        if len(many) == 1 and many[0].group is None:
            return many[0], np.zeros(len(many[0]), np.int32)
        of = np.repeat(np.arange(len(many), dtype=np.int32), [len(own) for own in many])
        number, first, end = (
            np.concatenate([getattr(own, name) for own in many])
            for name in ("number", "first", "end")
        )
        group, ranks = None, many[0].ranks
        if any(own.group is not None for own in many):
            group = np.concatenate([own.group for own in many if own.group is not None])
        order = np.lexsort((of, end) if group is None else (of, end, group))
        group = None if group is None else group[order]
        return Windows(number[order], first[order], end[order], ranks, group), of[order]


NO_WINDOWS = Windows(_NONE, _NONE, _NONE, _NONE)


@dataclass
class RefusedRows:
    """What is still known of rows that were refused after they had been summarised."""

    rows: pa.Table
    """The query's columns, except the ``by`` columns."""
    reasons: list[str]
    """One per row."""
    group: Codes
    """The code of each row's group."""

    def of_group(self, group: int) -> RefusedRows:
        """The same rows, all assigned to one group."""
        return RefusedRows(self.rows, self.reasons, np.full(len(self.reasons), group, np.int32))

    @staticmethod
    def concat(many: Sequence[RefusedRows]) -> RefusedRows:
        """Concatenate, in this order."""
        return RefusedRows(
            pa.concat_tables([each.rows for each in many]),
            [reason for each in many for reason in each.reasons],
            np.concatenate([each.group for each in many]),
        )


@dataclass
class Faults:
    """The bad rows of a batch, and why they are bad."""

    mask: Mask
    reasons: list[str] = field(default_factory=list)
    tests: list[tuple[str, str, Mask]] = field(default_factory=list)
    """The column, the problem, and the rows for which this is the first problem found."""
    refused: Callable[[], RefusedRows] | None = None
    """Returns the rows themselves, if they were refused after they had been summarised."""

    @property
    def count(self) -> int:
        return int(self.mask.sum())

    def joined(self, more: Faults) -> Faults:
        """These faults, plus those of ``more`` for rows that had none."""
        fresh = [(name, reason, mask & ~self.mask) for name, reason, mask in more.tests]
        tests = [*self.tests, *(test for test in fresh if test[2].any())]
        return Faults(self.mask | more.mask, [*self.reasons, *more.reasons], tests)

    def each(self, batch: pa.RecordBatch | pa.Table) -> list[str]:
        """The reason for each bad row, in row order; ``batch`` is the batch that was checked."""
        found: dict[int, str] = {}
        for name, problem, mask in self.tests:
            column = batch.column(name)
            for row in np.flatnonzero(mask).tolist():
                found[row] = f"column {name!r}: {problem} ({shown(column, row)})"
        every = "; ".join(self.reasons)
        return [found.get(row, every) for row in np.flatnonzero(self.mask).tolist()]


def shown(column: Any, row: int) -> str:
    """One value as text for a message; times outside Python's range are shown as integers."""
    try:
        value = column[row].as_py()
        return str(value) if isinstance(value, date) else repr(value)
    except (ValueError, OverflowError):
        days = pa.types.is_date32(column.type)
        return str(column.cast(pa.int32() if days else pa.int64())[row])
