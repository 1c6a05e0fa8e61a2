"""Windows of several queries, read from one tape of (code, value) entries in the order of panes.

A window is a stretch of the tape, given by the numbers of its entries. Numbers count from the first
entry ever taken; the tape begins at number ``base``. Each entry knows the one before it of the same
code (``prev``), so the sum of one code takes one step per pane. There are three ways to read a
window, and each time the cheapest is taken:

    prune    The sums of the codes that won last time bound the k-th best sum from below. Only a
             code whose sum over the whole tape reaches that bound can win; those are added up.
             The codes with the greatest sums over the tape (``heavy``) are found once for all
             windows and queries, so no other is looked at unless the bound is below them.
    count    The window has few entries beside the codes of the tape, or the last one had fewer than
             k codes: add up its entries.
    move     Keep the sums of all codes; add the entries that came and subtract those that left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Array, Codes, Ints
from skyband.kernels.core.best import best_of
from skyband.kernels.core.jit import piece
from skyband.kernels.core.patient import kernel
from skyband.kernels.core.room import with_room

# Places in ``place``.
LOW, HIGH = 0, 1  # the entries that the moving sums cover
REST = 2  # windows to read before pruning is tried again
PAUSE = 3  # how long the next rest will be
KNOWN = 4  # how many winners of the last window are known
PRUNED = 5  # windows that were read by pruning
WINDOW = 6  # the next window to read
PLACES = 7
FIRST_PAUSE = 8
_LONGEST_PAUSE = 1024


class Entries(NamedTuple):
    """The tape."""

    code: Codes
    value: Array
    prev: Ints
    base: int


class Known(NamedTuple):
    """What is known of each code: its newest entry, how many it has, their sum, its order key."""

    last: Ints
    refs: Codes
    total: Array
    order_key: Ints


class Heavy(NamedTuple):
    """Codes by their sums over the tape, greatest first.

    The sums are at most ``total``, and those of all other codes at most ``floor``.
    """

    codes: Ints
    total: Array
    floor: int


class Asked(NamedTuple):
    """Windows, from their first entry to the end of their last, and how many codes to return.

    If order keys do not decide, codes that tie with the last one follow it.
    """

    low: Ints
    high: Ints
    k: int
    decided: bool


class Reader(NamedTuple):
    """What is kept for one query: counters, the last winners, the moving sums."""

    place: Ints
    winners: Ints
    sums: Array
    there: Codes


class Room(NamedTuple):
    """Arrays to work in; ``seen`` is all zero."""

    found: Array
    seen: Codes
    members: Ints
    heap: Ints


@kernel
def link(
    code: Codes, value: Array, prev: Ints, start: int, base: int, last: Ints, refs: Codes,
    total: Array,
) -> None:  # fmt: skip
    """Take the entries from place ``start`` of the tape on."""
    for i in range(start, len(code)):
        c = code[i]
        prev[i] = last[c] if refs[c] else -1
        last[c] = base + i
        refs[c] += 1
        total[c] += value[i, 0]


@kernel
def unlink(code: Codes, value: Array, stop: int, refs: Codes, total: Array) -> Codes:
    """Drop the entries before place ``stop``; returns the codes without entries."""
    dead = np.empty(stop, np.int32)
    n = 0
    for i in range(stop):
        c = code[i]
        refs[c] -= 1
        total[c] -= value[i, 0]
        if refs[c] == 0:
            dead[n] = c
            n += 1
    return dead[:n].copy()


@piece
def _walk(c: int, tape: Entries, last: Ints, low: int, high: int, found: Array) -> tuple[int, bool]:
    """Add up a code over the entries from low to high; the steps taken, and whether it has any."""
    value, prev, base = tape.value, tape.prev, tape.base
    at, steps, there = last[c], 0, False
    found[c, 0] = 0
    while at >= high:
        at = prev[at - base]
        steps += 1
    while at >= low:
        found[c, 0] += value[at - base, 0]
        there = True
        at = prev[at - base]
        steps += 1
    return steps, there


@piece
def _prune(
    tape: Entries, known: Known, heavy: Heavy, low: int, high: int, reader: Reader, room: Room
) -> int:
    """Add up the codes that can win; returns how many, or -1 if they are too many."""
    last, refs, total = known.last, known.refs, known.total
    found, members = room.found, room.members
    most = len(total) // 4 + 8192
    bound = total[0] * 0
    for j in range(reader.place[KNOWN]):
        c = reader.winners[j]
        if c >= len(refs) or refs[c] == 0:
            return -1
        _, there = _walk(c, tape, last, low, high, found)
        if not there:
            return -1
        if j == 0 or found[c, 0] < bound:
            bound = found[c, 0]
    n = steps = 0
    every = len(heavy.codes) == 0 or bound <= heavy.floor
    for i in range(len(total) if every else len(heavy.codes)):
        c = i if every else heavy.codes[i]
        if not every and heavy.total[i] < bound:
            break
        if total[c] >= bound and refs[c] > 0:
            taken, there = _walk(c, tape, last, low, high, found)
            steps += taken
            if steps > most:
                return -1
            if there:
                members[n] = c
                n += 1
    return n


@piece
def _count(tape: Entries, low: int, high: int, room: Room) -> int:
    """Add up the entries from low to high; returns how many codes they have."""
    code, value, base = tape.code, tape.value, tape.base
    found, seen, members = room.found, room.seen, room.members
    n = 0
    for i in range(low - base, high - base):
        c = code[i]
        if seen[c] == 0:
            seen[c] = 1
            found[c, 0] = 0
            members[n] = c
            n += 1
        found[c, 0] += value[i, 0]
    for j in range(n):
        seen[members[j]] = 0
    return n


@piece
def _move(tape: Entries, low: int, high: int, reader: Reader) -> None:
    """Make the moving sums cover the entries from low to high."""
    code, value, base = tape.code, tape.value, tape.base
    place, sums, there = reader.place, reader.sums, reader.there
    moved = low - place[LOW] + high - place[HIGH]
    if place[LOW] < base or place[HIGH] <= low or moved > high - low:
        sums[:] = 0
        there[:] = 0
        place[LOW] = place[HIGH] = low
    for i in range(place[HIGH] - base, high - base):
        sums[code[i], 0] += value[i, 0]
        there[code[i]] += 1
    for i in range(place[LOW] - base, low - base):
        sums[code[i], 0] -= value[i, 0]
        there[code[i]] -= 1
    place[LOW], place[HIGH] = low, high


@kernel
def read_windows(
    tape: Entries, known: Known, heavy: Heavy, asked: Asked, reader: Reader, room: Room
) -> tuple[Codes, Array, Ints]:
    """The best k codes of each window and their sums; and where each window's answer ends.

    Stops where moving sums are needed but have no room yet.
    """
    low, high, k, decided = asked
    place, winners, sums, there = reader
    found, members, heap = room.found, room.members, room.heap
    codes, keys = len(known.total), known.order_key
    everything, all_live = np.empty(0, np.int64), np.empty(0, np.int32)
    out_code, out_value = np.empty(1024, np.int32), np.empty((1024, 1), tape.value.dtype)
    ends = np.zeros(len(low), np.int64)
    n = 0
    while place[WINDOW] < len(low):
        window = place[WINDOW]
        entries = high[window] - low[window]
        few = 4 * entries < codes or place[KNOWN] < k
        count = -1
        if not few and place[REST] == 0:
            count = _prune(tape, known, heavy, low[window], high[window], reader, room)
            if count < 0:
                place[REST] = place[PAUSE]
                place[PAUSE] = min(2 * place[PAUSE], _LONGEST_PAUSE)
            else:
                place[PAUSE] = FIRST_PAUSE
                place[PRUNED] += 1
        elif place[REST] > 0:
            place[REST] -= 1
        if few:
            count = _count(tape, low[window], high[window], room)
        if count >= 0:
            size = best_of(members, 0, count, all_live, found, keys, k, decided, heap)
        elif len(there) < codes:
            break
        else:
            _move(tape, low[window], high[window], reader)
            size = best_of(everything, 0, codes, there, sums, keys, k, decided, heap)
        if n + size > len(out_code):
            out_code = with_room(out_code, n, n + size)
            out_value = with_room(out_value, n, n + size)
        for j in range(size):
            out_code[n] = heap[j]
            out_value[n, 0] = found[heap[j], 0] if count >= 0 else sums[heap[j], 0]
            n += 1
        ends[window] = n
        place[KNOWN] = min(size, k)
        for j in range(place[KNOWN]):
            winners[j] = heap[j]
        place[WINDOW] += 1
    return out_code[:n], out_value[:n], ends[: place[WINDOW]]
