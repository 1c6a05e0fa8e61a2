"""Reports: those that arrive, what they change, and the log of the live ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Codes, Floats, Hashes, Ints, Mask, Saved, State
from skyband.contract.runs import Part
from skyband.data.flat_state import Form, admitted
from skyband.fused.kernels.reports import relink

__all__ = ["ObjectChanges", "ReportLog", "ReportRows"]

Columns = tuple[Codes, Codes, Floats, Ints, Codes]
"""Code of the object, stream, value, pane, position of the object's next report (-1: none)."""
_SAVED = ("code", "stream", "value", "pane")


def _empty(room: int) -> Columns:
    code, stream, chain = (np.zeros(room, np.int32) for _ in range(3))
    return code, stream, np.zeros(room), np.zeros(room, np.int64), chain


class ReportRows(NamedTuple):
    """The reports of some panes, and the pane of each."""

    part: Part
    pane: Ints

    def some(self, row: int, upto: int) -> tuple[Hashes, Codes, Ints]:
        """Hashes, streams and panes of some rows."""
        rows = slice(row, upto)
        return self.part["hash"][rows], self.part["stream"][rows], self.pane[rows]


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

    def live(self) -> Columns:
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

    def values_within(self, first: int, end: int, low: Floats) -> tuple[Codes, Floats]:
        """Objects that report in the panes ``[first, end)``, and their values in all streams."""
        code, stream, value, pane, _ = self.live()
        inside = (pane >= first) & (pane < end)
        codes, place = np.unique(code[inside], return_inverse=True)
        values = np.zeros((len(codes), len(low)))
        seen = np.zeros((len(codes), len(low)), np.int64)
        np.add.at(values, (place, stream[inside]), value[inside])
        np.add.at(seen, (place, stream[inside]), 1)
        return codes, np.where(seen > 0, values, low)

    def state(self) -> State:
        """A copy of the live reports, as flat arrays."""
        live: tuple[Any, ...] = self.live()
        return {name: column.copy() for name, column in zip(_SAVED, live, strict=False)}

    def restore(self, arrays: Saved, links: Codes, streams: int) -> None:
        """Fill an empty log with what ``state`` returned, and link the reports of each object."""
        live = len(arrays["code"])
        forms = dict.fromkeys(_SAVED, Form(live)) | {
            "code": Form(live, 0, len(links)),
            "stream": Form(live, 0, streams),
            "pane": Form(live, ascends=True),
        }
        admitted(arrays, dict(zip(_SAVED, self.columns, strict=False)), forms)
        self.reserve(live, links)
        columns: tuple[Any, ...] = self.columns
        for column, name in zip(columns, _SAVED, strict=False):
            column[:live] = arrays[name]
        self.end = live
        relink(self.columns[0], 0, live, self.chain, links)
