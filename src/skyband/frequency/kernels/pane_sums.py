"""Sums over a sliding window of lists of (code, values), one per pane; answers are the best codes.

Whole numbers are subtracted when their pane expires. Floating-point numbers never are: a sum is
always as good as its terms. For them, panes form two stacks. Each entry of an old pane has the sum
of its code over the old panes after it (``rest``), so expiry writes a value instead of subtracting
one. Fresh panes are added up. When no old panes are left, one walk back over the fresh ones makes
them old:

    old panes            fresh panes            window sum of a code =
    ├ 3 ┼ 4 ┼ 5 ┤       ├ 6 ┼ 7 ┤                 old[code] + fresh[code]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Array, Codes, Ints
from skyband.frequency.kernels.best_codes import Top, best_of_few
from skyband.kernels.arrange import with_room
from skyband.kernels.best import best_of
from skyband.kernels.jit import jit, piece
from skyband.kernels.patient import kernel

# Places in ``place``.
HEAD = 0  # the first live pane
FLIP = 1  # the first fresh pane
TAIL = 2  # the first pane that is not pushed yet
PLACES = 3
BEYOND = (1 << 63) - 1  # after all panes
_FEW = 48  # up to so many codes of a group are sorted by insertion


class PaneEntries(NamedTuple):
    """The entries of panes, and where those of each pane start."""

    code: Codes
    value: Array
    pane: Ints
    starts: Ints


class Stacks(NamedTuple):
    """The values of each code over a stretch of panes, and how many live entries it has.

    ``place`` has the first live, the first fresh and the first unpushed pane. Whole numbers that
    are added up have no ``old`` values and no ``rest``.
    """

    place: Ints
    old: Array
    fresh: Array
    refs: Codes
    rest: Array


class Groups(NamedTuple):
    """``members[starts[g]:starts[g + 1]]`` are the codes of group g; no members mean all codes.

    Groups answer in ``sequence``.
    """

    members: Ints
    starts: Ints
    sequence: Ints


class BestCodes(NamedTuple):
    """Which codes an answer has: the best k. If order keys do not decide, ties follow the last.

    ``last`` are those of the last answer (-1 for none), for a guess at the least sum of the next.
    """

    order_key: Ints
    k: int
    decided: bool
    last: Ints


@jit
def joined(one: Any, other: Any, peak: bool) -> Any:
    """Two values as one: their sum, or the greater."""
    return max(one, other) if peak else one + other


@jit
def advance(
    lists: PaneEntries, base: int, stacks: Stacks, first: int, end: int, peak: bool, lowest: Any
) -> None:
    """Push the panes before ``end`` and pop those before ``first``.

    ``rest`` begins with entry ``base``. If ``peak``, the first value of a code is the greatest of
    its entries, and ``lowest`` if it has none.
    """
    code, value, pane, starts = lists
    place, old, fresh, refs, rest = stacks
    columns = value.shape[1]
    while place[TAIL] < len(pane) and pane[place[TAIL]] < end:
        for i in range(starts[place[TAIL]], starts[place[TAIL] + 1]):
            c = code[i]
            refs[c] += 1
            for v in range(columns):
                fresh[c, v] = joined(fresh[c, v], value[i, v], peak and v == 0)
        place[TAIL] += 1
    while place[HEAD] < place[TAIL] and pane[place[HEAD]] < first:
        at = place[HEAD]
        place[HEAD] += 1
        if len(old) == 0:
            for i in range(starts[at], starts[at + 1]):
                c = code[i]
                refs[c] -= 1
                for v in range(columns):
                    fresh[c, v] -= value[i, v]
            continue
        if at == place[FLIP]:  # going back, each entry gets the value of those after it
            for i in range(starts[place[TAIL]] - 1, starts[at] - 1, -1):
                c = code[i]
                for v in range(columns):
                    rest[i - base, v] = old[c, v]
                    old[c, v] = joined(old[c, v], value[i, v], peak and v == 0)
                    fresh[c, v] = lowest if peak and v == 0 else 0
            place[FLIP] = place[TAIL]
        for i in range(starts[at], starts[at + 1]):
            c = code[i]
            refs[c] -= 1
            for v in range(columns):
                old[c, v] = rest[i - base, v]


@piece
def _left_out(
    members: Ints, start: int, stop: int, refs: Codes, found: Array, chosen: Ints, size: int
) -> Any:
    """The greatest count, minus what its panes lack, of all live codes that were not chosen."""
    most = found[0, 0] * 0
    for j in range(size):
        refs[chosen[j]] = -refs[chosen[j]]
    for i in range(start, stop):
        c = members[i] if len(members) else i
        if refs[c] > 0:
            most = max(most, found[c, 0] - found[c, 2])
    for j in range(size):
        refs[chosen[j]] = -refs[chosen[j]]
    return most


@piece
def _likely(found: Array, refs: Codes, last: Ints, members: Ints) -> int:
    """The codes whose sums are not below those of k others; how many they are, -1 if not known.

    The k are the winners of the last answer, which are good ones as a rule; any k would do.
    """
    for c in last:
        if c < 0 or refs[c] == 0:
            return -1
    least = found[last[0], 0]
    for c in last:
        least = min(least, found[c, 0])
    n = 0
    for c in range(len(refs)):  # no branches
        members[n] = c
        n += found[c, 0] >= least
    return n


@kernel
def fold_lists(
    lists: PaneEntries, stacks: Stacks, first: Ints, end: Ints, groups: Groups, wanted: BestCodes
) -> tuple[Codes, Array, Codes, Ints, Codes, Array]:
    """Push panes and read windows.

    Returns codes and sums of the answers, the group and the end of each answer, how many answers
    each window has and, for lists with errors, ``_left_out`` of each answer. All panes are pushed
    in the end, and codes without live entries have no refs.
    """
    old, fresh, refs = stacks.old, stacks.fresh, stacks.refs
    members, bounds, sequence = groups
    order_key, k, decided, last = wanted
    columns, kind = fresh.shape[1], fresh.dtype
    whole, base = len(old) == 0, lists.starts[stacks.place[HEAD]]
    none = np.zeros(1, kind)[0]
    found = fresh if whole else np.empty_like(old)
    best = np.empty(max(len(refs), 1), np.int64)
    likely = np.empty(len(refs) + 1 if len(members) == 0 else 0, np.int64)
    top = Top(np.empty(k, kind), np.empty(k, np.int64), np.empty(k, np.int64))
    out_code, out_value = np.empty(1024, np.int32), np.empty((1024, columns), kind)
    out_group, out_end = np.empty(256, np.int32), np.empty(256, np.int64)
    out_rest = np.zeros(256, kind)
    per_window = np.zeros(len(first), np.int32)
    n = answers = 0
    for window in range(len(first)):
        advance(lists, base, stacks, first[window], end[window], False, none)
        for v in range(0 if whole else columns):
            for c in range(len(refs)):
                found[c, v] = old[c, v] + fresh[c, v]
        for group in sequence:
            start, stop = bounds[group], bounds[group + 1]
            if start == stop:
                continue
            few = _likely(found, refs, last, likely) if len(members) == 0 else -1
            if few >= 0:
                size = best_of(likely, 0, few, refs, found, order_key, k, decided, best)
            elif len(members) == 0 or columns > 1 or stop - start > _FEW:
                size = best_of(members, start, stop, refs, found, order_key, k, decided, best)
            else:
                size = best_of_few(
                    members, start, stop, refs, found, order_key, k, decided, top, best
                )
            if size == 0:
                continue
            if n + size > len(out_code):
                out_code = with_room(out_code, n, n + size)
                out_value = with_room(out_value, n, n + size)
            if answers == len(out_group):
                out_group = with_room(out_group, answers, answers + 1)
                out_end = with_room(out_end, answers, answers + 1)
                out_rest = with_room(out_rest, answers, answers + 1)
            for j in range(k if len(members) == 0 else 0):
                last[j] = best[j] if j < size else -1
            for j in range(size):
                c = best[j]
                out_code[n] = c
                for v in range(columns):
                    out_value[n, v] = found[c, v]
                n += 1
            out_group[answers], out_end[answers] = group, n
            if columns > 2:
                out_rest[answers] = _left_out(members, start, stop, refs, found, best, size)
            answers += 1
            per_window[window] += 1
    advance(lists, base, stacks, -BEYOND, BEYOND, False, none)
    return (
        out_code[:n], out_value[:n], out_group[:answers], out_end[:answers], per_window,
        out_rest[:answers],
    )  # fmt: skip


@kernel
def recount(
    code: Codes, value: Array, low: Ints, high: Ints, ks: Ints, order_key: Ints, decided: bool
) -> tuple[Codes, Array, Ints, Array]:
    """The best codes of stretches of entries, counted from scratch; the end of each answer.

    Stretches that end together follow each other, the shortest first: what they have in common is
    counted once. The last array is ``_left_out`` of each answer, for lists with errors.
    """
    columns, codes = value.shape[1], len(order_key)
    found = np.zeros((codes, columns), value.dtype)
    refs = np.zeros(codes, np.int32)
    longest = 0
    for window in range(len(low)):
        longest = max(longest, high[window] - low[window])
    members = np.empty(longest + 1, np.int64)
    heap = np.empty(longest + 1, np.int64)
    out_code = np.empty(1024, np.int32)
    out_value = np.empty((1024, columns), value.dtype)
    ends = np.zeros(len(low), np.int64)
    rest = np.zeros(len(low), value.dtype)
    n = known = 0
    for window in range(len(low)):
        stop = low[window - 1] if known else high[window]
        for i in range(low[window], stop):
            c = code[i]
            if refs[c] == 0:
                members[known] = c
                known += 1
            refs[c] += 1
            for v in range(columns):
                found[c, v] += value[i, v]
        size = 0
        if known:
            k = ks[window]
            size = best_of(members, 0, known, refs, found, order_key, k, decided, heap)
        out_code, out_value = with_room(out_code, n, n + size), with_room(out_value, n, n + size)
        for j in range(size):
            out_code[n] = heap[j]
            for v in range(columns):
                out_value[n, v] = found[heap[j], v]
            n += 1
        ends[window] = n
        if columns > 2 and known:
            rest[window] = _left_out(members, 0, known, refs, found, heap, size)
        if window + 1 < len(low) and high[window + 1] == high[window]:
            continue
        for i in range(known):
            c = members[i]
            refs[c] = 0
            for v in range(columns):
                found[c, v] = 0
        known = 0
    return out_code[:n], out_value[:n], ends, rest
