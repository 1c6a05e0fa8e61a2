"""Sums over a sliding window for very many groups: a small table a group, all in one arena.

A group's block has 2^b slots (code of an item, panes that have it, sum). Up to ``_SMALL`` slots the
first are in use, one after the other; beyond, the block is a table that is probed slot by slot and
at most three quarters full. A group that outgrows its block gets another at the end of the arena;
when the arena is full, live blocks move to a new one in the order of the groups' codes, in which
panes have their runs: so almost all that is done walks through memory.

Sums are of integers: an expired pane is subtracted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient

__all__ = ["fold_groups"]


HEAD, TAIL, TOP, LIVE = 0, 1, 2, 3
PLACES = 4
"""First live and first unpushed pane, first free slot of the arena, entries in all blocks."""

_LEAST = 4
_SMALL = 32
_GOLDEN = np.uint32(0x9E3779B1)
_16 = np.uint32(16)
_HALF = np.int64(0x7FFFFFFF)


@jit
def _home(code: np.int32) -> Any:
    """Where the probing for a code starts, before it is cut to the block."""
    mixed = np.uint32(code) * _GOLDEN
    return np.int64(mixed ^ (mixed >> _16))


@jit
def _move(
    group: int, room: int, at: int, begin: Ints, rooms: Ints, codes: Codes, refs: Codes,
    sums: Ints, to_codes: Codes, to_refs: Codes, to_sums: Ints,
) -> None:  # fmt: skip
    """Bring a group's block to ``at``, with this much room, in the same arena or another."""
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
def _push_runs(
    run: int, stop: int, owner: Codes, offsets: Ints, code: Codes, value: Ints, item_refs: Codes,
    begin: Ints, rooms: Ints, sizes: Ints, codes: Codes, refs: Codes, sums: Ints, place: Ints,
) -> int:  # fmt: skip
    """Add runs of entries to their groups; returns the first for which the arena has no room."""
    for r in range(run, stop):
        group = owner[r]
        most = sizes[group] + offsets[r + 1] - offsets[r]
        if not _fits(most, rooms[group]):
            room = max(rooms[group], _LEAST)
            while not _fits(most, room):
                room *= 2
            if place[TOP] + room > len(codes):
                return r
            _move(
                group, room, place[TOP], begin, rooms, codes, refs, sums, codes, refs, sums
            )  # fmt: skip
            place[TOP] += room
        base, mask = begin[group], rooms[group] - 1
        small = rooms[group] <= _SMALL
        for i in range(offsets[r], offsets[r + 1]):
            c = code[i]
            item_refs[c] += 1
            at = 0 if small else _home(c) & mask
            if small:
                while at < sizes[group] and codes[base + at] != c:
                    at += 1
            else:
                while refs[base + at] > 0 and codes[base + at] != c:
                    at = (at + 1) & mask
            if refs[base + at] == 0:  # which all slots are that are not in use
                codes[base + at] = c
                sums[base + at] = 0
                sizes[group] += 1
                place[LIVE] += 1
            refs[base + at] += 1
            sums[base + at] += value[i]
    return stop


@jit
def _expire_runs(
    run: int, stop: int, owner: Codes, offsets: Ints, code: Codes, value: Ints, item_refs: Codes,
    begin: Ints, rooms: Ints, sizes: Ints, codes: Codes, refs: Codes, sums: Ints, place: Ints,
) -> None:  # fmt: skip
    """Take runs of entries out of their groups; what no live pane has is removed."""
    for r in range(run, stop):
        group = owner[r]
        base, mask = begin[group], rooms[group] - 1
        small = rooms[group] <= _SMALL
        for i in range(offsets[r], offsets[r + 1]):
            c = code[i]
            item_refs[c] -= 1
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
    sequence: Ints, begin: Ints, rooms: Ints, sizes: Ints, codes: Codes, refs: Codes, sums: Ints,
    order_key: Ints, k: int, decided: bool, least: Any, top_sum: Ints, top_key: Ints,
    top_code: Codes, to: Ints, out_code: Codes, out_sum: Ints, out_group: Codes, out_end: Ints,
    n: int, answers: int,
) -> tuple[int, int]:  # fmt: skip
    """The best k items of each group, groups in ``sequence``; returns what is written so far.

    Where keys decide, the length of each answer is known beforehand: then groups are read as they
    lie in memory, and only what is written is written here and there.
    """
    few = np.empty(_SMALL, np.int64)
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
        low, at = begin[group], to[group] if decided else n
        small = rooms[group] <= _SMALL
        used = sizes[group] if small else rooms[group]
        if decided and small:
            # Count and key in one number; counted for each is how many stand before it, which
            # takes no branches. Numbers that are too large go the other way.
            fits = True
            for i in range(used):
                key = order_key[codes[low + i]] - least
                fits &= (key >= 0) & (key <= _HALF) & (sums[low + i] < _HALF)
                few[i] = (sums[low + i] << 31) + (_HALF - key)
            if fits:
                for i in range(used):
                    own = few[i]
                    before = 0
                    for j in range(used):
                        before += few[j] > own
                    if before < k:
                        out_code[at + before], out_sum[at + before] = codes[low + i], sums[low + i]
                continue
        size = 0
        for i in range(low, low + used):
            if refs[i] == 0 or (size == k and sums[i] < top_sum[k - 1]):
                continue
            own, key = sums[i], order_key[codes[i]]
            if size == k:
                if own == top_sum[k - 1] and key >= top_key[k - 1]:
                    continue
                size -= 1
            j = size
            while j > 0 and (
                own > top_sum[j - 1] or (own == top_sum[j - 1] and key < top_key[j - 1])
            ):
                top_sum[j], top_key[j] = top_sum[j - 1], top_key[j - 1]
                top_code[j] = top_code[j - 1]
                j -= 1
            top_sum[j], top_key[j], top_code[j] = own, key, codes[i]
            size += 1
        for j in range(size):
            out_code[at + j], out_sum[at + j] = top_code[j], top_sum[j]
        if decided:
            continue
        if size == k and sizes[group] > k:
            # What ties with the last one follows it: the items themselves will tell.
            for i in range(low, low + used):
                tied = refs[i] > 0 and sums[i] == top_sum[k - 1]
                if tied and order_key[codes[i]] == top_key[k - 1]:
                    among = False
                    for j in range(k):
                        among |= top_code[j] == codes[i]
                    if not among:
                        out_code[n + size], out_sum[n + size] = codes[i], sums[i]
                        size += 1
        n += size
        out_group[answers], out_end[answers] = group, n
        answers += 1
    return n, answers


@jit
def _grown(array: Any, used: int, room: int) -> Any:
    """A copy with more room."""
    more = np.empty(room, array.dtype)
    more[:used] = array[:used]
    return more


@patient
@jit
def fold_groups(
    pane: Ints, cuts: Ints, owner: Codes, offsets: Ints, code: Codes, value: Ints,
    item_refs: Codes, begin: Ints, rooms: Ints, sizes: Ints, codes: Codes, refs: Codes, sums: Ints,
    place: Ints, first: Ints, end: Ints, sequence: Ints, order_key: Ints, k: int, decided: bool,
) -> tuple[Codes, Codes, Ints, Codes, Ints, Codes, Ints, Codes]:  # fmt: skip
    """Push panes and read windows; in the end all panes are in.

    Pane t has the runs ``cuts[t]`` to ``cuts[t + 1]``, each of one group (``owner``), with entries
    ``offsets[r]`` to ``offsets[r + 1]``. Returns the arena, then codes and sums of the answers, the
    group and the end of each, and how many each window has.
    """
    top_sum, top_key = np.empty(k, np.int64), np.empty(k, np.int64)
    top_code = np.empty(k, np.int32)
    out_code, out_sum = np.empty(1024, np.int32), np.empty(1024, np.int64)
    out_group, out_end = np.empty(256, np.int32), np.empty(256, np.int64)
    per_window = np.zeros(len(first), np.int32)
    to = np.empty(len(sizes), np.int64)
    least = order_key.min() if len(order_key) else np.int64(0)
    n = answers = 0
    for window in range(len(first) + 1):
        last = window == len(first)
        while place[TAIL] < len(pane) and (last or pane[place[TAIL]] < end[window]):
            run, stop = cuts[place[TAIL]], cuts[place[TAIL] + 1]
            while run < stop:
                run = _push_runs(
                    run, stop, owner, offsets, code, value, item_refs, begin, rooms, sizes, codes,
                    refs, sums, place,
                )  # fmt: skip
                if run < stop:
                    wanted = 4 * (sizes[owner[run]] + offsets[run + 1] - offsets[run])
                    for group in range(len(rooms)):
                        wanted += rooms[group]
                    to_codes = np.empty(2 * wanted + 64, np.int32)
                    to_refs = np.empty(2 * wanted + 64, np.int32)
                    to_sums = np.empty(2 * wanted + 64, np.int64)
                    at = 0
                    for group in range(len(rooms)):
                        room = rooms[group]
                        if room > 0:
                            _move(
                                group, room, at, begin, rooms, codes, refs, sums, to_codes, to_refs,
                                to_sums,
                            )  # fmt: skip
                            at += room
                    codes, refs, sums = to_codes, to_refs, to_sums
                    place[TOP] = at
            place[TAIL] += 1
        if last:
            break
        while place[HEAD] < place[TAIL] and pane[place[HEAD]] < first[window]:
            _expire_runs(
                cuts[place[HEAD]], cuts[place[HEAD] + 1], owner, offsets, code, value, item_refs,
                begin, rooms, sizes, codes, refs, sums, place,
            )  # fmt: skip
            place[HEAD] += 1
        most = min(place[LIVE], k * len(sequence)) if decided else place[LIVE]
        if n + most > len(out_code):
            room = 2 * (n + most)
            out_code, out_sum = _grown(out_code, n, room), _grown(out_sum, n, room)
        many = min(place[LIVE], len(sequence))
        if answers + many > len(out_group):
            room = 2 * (answers + many)
            out_group = _grown(out_group, answers, room)
            out_end = _grown(out_end, answers, room)
        before = answers
        n, answers = _read_groups(
            sequence, begin, rooms, sizes, codes, refs, sums, order_key, k, decided, least,
            top_sum, top_key, top_code, to, out_code, out_sum, out_group, out_end, n, answers,
        )  # fmt: skip
        per_window[window] = answers - before
    return (
        codes, refs, sums, out_code[:n], out_sum[:n], out_group[:answers], out_end[:answers],
        per_window,
    )  # fmt: skip
