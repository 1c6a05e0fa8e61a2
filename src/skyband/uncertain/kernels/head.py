"""The window's own compact set, and the walk over panes and windows that reads it.

Most panes do not touch the window's compact set, and most windows answer what the one before them
did. The walk skips those at full speed and stops when there is something to compute.
"""

from __future__ import annotations

from typing import NamedTuple

from skyband.arrays import Floats, Ints
from skyband.kernels.patient import kernel
from skyband.uncertain.kernels.types import UncertainRowsState, better

# Why the walk stopped.
DONE = 0
ENTERED = 1  # the next pane has rows that enter the head
EXPIRED = 2  # the next window starts after the head's oldest pane
UNREAD = 3  # the next window needs an answer
FULL = 4  # there is no room to write it


class Head(NamedTuple):
    """The compact set of the window."""

    slots: Ints  # best first
    is_open: bool  # whether it is all rows of the window, because they admit no compact set
    oldest: int  # the oldest pane in it


class HeadAnswer(NamedTuple):
    """The answer that was last read from the head."""

    slots: Ints
    chances: Floats  # empty if they are not needed
    is_stale: bool  # whether the head has changed since


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


@kernel
def walk(
    rows: UncertainRowsState, head: Head, answer: HeadAnswer, cursor: Cursor, stamp: Ints,
    offsets: Ints, first: Ints, end: Ints, out: WindowAnswers,
) -> tuple[int, Cursor]:  # fmt: skip
    """Skip panes and write answers until something has to be computed; returns what, and where.

    Pane i holds the slots [offsets[i], offsets[i + 1]), best first.
    """
    window, pane, written = cursor
    size, count = len(head.slots), len(answer.slots)
    lowest = head.slots[size - 1] if size > 0 else 0
    with_chances = len(out.chances) > 0
    stop = DONE
    while True:
        if pane < len(stamp) and (window == len(first) or stamp[pane] < end[window]):
            if head.is_open or better(rows, offsets[pane], lowest):
                stop = ENTERED
                break
            pane += 1
        elif window == len(first):
            break
        elif size > 0 and head.oldest < first[window]:
            stop = EXPIRED
            break
        elif answer.is_stale:
            stop = UNREAD
            break
        elif written + count > len(out.slots):
            stop = FULL
            break
        else:
            for j in range(count):
                out.slots[written + j] = answer.slots[j]
            if with_chances:
                for j in range(count):
                    out.chances[written + j] = answer.chances[j]
            written += count
            out.ends[window + 1] = written
            window += 1
    return stop, Cursor(window, pane, written)
