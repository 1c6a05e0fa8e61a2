"""The log of reports: object, stream, value, pane, and the object's next report."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.arrays import Codes, Floats, Ints

__all__ = ["Log", "empty_log", "grown", "move_log", "values_within"]

Log = tuple[Codes, Codes, Floats, Ints, Codes]
"""Code of the object, stream, value, pane, position of the object's next report (-1: none)."""


def empty_log(room: int) -> Log:
    """A log with room for ``room`` reports."""
    return (
        np.zeros(room, np.int32),
        np.zeros(room, np.int32),
        np.zeros(room),
        np.zeros(room, np.int64),
        np.zeros(room, np.int32),
    )


def grown(array: npt.NDArray[Any], length: int, fill: float) -> npt.NDArray[Any]:
    """A copy of the array, extended to ``length`` entries with ``fill``."""
    found = np.full((length, *array.shape[1:]), fill, array.dtype)
    found[: len(array)] = array
    return found


def move_log(log: Log, head: int, size: int, target: Log) -> None:
    """Move the reports ``[head, size)`` to the start of ``target``, which may be the log itself."""
    live = size - head
    columns: list[tuple[Any, Any]] = list(zip(log, target, strict=True))
    for old, new in columns:
        new[:live] = old[head:size].copy()
    chain = target[4][:live]
    chain[chain >= 0] -= head


def values_within(
    log: Log, head: int, size: int, first: int, end: int, low: Floats
) -> tuple[Codes, Floats]:
    """Objects that report in the panes ``[first, end)``, and their values in all streams."""
    columns: tuple[Any, ...] = log
    code, stream, value, pane, _ = (column[head:size] for column in columns)
    inside = (pane >= first) & (pane < end)
    codes, place = np.unique(code[inside], return_inverse=True)
    values = np.zeros((len(codes), len(low)))
    seen = np.zeros((len(codes), len(low)), np.int64)
    np.add.at(values, (place, stream[inside]), value[inside])
    np.add.at(seen, (place, stream[inside]), 1)
    return codes, np.where(seen > 0, values, low)
