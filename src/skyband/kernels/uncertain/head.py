"""The window's own compact set, and the walk over panes and windows that reads it.

Most panes do not touch the window's compact set, and most windows answer what the one before them
did. The walk passes over those at full speed and stops where there is something to compute.
"""

from __future__ import annotations

from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient
from skyband.kernels.uncertain.types import Floats, Ints, Rows, better

__all__ = ["walk"]

# Places in ``at``.
WINDOW = 0  # the next window to read
PANE = 1  # the next pane to take
WRITTEN = 2  # slots written for windows so far
SIZE = 3  # slots in the head
OPEN = 4  # whether the head is all rows of the window, because they admit no compact set
OLDEST = 5  # the oldest pane in the head
STALE = 6  # whether the head changed since it was read
SHOWN = 7  # slots in the answer that was read
PLACES = 8

# Why the walk stopped.
DONE = 0
ENTERED = 1  # the next pane has rows that enter the head
EXPIRED = 2  # the next window starts after the head's oldest pane
UNREAD = 3  # the next window needs an answer
FULL = 4  # there is no room to write it


@patient
@jit
def walk(
    rows: Rows,
    head: Ints,
    at: Ints,
    stamp: Ints,
    offsets: Ints,
    first: Ints,
    end: Ints,
    shown: Ints,
    chances: Floats,
    found: Ints,
    chance: Floats,
    ends: Ints,
) -> int:
    """Pass panes and write answers until something has to be computed; says what.

    Pane i holds the slots [offsets[i], offsets[i + 1]), best first. ``shown`` and ``chances`` are
    the answer as it was last read, ``found`` and ``chance`` what windows get, ``ends`` where each
    window's ends.
    """
    window, pane, written = at[WINDOW], at[PANE], at[WRITTEN]
    count = at[SHOWN]
    lowest = head[at[SIZE] - 1] if at[SIZE] > 0 else 0
    always = at[OPEN] == 1
    with_chances = len(chance) > 0
    stop = DONE
    while True:
        if pane < len(stamp) and (window == len(first) or stamp[pane] < end[window]):
            if always or better(rows, offsets[pane], lowest):
                stop = ENTERED
                break
            pane += 1
        elif window == len(first):
            break
        elif at[SIZE] > 0 and at[OLDEST] < first[window]:
            stop = EXPIRED
            break
        elif at[STALE] == 1:
            stop = UNREAD
            break
        elif written + count > len(found):
            stop = FULL
            break
        else:
            for j in range(count):
                found[written + j] = shown[j]
            if with_chances:
                for j in range(count):
                    chance[written + j] = chances[j]
            written += count
            ends[window + 1] = written
            window += 1
    at[WINDOW], at[PANE], at[WRITTEN] = window, pane, written
    return stop
