"""The live reports of fused objects: a log in the order of panes, a chain of reports an object.

    log     report   0  1  2  3  4  5  6        head .. size are live
            code     7  2  7  9  2  7  4
            chain    2  4  5  ·  ·  ·  ·        the next report of the same object

    object  code     first  last                ``links[code]``
             7         0      5

A report expires at the head of the log, where it is always the first of its object's chain. What
the objects' values are is emitted as a matrix (objects x streams); how values make a score is not
known here, so that a user's own function costs no more than a sum.

``view`` holds the objects whose score is at least ``floor`` (k_max of them or some more), so that
reading a window looks at few; ``place[code]`` is an object's place in it, -1 for none. The score of
an object without live reports is NaN, which is never at least anything.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.arrays import Codes, Floats, Ints, Mask
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient

__all__ = [
    "advance",
    "any_outside",
    "common_prefix",
    "dead_of",
    "prefix_keys",
    "relink",
    "retire",
    "settle",
    "values_of",
]

Octets = npt.NDArray[np.uint8]

VIEW, LIVE, LIMIT, REFILLS = 0, 1, 2, 3
"""Counters that ``settle`` keeps: size of the view, live objects, when to tighten, refills."""


@jit
def _values(
    report: int, chain: Codes, stream: Codes, value: Floats, low: Floats, row: Floats, seen: Codes
) -> None:
    """The value of every stream from a chain of reports, oldest first; lower bounds elsewhere."""
    for s in range(len(low)):
        row[s] = 0.0
        seen[s] = 0
    while report >= 0:
        s = stream[report]
        row[s] += value[report]
        seen[s] += 1
        report = chain[report]
    for s in range(len(low)):
        if seen[s] == 0:
            row[s] = low[s]


@patient
@jit
def values_of(
    codes: Codes, links: Codes, chain: Codes, stream: Codes, value: Floats, low: Floats
) -> tuple[Floats, Mask]:
    """The values of some objects, and where they have reports."""
    found = np.empty((len(codes), len(low)))
    present = np.empty((len(codes), len(low)), np.bool_)
    seen = np.zeros(len(low), np.int32)
    for i in range(len(codes)):
        _values(links[codes[i], 0], chain, stream, value, low, found[i], seen)
        for s in range(len(low)):
            present[i, s] = seen[s] > 0
    return found, present


@patient
@jit
def dead_of(touched: Codes, links: Codes, mark: Ints, serial: int) -> Codes:
    """Those of some objects that have no reports, each once."""
    dead = np.empty(len(touched), np.int32)
    count = 0
    for i in range(len(touched)):
        code = touched[i]
        if links[code, 0] < 0 and mark[code] != serial:
            mark[code] = serial
            dead[count] = code
            count += 1
    return dead[:count]


@patient
@jit
def retire(codes: Codes, score: Floats, view: Codes, place: Codes, counters: Ints) -> None:
    """Take objects that have no report left out of the scores and the view."""
    for code in codes:
        score[code] = np.nan
        counters[LIVE] -= 1
        at = place[code]
        if at >= 0:
            counters[VIEW] -= 1
            last = view[counters[VIEW]]
            view[at] = last
            place[last] = at
            place[code] = -1


@patient
@jit
def relink(code: Codes, head: int, size: int, chain: Codes, links: Codes) -> None:
    """Chains and links of a log; ``links`` is all -1 before."""
    for report in range(head, size):
        owner = code[report]
        chain[report] = -1
        if links[owner, 0] < 0:
            links[owner, 0] = report
        else:
            chain[links[owner, 1]] = report
        links[owner, 1] = report


@patient
@jit
def advance(
    rows: tuple[Codes, Codes, Floats, Ints],
    step_end: Ints,
    step_first: Ints,
    log: tuple[Codes, Codes, Floats, Ints, Codes],
    head: int,
    size: int,
    links: Codes,
    ever: Codes,
    mark: Ints,
    serial: int,
    low: Floats,
) -> tuple[int, int, Codes, Floats, Mask, Ints]:
    """Take rows and expire reports, step by step; which objects changed, and to which values.

    A step takes the rows up to ``step_end`` and then lets panes before ``step_first`` go. Each
    object is told once a step, as it is at the step's end: its value in every stream, and whether
    it has a live report there. ``mark`` holds no number beyond ``serial``.
    """
    new_code, new_stream, new_value, new_pane = rows
    code, stream, value, pane, chain = log
    steps = len(step_end)
    room = len(new_code) + len(new_code) + size - head
    touched = np.empty(room, np.int32)
    values = np.empty((room, len(low)))
    present = np.empty((room, len(low)), np.bool_)
    offsets = np.zeros(steps + 1, np.int64)
    seen = np.zeros(len(low), np.int32)
    count = 0
    row = 0
    for step in range(steps):
        begin = count
        now = serial + step + 1
        while row < step_end[step]:
            owner = new_code[row]
            code[size] = owner
            stream[size] = new_stream[row]
            value[size] = new_value[row]
            pane[size] = new_pane[row]
            chain[size] = -1
            last = links[owner, 1]
            if last < 0:
                links[owner, 0] = size
            else:
                chain[last] = size
            links[owner, 1] = size
            ever[owner, new_stream[row]] += 1
            if mark[owner] != now:
                mark[owner] = now
                touched[count] = owner
                count += 1
            size += 1
            row += 1
        while head < size and pane[head] < step_first[step]:
            owner = code[head]
            links[owner, 0] = chain[head]
            if chain[head] < 0:
                links[owner, 1] = -1
            if mark[owner] != now:
                mark[owner] = now
                touched[count] = owner
                count += 1
            head += 1
        for i in range(begin, count):
            _values(links[touched[i], 0], chain, stream, value, low, values[i], seen)
            for s in range(len(low)):
                present[i, s] = seen[s] > 0
        offsets[step + 1] = count
    return head, size, touched[:count], values[:count], present[:count], offsets


@jit
def _before(score: float, key: int, other_score: float, other_key: int) -> bool:
    """Whether the one comes before the other: better score, then smaller id."""
    return score > other_score or (score == other_score and key < other_key)


@jit
def _sift(heap: Codes, size: int, at: int, score: Floats, key: Ints) -> None:
    """Restore a heap whose worst object is on top, from ``at`` downwards."""
    while True:
        worst = at
        for child in (2 * at + 1, 2 * at + 2):
            if child < size and _before(
                score[heap[worst]], key[heap[worst]], score[heap[child]], key[heap[child]]
            ):
                worst = child
        if worst == at:
            return
        heap[at], heap[worst] = heap[worst], heap[at]
        at = worst


@jit
def _best(
    view: Codes, count: int, score: Floats, key: Ints, k: int, heap: Codes
) -> tuple[int, bool]:
    """The best k objects of a view into ``heap``, best first; whether the last of them is tied.

    Tied means that an object left out equals it in score and key.
    """
    size = min(k, count)
    for i in range(size):
        heap[i] = view[i]
    for i in range(size // 2 - 1, -1, -1):
        _sift(heap, size, i, score, key)
    for i in range(size, count):
        code, top = view[i], heap[0]
        if _before(score[code], key[code], score[top], key[top]):
            heap[0] = code
            _sift(heap, size, 0, score, key)
    tied = False
    if size and count > size:
        top = heap[0]
        equal = 0
        for i in range(count):
            equal += score[view[i]] == score[top] and key[view[i]] == key[top]
        for i in range(size):
            equal -= score[heap[i]] == score[top] and key[heap[i]] == key[top]
        tied = equal > 0
    for end in range(size - 1, 0, -1):
        heap[0], heap[end] = heap[end], heap[0]
        _sift(heap, end, 0, score, key)
    return size, tied


@jit
def _kth(values: Floats, count: int, k: int) -> float:
    """The k-th greatest of the first ``count`` values, which are moved about."""
    low, high, want = 0, count - 1, k - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if want <= j:
            high = j
        elif want >= i:
            low = i
        else:
            break
    return float(values[want])


@jit
def _choose(
    codes: Codes,
    count: int,
    score: Floats,
    aim: int,
    view: Codes,
    place: Codes,
    counters: Ints,
    floor: Floats,
    scratch: Floats,
) -> None:
    """Make a view of the objects among ``codes`` that are at least the ``aim``-th best of them."""
    for i in range(count):
        scratch[i] = score[codes[i]]
    bound = -np.inf if count <= aim else _kth(scratch, count, aim)
    kept = 0
    for i in range(count):
        code = codes[i]
        if score[code] >= bound:
            place[code] = kept
            view[kept] = code
            kept += 1
        else:
            place[code] = -1
    counters[VIEW] = kept
    counters[LIMIT] = 2 * max(kept, aim)
    floor[0] = bound


@patient
@jit
def settle(
    touched: Codes,
    scores: Floats,
    offsets: Ints,
    reads: Mask,
    step: int,
    resumed: bool,
    scan: bool,
    score: Floats,
    view: Codes,
    place: Codes,
    counters: Ints,
    floor: Floats,
    key: Ints,
    k: int,
    aim: int,
) -> tuple[int, Codes, Floats, Ints]:
    """Give objects their new scores, step by step, and read the steps that ask for it.

    ``scores`` are NaN for objects that died. Where a step finds fewer than k in the view while
    others live, the view is chosen anew: by a scan over all scores, or (``scan`` off) by the
    caller, to whom the step is returned. Returns the next step, and the codes and scores read, cut
    by step.
    """
    steps = len(offsets) - 1
    found = np.empty(max((steps - step) * k, 16), np.int32)
    points = np.empty(len(found))
    ends = np.zeros(steps - step + 1, np.int64)
    heap = np.empty(k, np.int32)
    scratch = np.empty(len(score) if len(score) > 16 else 16)
    all_live = np.empty(len(score), np.int32)
    count = 0
    first = step
    while step < steps:
        if not resumed:
            for i in range(offsets[step], offsets[step + 1]):
                code = touched[i]
                was, now = score[code], scores[i]
                score[code] = now
                if np.isnan(was) and not np.isnan(now):
                    counters[LIVE] += 1
                elif np.isnan(now) and not np.isnan(was):
                    counters[LIVE] -= 1
                at = place[code]
                if now >= floor[0]:
                    if at < 0:
                        place[code] = counters[VIEW]
                        view[counters[VIEW]] = code
                        counters[VIEW] += 1
                elif at >= 0:
                    counters[VIEW] -= 1
                    last = view[counters[VIEW]]
                    view[at] = last
                    place[last] = at
                    place[code] = -1
        resumed = False
        if reads[step]:
            if counters[VIEW] < k and counters[VIEW] < counters[LIVE]:
                if not scan:
                    break
                live = 0
                for code in range(len(score)):
                    if not np.isnan(score[code]):
                        all_live[live] = code
                        live += 1
                _choose(all_live, live, score, aim, view, place, counters, floor, scratch)
                counters[REFILLS] += 1
            elif counters[VIEW] > counters[LIMIT]:
                size = counters[VIEW]
                all_live[:size] = view[:size]
                _choose(all_live, size, score, aim, view, place, counters, floor, scratch)
            size, tied = _best(view, counters[VIEW], score, key, k, heap)
            extra = counters[VIEW] - size if tied else 0
            if count + size + extra > len(found):
                more = 2 * (count + size + extra)
                wider, farther = np.empty(more, np.int32), np.empty(more)
                wider[:count], farther[:count] = found[:count], points[:count]
                found, points = wider, farther
            for i in range(size):
                found[count] = heap[i]
                points[count] = score[heap[i]]
                count += 1
            if tied:
                # All that equal the last in score and key come along; their ids decide later.
                low, low_key = score[heap[size - 1]], key[heap[size - 1]]
                for i in range(size):
                    count -= score[heap[i]] == low and key[heap[i]] == low_key
                for i in range(counters[VIEW]):
                    code = view[i]
                    if score[code] == low and key[code] == low_key:
                        found[count] = code
                        points[count] = low
                        count += 1
        step += 1
        ends[step - first] = count
    return step, found[:count], points[:count], ends[: step - first + 1]


@patient
@jit
def common_prefix(offsets: Ints, octets: Octets, prefix: Octets) -> int:
    """How much of a prefix all of some strings begin with."""
    common = len(prefix)
    for row in range(len(offsets) - 1):
        start = offsets[row]
        common = min(common, offsets[row + 1] - start)
        for i in range(common):
            if octets[start + i] != prefix[i]:
                common = i
                break
    return common


@patient
@jit
def prefix_keys(offsets: Ints, octets: Octets, skip: int) -> npt.NDArray[np.uint64]:
    """Eight bytes of each string, after those to skip, as a number that sorts as the strings do.

    All strings are at least ``skip`` long and begin alike.
    """
    keys = np.empty(len(offsets) - 1, np.uint64)
    for row in range(len(keys)):
        start = offsets[row] + skip
        length = min(offsets[row + 1] - start, 8)
        word = np.uint64(0)
        for i in range(8):
            word = word << np.uint64(8)
            if i < length:
                word = word | np.uint64(octets[start + i])
        keys[row] = word
    return keys


@patient
@jit
def any_outside(value: Floats, stream: Codes, low: Floats, high: Floats) -> bool:
    """Whether a value is outside the bounds of its stream; streams that are unknown have none."""
    for row in range(len(value)):
        s = stream[row]
        if s >= 0 and not low[s] <= value[row] <= high[s]:
            return True
    return False
