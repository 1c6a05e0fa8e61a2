"""Sums over a sliding window for very many groups: a small table per group, all in one arena.

A group's block has 2^b slots (code of an item, panes that have it, sum). A block of at
most ``_SMALL`` slots is a list; a larger one is a table that is probed slot by slot and at most
three quarters full. A group that outgrows its block gets another at the end of the arena. When the
arena is full, live blocks move to a new one in the order of the groups' codes. The runs of a pane
are in this order too, so almost all accesses walk through memory.

Sums are of integers: an expired pane is subtracted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.frequency.kernels.best_codes import (
    HALF,
    LANES,
    MOST_COMPARED,
    SHIFT,
    nth,
    ranked,
)
from skyband.kernels.arrange import with_room
from skyband.kernels.best import best_of
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel

# Places in ``place``.
HEAD = 0  # the first live pane
TAIL = 1  # the first pane that is not pushed yet
TOP = 2  # the first free slot of the arena
LIVE = 3  # entries in all blocks
PLACES = 4


class Entries(NamedTuple):
    """The live panes: pane t has the runs ``cuts[t]`` to ``cuts[t + 1]``, each of one group."""

    pane: Ints
    cuts: Ints
    owner: Codes  # the group of each run
    offsets: Ints  # where the entries of each run start
    code: Codes
    value: Ints


class Blocks(NamedTuple):
    """The groups' blocks: where each begins, its room and its entries; then the arena's slots."""

    begin: Ints
    rooms: Ints
    sizes: Ints
    codes: Codes
    refs: Codes  # panes that have the item; 0 for a free slot
    sums: Ints


class AnswerRoom(NamedTuple):
    """Arrays to read groups in: where each begins in the answer; then numbers for each item."""

    to: Ints
    values: Ints
    places: Ints
    order: Ints
    keys: Ints


_LEAST, _SMALL = 4, 32
_GOLDEN = np.uint32(0x9E3779B1)
_16 = np.uint32(16)


@jit
def _home(code: np.int32) -> Any:
    """Where the probing for a code starts, before it is reduced to the size of the block."""
    mixed = np.uint32(code) * _GOLDEN
    return np.int64(mixed ^ (mixed >> _16))


@jit
def _move(b: Blocks, group: int, room: int, at: int, to: Blocks) -> None:
    """Bring a group's block to ``at``, with this much room, in the same arena or another."""
    begin, rooms, _, codes, refs, sums = b
    to_codes, to_refs, to_sums = to.codes, to.refs, to.sums
    mask = room - 1
    for i in range(at, at + room):
        to_refs[i] = 0
    n = 0
    for i in range(begin[group], begin[group] + rooms[group]):
        if refs[i] > 0:
            j = _home(codes[i]) & mask
            if room <= _SMALL:
                j = n
                n += 1
            while to_refs[at + j] > 0:
                j = (j + 1) & mask
            to_codes[at + j], to_refs[at + j], to_sums[at + j] = codes[i], refs[i], sums[i]
    begin[group], rooms[group] = at, room


@jit
def _fits(entries: int, room: int) -> Any:
    """Whether so many entries fit a block of this many slots."""
    return entries <= room if room <= _SMALL else 4 * entries <= 3 * room


@jit
def _push_runs(run: int, stop: int, entries: Entries, b: Blocks, place: Ints) -> int:
    """Add runs of entries to their groups; returns the first for which the arena has no room."""
    owner, offsets, code, value = entries.owner, entries.offsets, entries.code, entries.value
    begin, rooms, sizes, codes, refs, sums = b
    for r in range(run, stop):
        group = owner[r]
        most = sizes[group] + offsets[r + 1] - offsets[r]
        if not _fits(most, rooms[group]):
            room = max(rooms[group], _LEAST)
            while not _fits(most, room):
                room *= 2
            if place[TOP] + room > len(codes):
                return r
            _move(b, group, room, place[TOP], b)
            place[TOP] += room
        base, mask = begin[group], rooms[group] - 1
        small = rooms[group] <= _SMALL
        for i in range(offsets[r], offsets[r + 1]):
            c = code[i]
            at = 0 if small else _home(c) & mask
            if small:
                while at < sizes[group] and codes[base + at] != c:
                    at += 1
            else:
                while refs[base + at] > 0 and codes[base + at] != c:
                    at = (at + 1) & mask
            if refs[base + at] == 0:  # the slot is not in use
                codes[base + at] = c
                sums[base + at] = 0
                sizes[group] += 1
                place[LIVE] += 1
            refs[base + at] += 1
            sums[base + at] += value[i]
    return stop


@jit
def _expire_runs(run: int, stop: int, entries: Entries, b: Blocks, place: Ints) -> None:
    """Take runs of entries out of their groups; items that no live pane has are removed."""
    owner, offsets, code, value = entries.owner, entries.offsets, entries.code, entries.value
    begin, rooms, sizes, codes, refs, sums = b
    for r in range(run, stop):
        group = owner[r]
        base, mask = begin[group], rooms[group] - 1
        small = rooms[group] <= _SMALL
        for i in range(offsets[r], offsets[r + 1]):
            c = code[i]
            hole = 0 if small else _home(c) & mask
            while codes[base + hole] != c or refs[base + hole] == 0:
                hole = (hole + 1) & mask
            sums[base + hole] -= value[i]
            refs[base + hole] -= 1
            if refs[base + hole] > 0:
                continue
            sizes[group] -= 1
            place[LIVE] -= 1
            if small:
                at = sizes[group]
                codes[base + hole], sums[base + hole] = codes[base + at], sums[base + at]
                refs[base + hole], refs[base + at] = refs[base + at], 0
                continue
            at = (hole + 1) & mask
            while refs[base + at] > 0:
                if (at - _home(codes[base + at])) & mask >= (at - hole) & mask:
                    codes[base + hole], sums[base + hole] = codes[base + at], sums[base + at]
                    refs[base + hole] = refs[base + at]
                    refs[base + at] = 0
                    hole = at
                at = (at + 1) & mask
        if sizes[group] == 0:
            rooms[group] = 0


@jit
def _read_groups(
    sequence: Ints, b: Blocks, order_key: Ints, k: int, decided: bool, least: Any, room: AnswerRoom,
    out: tuple[Codes, Ints, Codes, Ints], n: int, answers: int,
) -> tuple[int, int]:  # fmt: skip
    """The best k items of each group, groups in ``sequence``; returns what is written so far.

    If keys decide, the length of each answer is known beforehand: then groups are read in the order
    of memory, and only the answers are written out of order.
    """
    begin, rooms, sizes, codes, refs, sums = b
    to, values, places, order, keys = room
    out_code, out_sum, out_group, out_end = out
    none, all_live = np.empty(0, np.int64), np.empty(0, np.int32)
    if decided:
        for group in sequence:
            if sizes[group] > 0:
                to[group] = n
                n += min(k, sizes[group])
                out_group[answers], out_end[answers] = group, n
                answers += 1
    for step in range(len(sequence)):
        group = np.int64(step) if decided else sequence[step]
        if sizes[group] == 0:
            continue
        low, at, size = begin[group], to[group] if decided else n, 0
        fits = decided and min(k, sizes[group]) <= MOST_COMPARED
        # Count and key form one number if they are small enough; then no branch depends on them.
        if fits and rooms[group] <= _SMALL:
            for i in range(low, low + sizes[group]):
                key = order_key[codes[i]] - least
                fits &= (key >= 0) & (key <= HALF) & (sums[i] < HALF)
                values[i - low] = (sums[i] << SHIFT) + (HALF - key)
            if fits:
                for i in range(sizes[group]):
                    before = 0
                    for j in range(sizes[group]):
                        before += values[j] > values[i]
                    if before < k:
                        out_code[at + before], out_sum[at + before] = codes[low + i], sums[low + i]
                continue
        for i in range(low, low + rooms[group]):
            values[size], places[size] = sums[i], i
            size += refs[i] > 0
        if k < size:  # only those that may be among the best
            worst = nth(values, size, k, keys, order)
            many, size = size, 0
            for i in range(many):
                values[size], places[size] = values[i], places[i]
                size += values[i] >= worst
        for i in range(size):
            keys[i] = order_key[codes[places[i]]]
            fits &= (keys[i] >= least) & (keys[i] - least <= HALF) & (values[i] < HALF)
        if fits:
            for i in range(size):
                values[i] = (values[i] << SHIFT) + (HALF - (keys[i] - least))
            size = ranked(values, size, k, order, keys)
        else:
            packed = values.reshape(-1, 1)
            size = best_of(none, 0, size, all_live, packed, keys, k, decided, order)
        for j in range(size):
            i = places[order[j]]
            out_code[at + j], out_sum[at + j] = codes[i], sums[i]
        if decided:
            continue
        n += size
        out_group[answers], out_end[answers] = group, n
        answers += 1
    return n, answers


@jit
def _larger_arena(b: Blocks, needed: int, place: Ints) -> Blocks:
    """Move all blocks to a new arena, with room for a group that needs so many entries."""
    wanted = 4 * needed
    for group in range(len(b.rooms)):
        wanted += b.rooms[group]
    room = 2 * wanted + 64
    codes, refs = np.zeros(room, np.int32), np.empty(room, np.int32)  # any code is valid
    to = Blocks(b.begin, b.rooms, b.sizes, codes, refs, np.zeros(room, np.int64))
    at = 0
    for group in range(len(b.rooms)):
        if b.rooms[group] > 0:
            _move(b, group, b.rooms[group], at, to)
            at += b.rooms[group]
    place[TOP] = at
    return to


@jit
def _largest(sizes: Ints) -> int:
    """The greatest size; numpy's own takes a tenth of a second to compile."""
    most = 0
    for size in sizes:
        most = max(most, size)
    return most


@jit
def _room_for(sizes: Ints) -> AnswerRoom:
    """Room to read groups of these sizes, and of somewhat larger ones."""
    most = LANES + 2 * _largest(sizes)
    values, places = np.empty(most, np.int64), np.empty(most, np.int64)
    order, keys = np.empty(most, np.int64), np.empty(most, np.int64)
    return AnswerRoom(np.empty(len(sizes), np.int64), values, places, order, keys)


@kernel
def fold_groups(
    entries: Entries, blocks: Blocks, place: Ints, first: Ints, end: Ints,
    sequence: Ints, order_key: Ints, k: int, decided: bool,
) -> tuple[Codes, Codes, Ints, Codes, Ints, Codes, Ints, Codes]:  # fmt: skip
    """Push panes and read windows; all panes are pushed in the end.

    Returns the arena, then codes and sums of the answers, the group and the end of each, and how
    many each window has.
    """
    pane, cuts, owner, offsets = entries.pane, entries.cuts, entries.owner, entries.offsets
    room = _room_for(blocks.sizes)
    out_code, out_sum = np.empty(1024, np.int32), np.empty(1024, np.int64)
    out_group, out_end = np.empty(256, np.int32), np.empty(256, np.int64)
    per_window = np.zeros(len(first), np.int32)
    least = np.int64(0 if len(order_key) == 0 else order_key[0])
    for key in order_key:
        least = min(least, key)
    n = answers = 0
    for window in range(len(first) + 1):
        last = window == len(first)
        while place[TAIL] < len(pane) and (last or pane[place[TAIL]] < end[window]):
            run, stop = cuts[place[TAIL]], cuts[place[TAIL] + 1]
            while run < stop:
                run = _push_runs(run, stop, entries, blocks, place)
                if run < stop:
                    needed = blocks.sizes[owner[run]] + offsets[run + 1] - offsets[run]
                    blocks = _larger_arena(blocks, needed, place)
            place[TAIL] += 1
        if last:
            break
        while place[HEAD] < place[TAIL] and pane[place[HEAD]] < first[window]:
            run, stop = cuts[place[HEAD]], cuts[place[HEAD] + 1]
            _expire_runs(run, stop, entries, blocks, place)
            place[HEAD] += 1
        most = min(place[LIVE], k * len(sequence)) if decided else place[LIVE]
        out_code, out_sum = with_room(out_code, n, n + most), with_room(out_sum, n, n + most)
        many = answers + min(place[LIVE], len(sequence))
        out_group = with_room(out_group, answers, many)
        out_end = with_room(out_end, answers, many)
        before = answers
        out = (out_code, out_sum, out_group, out_end)
        if _largest(blocks.sizes) + LANES > len(room.values):
            room = _room_for(blocks.sizes)
        n, answers = _read_groups(
            sequence, blocks, order_key, k, decided, least, room, out, n, answers
        )
        per_window[window] = answers - before
    return (
        blocks.codes, blocks.refs, blocks.sums, out_code[:n], out_sum[:n], out_group[:answers],
        out_end[:answers], per_window,
    )  # fmt: skip
