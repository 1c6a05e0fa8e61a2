"""Runs: flat columns cut into one stretch per (pane, group) or (window, group).

All summaries of panes and all partial answers of windows have this form. A run has a stamp (its
pane or window number), a group code, a few scalars, and a stretch of each part's columns.

    stamp    7        7     8             parts["rows"]
    group    0        2     0             offsets  0     3  4     6
             ├ 3 rows ┼ 1 ──┼ 2 rows ┤    key      9 8 2 |5 |7 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Codes, Ints, Mask, Saved, State
from skyband.data.columns import output_type, plain, take
from skyband.data.flat_state import Form, admitted, require
from skyband.data.ipc import columns_from, columns_to_array
from skyband.data.packing import pack, unpack

_OFFSETS = np.zeros(0, np.int64)

MORE = "more"
"""A column of rows to which ``with_ties`` applies: how many rows that tie with a row were left out.

It is 0 except for the last row of a run, so that it stays right when runs are joined and cut again.
"""
Types = Mapping[str, Mapping[str, Any]]
"""The type of each column of each part."""
Column = Any
"""A numpy array or an Arrow array; ``Any`` because pyarrow has no type hints."""


def offsets_of(lengths: Array) -> Ints:
    """The offsets of consecutive stretches of these lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def expand(starts: Array, lengths: Array) -> Ints:
    """All positions in the stretches ``[start, start + length)``, concatenated."""
    total = int(lengths.sum())
    ends = np.cumsum(lengths)
    shift: Ints = np.repeat(starts - (ends - lengths), lengths)
    return np.arange(total, dtype=np.int64) + shift


def run_starts(ranked: Array) -> Ints:
    """The position at which each distinct value of a sorted array first occurs."""
    if len(ranked) < 2:
        return np.arange(len(ranked))
    fresh = np.ones(len(ranked), np.bool_)
    np.not_equal(ranked[1:], ranked[:-1], out=fresh[1:])
    return np.flatnonzero(fresh)


def places(offsets: Ints) -> Codes:
    """1, 2, 3, ... within each stretch."""
    found = np.arange(1, int(offsets[-1]) + 1, dtype=np.int32)
    found -= np.repeat(offsets[:-1].astype(np.int32), np.diff(offsets))
    return found


def with_ties(part: Part, by: str, k: int, most: int) -> Part:
    """The best k rows of each run with what ties with the k-th, which ``MORE`` counts if it is cut.

    At most ``most`` rows stay. Runs are sorted, and ``by`` is the column that ranks their rows.
    """
    if not len(part):
        return part
    value, lengths, some = part[by], part.lengths, np.flatnonzero(part.lengths)
    first, own = part.offsets[some], np.repeat(np.arange(len(some)), lengths[some])
    kth = value[first + np.minimum(lengths[some], k) - 1]
    tied = value == kth[own]
    shown = tied | (np.arange(len(part)) < (first + k)[own])
    reached = np.add.reduceat(shown, first, dtype=np.int64)
    kept = lengths.copy()
    kept[some] = np.minimum(reached, most)
    cut = np.zeros(len(lengths), np.int64)
    cut[some] = reached - kept[some] + np.add.reduceat(np.where(tied, part[MORE], 0), first)
    rows = part.rows(expand(part.offsets[:-1], kept), offsets_of(kept))
    more = np.zeros(len(rows), np.int64)
    more[rows.offsets[1:][some] - 1] = cut[some]
    return Part(rows.offsets, {**rows.columns, MORE: more})


def pick(column: Column, positions: Array) -> Column:
    """The values of a numpy or Arrow column at these positions."""
    return column[positions] if isinstance(column, np.ndarray) else take(column, positions)


def type_of(column: Column) -> Any:
    """The dtype and width of a numpy column; the type of an Arrow column's values."""
    if isinstance(column, np.ndarray):
        return column.dtype, column.shape[1:]
    return output_type(column.type)


def _concat(columns: Sequence[Column]) -> Column:
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)
    if any(column.type != columns[0].type for column in columns):
        columns = [plain(column) for column in columns]  # some were decoded when they were picked
    return pa.concat_arrays(columns)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Columns of one kind of data, with one stretch per run."""

    offsets: Ints
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    @property
    def lengths(self) -> Ints:
        return self.offsets[1:] - self.offsets[:-1]  # faster than np.diff

    def map(self, change: Callable[[Column], Column], offsets: Ints) -> Part:
        return Part(offsets, {name: change(column) for name, column in self.columns.items()})

    def take(self, runs: Ints) -> Part:
        lengths = self.lengths[runs]
        return self.rows(expand(self.offsets[runs], lengths), offsets_of(lengths))

    def first_rows(self, most: int | Ints) -> Part:
        """The first rows of each run: at most this many, or as many as its entry says."""
        kept = np.minimum(self.lengths, most)
        if kept.sum() == len(self):
            return self
        return self.rows(expand(self.offsets[:-1], kept), offsets_of(kept))

    def resorted(self, runs: Ints, order: Callable[[Part, Ints], Array]) -> Part:
        """Only the rows of these runs are sorted: ``order`` gets them, and the run of each row."""
        if not len(runs):
            return self
        rows = expand(self.offsets[runs], self.lengths[runs])
        some = self.rows(rows, offsets_of(self.lengths[runs]))
        places = np.arange(len(self))
        places[rows] = rows[order(some, np.repeat(runs, some.lengths))]
        return self.rows(places, self.offsets)

    def rows(self, positions: Array, offsets: Ints) -> Part:
        """The rows at these positions, cut into runs by ``offsets``."""
        return self.map(lambda column: pick(column, positions), offsets)

    def sums(self, name: str) -> Ints:
        """The sum of a column of integers over each run."""
        added = np.append(0, np.cumsum(self[name])) if len(self) else self.offsets
        return np.asarray(np.diff(added[self.offsets]))

    def joined(self, fresh: Array) -> Part:
        """Merge each run in ``fresh`` with the runs that follow it, up to the next in ``fresh``."""
        return Part(np.append(self.offsets[fresh], len(self)), self.columns)

    def slice(self, start: int, stop: int) -> Part:
        low, high = int(self.offsets[start]), int(self.offsets[stop])
        return self.map(lambda column: column[low:high], self.offsets[start : stop + 1] - low)

    @staticmethod
    def concat(pieces: Sequence[Part]) -> Part:
        """All runs, in this order; a part without rows may lack columns."""
        offsets = offsets_of(np.concatenate([piece.lengths for piece in pieces]))
        known = [piece for piece in pieces if len(piece)] or [p for p in pieces if p.columns][:1]
        if not known:
            return Part(offsets, {})
        return Part(offsets, {c: _concat([piece[c] for piece in known]) for c in known[0].columns})


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Columns cut into runs, one per (stamp, group); see the drawing at the top of this module."""

    stamp: Ints
    group: Codes
    parts: Mapping[str, Part]
    scalars: Saved = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.stamp)

    def take(self, runs: Array) -> Runs:
        """Only these runs, in this order (a mask or positions)."""
        if runs.dtype == np.bool_:
            runs = np.flatnonzero(runs)
        return Runs(
            self.stamp[runs],
            self.group[runs],
            {name: part.take(runs) for name, part in self.parts.items()},
            {name: values[runs] for name, values in self.scalars.items()},
        )

    def slice(self, start: int, stop: int) -> Runs:
        """The runs from ``start`` to ``stop``, without copying."""
        if start == 0 and stop == len(self):
            return self
        return Runs(
            self.stamp[start:stop],
            self.group[start:stop],
            {name: part.slice(start, stop) for name, part in self.parts.items()},
            {name: values[start:stop] for name, values in self.scalars.items()},
        )

    def stamped(self, stamp: Ints) -> Runs:
        """The same runs with other stamps."""
        return Runs(stamp, self.group, self.parts, self.scalars)

    def with_scalars(self, **scalars: Array) -> Runs:
        return Runs(self.stamp, self.group, self.parts, {**self.scalars, **scalars})

    def with_parts(self, **parts: Part) -> Runs:
        return Runs(self.stamp, self.group, {**self.parts, **parts}, self.scalars)

    def ordered(self, ranks: Array | None = None) -> Runs:
        """Sorted by (stamp, group), or by (stamp, ``ranks[group]``) if ranks are given; stable."""
        if len(self) < 2:
            return self
        group = self.group if ranks is None else ranks[self.group]
        later = (self.stamp[1:] > self.stamp[:-1]) | (
            (self.stamp[1:] == self.stamp[:-1]) & (group[1:] >= group[:-1])
        )
        return self if later.all() else self.take(np.lexsort((group, self.stamp)))

    @property
    def repeats(self) -> Mask:
        """For ordered runs: whether a run has the same stamp and group as the run before it."""
        same = np.zeros(len(self), np.bool_)
        same[1:] = (self.stamp[1:] == self.stamp[:-1]) & (self.group[1:] == self.group[:-1])
        return same

    def united(self, merge: Callable[[Array, Ints], Array] = np.add.reduceat) -> Runs:
        """One run for each (stamp, group) of ordered runs: repeats are joined, scalars merged."""
        fresh = np.flatnonzero(~self.repeats)
        return Runs(
            self.stamp[fresh],
            self.group[fresh],
            {name: part.joined(fresh) for name, part in self.parts.items()},
            {name: merge(values, fresh) for name, values in self.scalars.items()},
        )

    @staticmethod
    def concat(many: Sequence[Runs]) -> Runs:
        """Concatenate, in this order."""
        if len(many) == 1:
            return many[0]
        names = dict.fromkeys(name for runs in many for name in runs.parts)
        parts = {name: Part.concat([runs.part(name) for runs in many]) for name in names}
        return Runs(
            np.concatenate([runs.stamp for runs in many]),
            np.concatenate([runs.group for runs in many]),
            parts,
            {n: np.concatenate([runs.scalars[n] for runs in many]) for n in many[0].scalars},
        )

    def part(self, name: str) -> Part:
        """A part by name; empty if these runs do not have it."""
        part = self.parts.get(name)
        return Part(np.zeros(len(self) + 1, np.int64), {}) if part is None else part

    @property
    def nbytes(self) -> int:
        columns = [column for part in self.parts.values() for column in part.columns.values()]
        return sum(int(column.nbytes) for column in columns) + 24 * len(self)

    # Serialising ------------------------------------------------------------------------------

    def flat(self) -> tuple[dict[str, Any], State]:
        """A JSON header and flat arrays, for packing."""
        arrays: State = {"stamp": self.stamp, "group": self.group}
        header: dict[str, Any] = {"scalars": list(self.scalars), "parts": {}}
        for name, values in self.scalars.items():
            arrays[f"scalar/{name}"] = values
        for name, part in self.parts.items():
            arrays[f"offsets/{name}"] = part.offsets
            numbers = {c: v for c, v in part.columns.items() if isinstance(v, np.ndarray)}
            arrays |= {f"part/{name}/{column}": values for column, values in numbers.items()}
            others = {c: v for c, v in part.columns.items() if c not in numbers}
            if others:  # in one Arrow stream, as each has a frame
                arrays[f"arrow/{name}"] = columns_to_array(others)
            header["parts"][name] = {column: column in numbers for column in part.columns}
        return header, arrays

    @staticmethod
    def from_flat(header: Mapping[str, Any], arrays: Saved) -> Runs:
        """The inverse of ``flat``."""
        parts = {}
        for name, kinds in header["parts"].items():
            arrow = {} if all(kinds.values()) else columns_from(arrays[f"arrow/{name}"])
            columns: dict[str, Column] = {
                column: arrays[f"part/{name}/{column}"] if is_numpy else arrow[column]
                for column, is_numpy in kinds.items()
            }
            parts[name] = Part(arrays[f"offsets/{name}"], columns)
        scalars = {name: arrays[f"scalar/{name}"] for name in header["scalars"]}
        found = Runs(arrays["stamp"], arrays["group"], parts, scalars)
        found._admit()
        return found

    def _admit(self) -> None:
        """Refuse runs whose lengths and offsets do not fit together, as kernels rely on them."""
        runs: State = {"stamp": self.stamp, "group": self.group, **self.scalars}
        one = Form("runs")
        like = {name: values[:0].reshape(0) for name, values in self.scalars.items()}
        like |= {"stamp": np.zeros(0, np.int64), "group": np.zeros(0, np.int32)}
        admitted(runs, like, dict.fromkeys(runs, one) | {"group": Form("runs", low=0)})
        for part in self.parts.values():
            rows = {len(column) for column in part.columns.values()} or {0}
            offsets = Form(len(self) + 1, 0, ascends=True)
            admitted({"offsets": part.offsets}, {"offsets": _OFFSETS}, {"offsets": offsets})
            require(part.offsets[0] == 0 and rows == {len(part)}, "offsets that do not fit")

    def typed(self, types: Types, whole: bool = False) -> Runs:
        """These runs, if all their columns are among these and have these types.

        If they are ``whole``, a part with rows has all columns.
        """
        for name, columns in self.types.items():
            wanted = types.get(name, {})
            for column, kind in columns.items():
                known = wanted.get(column)
                require(kind == known, f"column {name}/{column} has type {kind}, not {known}")
            complete = not whole or not len(self.part(name)) or columns.keys() == wanted.keys()
            require(complete, f"columns of {name} are missing")
        return self

    @property
    def types(self) -> dict[str, dict[str, Any]]:
        """The type of each column of each part, and of the scalars as those of part ''."""
        columns = {name: part.columns for name, part in self.parts.items()} | {"": self.scalars}
        return {
            part: {name: type_of(values) for name, values in each.items()}
            for part, each in columns.items()
        }

    def pack(self, **extra: Array) -> bytes:
        """These runs as bytes for another process, together with the ``extra`` arrays."""
        header, arrays = self.flat()
        header["extra"] = list(extra)
        return pack(header, arrays | {f"extra/{name}": value for name, value in extra.items()})

    @staticmethod
    def unpack(blob: bytes | bytearray) -> tuple[Runs, State]:
        """The inverse of ``pack``: the runs and the extra arrays."""
        header, arrays = unpack(blob)
        names: Any = header["extra"]
        return Runs.from_flat(header, arrays), {n: arrays[f"extra/{n}"] for n in names}
