"""The window's own compact set, and the walk over panes and windows that reads it.

Most panes do not touch the window's compact set, and most windows answer what the one before them
did. The walk skips those at full speed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Floats, Ints
from skyband.kernels.arrange import with_room
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.uncertain.kernels.compact import answer, set_end
from skyband.uncertain.kernels.queue import updated
from skyband.uncertain.kernels.types import UncertainRowsState, better, merged, oldest_pane, without


class Head(NamedTuple):
    """The compact set of the window."""

    slots: Ints  # best first
    is_open: bool  # whether it is all rows of the window, because they admit no compact set
    oldest: int  # the oldest pane in it


class Cursor(NamedTuple):
    """How far the walk has come."""

    window: int  # the next window to read
    pane: int  # the next pane to take
    written: int  # slots written for windows so far


class WindowAnswers(NamedTuple):
    """What windows get; the first two have room for more."""

    slots: Ints
    chances: Floats
    ends: Ints  # where each window's slots end, one place ahead


@jit
def head_of(rows: UncertainRowsState, slots: Ints, is_open: bool) -> Head:
    """A head of these rows."""
    return Head(slots, is_open, oldest_pane(rows, slots, len(slots)))


@jit
def _entered(rows: UncertainRowsState, head: Head, low: int, high: int) -> Head:
    """The head with the rows of a pane, which are the slots [low, high)."""
    old, fresh = head.slots, np.arange(low, high)
    both = np.empty(len(old) + len(fresh), np.int64)
    if not head.is_open:
        size = updated(rows, old, fresh, both)
        return head_of(rows, both[:size], False)
    merged(rows, old, len(old), fresh, len(fresh), both)
    size = set_end(rows, both, len(both))
    return head_of(rows, both if size < 0 else both[:size], size < 0)


@kernel
def walk(
    rows: UncertainRowsState, head: Head, cursor: Cursor, stamp: Ints,
    offsets: Ints, first: Ints, end: Ints, out: WindowAnswers, final: bool,
) -> tuple[Head, Cursor, WindowAnswers]:  # fmt: skip
    """Take panes and read windows, until the next window starts after the head's oldest pane.

    Pane i holds the slots [offsets[i], offsets[i + 1]), best first. Windows get answers if
    ``final``, else heads, to merge with those of other shards.
    """
    window, pane, written = cursor
    slots, chances, ends = out
    shown, chance, count = head.slots, np.empty(0), -1  # the last answer; none if the count is -1
    while True:
        if pane < len(stamp) and (window == len(first) or stamp[pane] < end[window]):
            if head.is_open or better(rows, offsets[pane], head.slots[-1]):
                head, count = _entered(rows, head, offsets[pane], offsets[pane + 1]), -1
            pane += 1
            continue
        if window == len(first):
            break
        if len(head.slots) > 0 and head.oldest < first[window]:
            if not head.is_open:
                break
            live = np.empty(len(head.slots), np.int64)
            n = without(rows, head.slots, len(live), first[window], live)
            head, count = head_of(rows, live[:n], True), -1
        if count < 0 and final:
            room = max(len(head.slots), rows.rule.k)
            shown, chance = np.empty(room, np.int64), np.empty(room)
            count = answer(rows.rule, rows.prob, head.slots, len(head.slots), shown, chance)
        elif count < 0:
            shown, count = head.slots, len(head.slots)
        slots = with_room(slots, written, written + count)
        chances = with_room(chances, written, written + count)
        for j in range(count):
            slots[written + j] = shown[j]
        if final:
            for j in range(count):
                chances[written + j] = chance[j]
        written += count
        ends[window + 1] = written
        window += 1
    return head, Cursor(window, pane, written), WindowAnswers(slots, chances, ends)
