"""Sums over a sliding window of lists: one list of (code, values) a pane, answers the best codes.

Nothing is ever subtracted, so floating sums stay as good as their terms. Panes are two stacks: for
the old ones each entry knows the sum of its code over the old panes after it (``rest``), so that
expiry writes a value instead of subtracting one; the fresh ones are added up. When the old ones are
used up, one walk back over the fresh ones makes them old:

    old panes            fresh panes            window sum of a code =
    ├ 3 ┼ 4 ┼ 5 ┤       ├ 6 ┼ 7 ┤                 old[code] + fresh[code]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.arrays import Codes, Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient

__all__ = ["dead_codes", "fold_lists", "recount"]

Values = NDArray[Any]

HEAD, FLIP, TAIL = 0, 1, 2
_FEW = 48


@jit
def _before(a: int, b: int, found: Values, order_key: Ints, columns: int) -> Any:
    """Whether code a ranks before code b by the sums in ``found``."""
    if found[a, 0] != found[b, 0]:
        return found[a, 0] > found[b, 0]
    if columns > 1 and found[a, 1] != found[b, 1]:
        return found[a, 1] < found[b, 1]
    if order_key[a] != order_key[b]:
        return order_key[a] < order_key[b]
    return a < b


@jit
def _sift(heap: Ints, size: int, at: int, found: Values, order_key: Ints, columns: int) -> None:
    """Restore the heap (worst on top) below ``at``."""
    code = heap[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _before(heap[child], heap[child + 1], found, order_key, columns):
            child += 1
        if not _before(code, heap[child], found, order_key, columns):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = code


@jit
def best_of(
    members: Ints,
    start: int,
    stop: int,
    refs: Codes,
    found: Values,
    order_key: Ints,
    k: int,
    decided: bool,
    heap: Ints,
) -> int:
    """The best k live codes among members[start:stop] in ``heap``, best first; returns how many.

    ``members`` of length 0 stand for all codes. Where order keys do not decide, codes that tie with
    the last one follow it.
    """
    columns = found.shape[1]
    every = len(members) == 0
    size = 0
    for i in range(start, stop):
        code = i if every else members[i]
        if refs[code] == 0:
            continue
        if size < k:
            heap[size] = code
            size += 1
            if size == k:
                for at in range(k // 2 - 1, -1, -1):
                    _sift(heap, size, at, found, order_key, columns)
        elif found[code, 0] >= found[heap[0], 0] and _before(
            code, heap[0], found, order_key, columns
        ):
            heap[0] = code
            _sift(heap, size, 0, found, order_key, columns)
    if size < k:
        for at in range(size // 2 - 1, -1, -1):
            _sift(heap, size, at, found, order_key, columns)
    for last in range(size - 1, 0, -1):
        worst = heap[0]
        heap[0] = heap[last]
        heap[last] = worst
        _sift(heap, last, 0, found, order_key, columns)
    if decided or size < k:
        return size
    worst = heap[size - 1]
    for i in range(start, stop):
        code = i if every else members[i]
        if refs[code] == 0 or code <= worst or found[code, 0] != found[worst, 0]:
            continue
        if columns > 1 and found[code, 1] != found[worst, 1]:
            continue
        if order_key[code] == order_key[worst]:
            heap[size] = code
            size += 1
    return size


@patient
@jit
def fold_lists(
    code: Codes,
    value: Values,
    rest: Values,
    pane: Ints,
    starts: Ints,
    place: Ints,
    old: Values,
    fresh: Values,
    refs: Codes,
    first: Ints,
    end: Ints,
    members: Ints,
    groups: Ints,
    sequence: Ints,
    order_key: Ints,
    k: int,
    decided: bool,
) -> tuple[Codes, Values, Codes, Ints, Codes]:
    """Push panes and read windows.

    ``place`` holds the numbers of the first live, first fresh and first unpushed pane, and moves
    on. ``members[groups[g]:groups[g + 1]]`` are the codes of group g; groups answer in
    ``sequence``. Returns codes and sums of the answers, the group and the end of each answer, how
    many answers each window has. In the end all panes are in, and codes without live entries have
    no refs.
    """
    columns = value.shape[1]
    second = min(1, columns - 1)  # where there is no error, the count decides nothing again
    found = np.empty_like(old)
    heap = np.empty(max(len(refs), 1), np.int64)
    few_count, few_wrong = np.empty(_FEW + 1, value.dtype), np.empty(_FEW + 1, value.dtype)
    few_key, few_code = np.empty(_FEW + 1, np.int64), np.empty(_FEW + 1, np.int64)
    out_code = np.empty(1024, np.int32)
    out_value = np.empty((1024, columns), value.dtype)
    out_group = np.empty(256, np.int32)
    out_end = np.empty(256, np.int64)
    per_window = np.zeros(len(first), np.int32)
    n = answers = 0
    for window in range(len(first)):
        while place[TAIL] < len(pane) and pane[place[TAIL]] < end[window]:
            at = place[TAIL]
            for i in range(starts[at], starts[at + 1]):
                c = code[i]
                refs[c] += 1
                for v in range(columns):
                    fresh[c, v] += value[i, v]
            place[TAIL] += 1
        while place[HEAD] < place[TAIL] and pane[place[HEAD]] < first[window]:
            at = place[HEAD]
            if at == place[FLIP]:
                for i in range(starts[place[TAIL]] - 1, starts[at] - 1, -1):
                    c = code[i]
                    for v in range(columns):
                        rest[i, v] = old[c, v]
                        old[c, v] += value[i, v]
                        fresh[c, v] = 0
                place[FLIP] = place[TAIL]
            for i in range(starts[at], starts[at + 1]):
                c = code[i]
                refs[c] -= 1
                for v in range(columns):
                    old[c, v] = rest[i, v]
            place[HEAD] += 1
        for v in range(columns):
            for c in range(len(refs)):
                found[c, v] = old[c, v] + fresh[c, v]
        for group in sequence:
            if groups[group] == groups[group + 1]:
                continue
            start, stop = groups[group], groups[group + 1]
            if len(members) == 0 or stop - start > _FEW:
                size = best_of(members, start, stop, refs, found, order_key, k, decided, heap)
            else:
                # A few items are sorted on the spot: a call would cost more than the group does.
                size = 0
                for i in range(start, stop):
                    c = members[i]
                    if refs[c] == 0:
                        continue
                    count = found[c, 0]
                    wrong = found[c, second]
                    key = order_key[c]
                    j = size
                    while j > 0 and (
                        count > few_count[j - 1]
                        or (
                            count == few_count[j - 1]
                            and (
                                wrong < few_wrong[j - 1]
                                or (wrong == few_wrong[j - 1] and key < few_key[j - 1])
                            )
                        )
                    ):
                        few_count[j], few_wrong[j] = few_count[j - 1], few_wrong[j - 1]
                        few_key[j], few_code[j] = few_key[j - 1], few_code[j - 1]
                        j -= 1
                    few_count[j], few_wrong[j], few_key[j], few_code[j] = count, wrong, key, c
                    size += 1
                if size > k:
                    last = k
                    while (
                        not decided
                        and last < size
                        and few_count[last] == few_count[k - 1]
                        and few_wrong[last] == few_wrong[k - 1]
                        and few_key[last] == few_key[k - 1]
                    ):
                        last += 1
                    size = last
                for j in range(size):
                    heap[j] = few_code[j]
            if size == 0:
                continue
            if n + size > len(out_code):
                room = 2 * (n + size)
                grown_code = np.empty(room, np.int32)
                grown_code[:n] = out_code[:n]
                out_code = grown_code
                grown_value = np.empty((room, columns), value.dtype)
                grown_value[:n] = out_value[:n]
                out_value = grown_value
            if answers == len(out_group):
                grown_group = np.empty(2 * answers, np.int32)
                grown_group[:answers] = out_group
                out_group = grown_group
                grown_end = np.empty(2 * answers, np.int64)
                grown_end[:answers] = out_end
                out_end = grown_end
            for j in range(size):
                c = heap[j]
                out_code[n] = c
                for v in range(columns):
                    out_value[n, v] = found[c, v]
                n += 1
            out_group[answers] = group
            out_end[answers] = n
            answers += 1
            per_window[window] += 1
    while place[TAIL] < len(pane):
        at = place[TAIL]
        for i in range(starts[at], starts[at + 1]):
            c = code[i]
            refs[c] += 1
            for v in range(columns):
                fresh[c, v] += value[i, v]
        place[TAIL] += 1
    return out_code[:n], out_value[:n], out_group[:answers], out_end[:answers], per_window


@patient
@jit
def recount(
    code: Codes,
    value: Values,
    low: Ints,
    high: Ints,
    codes: int,
    order_key: Ints,
    k: int,
    decided: bool,
) -> tuple[Codes, Values, Ints]:
    """The best codes of each stretch of entries, counted from scratch; the end of each answer."""
    columns = value.shape[1]
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
    n = 0
    for window in range(len(low)):
        known = 0
        for i in range(low[window], high[window]):
            c = code[i]
            if refs[c] == 0:
                members[known] = c
                known += 1
            refs[c] += 1
            for v in range(columns):
                found[c, v] += value[i, v]
        size = 0
        if known:
            size = best_of(members, 0, known, refs, found, order_key, k, decided, heap)
        if n + size > len(out_code):
            room = 2 * (n + size)
            grown_code = np.empty(room, np.int32)
            grown_code[:n] = out_code[:n]
            out_code = grown_code
            grown_value = np.empty((room, columns), value.dtype)
            grown_value[:n] = out_value[:n]
            out_value = grown_value
        for j in range(size):
            out_code[n] = heap[j]
            for v in range(columns):
                out_value[n, v] = found[heap[j], v]
            n += 1
        ends[window] = n
        for i in range(known):
            c = members[i]
            refs[c] = 0
            for v in range(columns):
                found[c, v] = 0
    return out_code[:n], out_value[:n], ends


@patient
@jit
def dead_codes(codes: Codes, refs: Codes) -> Codes:
    """The codes without refs among these, each once."""
    dead = np.empty(len(codes), np.int32)
    n = 0
    for code in codes:
        if refs[code] == 0:
            refs[code] = -1
            dead[n] = code
            n += 1
    for i in range(n):
        refs[dead[i]] = 0
    return dead[:n].copy()
