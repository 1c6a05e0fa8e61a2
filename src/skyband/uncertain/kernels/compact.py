"""Compact sets under any semantics: where one ends, and the answer that is read from it.

The rest of this folder uses rules and knows no semantics.
"""

from __future__ import annotations

import math

import numpy as np

from skyband.arrays import Floats, Ints
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.kernels.sorting import sort_best
from skyband.uncertain.kernels.types import KEEP, SemanticsCode, UncertainRowsState

KINDS = ("pk-topk", "pt-k", "u-kranks", "u-topk")
_PK, _RANKS, _VECTOR = 0, 2, 3

# How many rows of a prefix exist: the recursion that three of the semantics share -----------------
#
# ``r[j]`` is the probability that exactly j of the rows so far exist, for j < k (equation 2 of the
# paper). It takes only sums and products of non-negative numbers, no division: nothing becomes
# negative or NaN, and certain rows (p = 1) give exact zeros.


@jit
def add_row(r: Floats, k: int, p: float) -> None:
    """Add one more row."""
    q = 1.0 - p
    for j in range(k - 1, 0, -1):
        r[j] = r[j] * q + r[j - 1] * p
    r[0] *= q


@jit
def add_wide_row(r: Floats, power: Ints, k: int, p: float) -> None:
    """Add one more row, with probabilities ``r[j] * 2 ** power[j]``.

    The same digits as with ``add_row``, but no number is too small.
    """
    q = 1.0 - p
    part, part_power = math.frexp(p)
    for j in range(k - 1, -1, -1):
        stays = r[j] * q
        comes = r[j - 1] * part if j > 0 else 0.0
        base = power[j]
        if comes > 0.0:
            # Scale both by the power of the greater one; what vanishes is less than its last digit.
            one, one_power = math.frexp(stays)
            two, two_power = math.frexp(comes)
            one_power += power[j]
            two_power += power[j - 1] + part_power
            base = max(one_power, two_power) if stays > 0.0 else two_power
            stays = math.ldexp(one, int(max(one_power - base, -1000)))
            comes = math.ldexp(two, int(max(two_power - base, -1000)))
        r[j], more = math.frexp(stays + comes)
        power[j] = base + more


@jit
def fewer(r: Floats, k: int, before: float) -> float:
    """The probability that fewer than k rows exist; never more than ``before``, one row ago."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0  # four sums, so that additions need not wait for each other
    for j in range(0, k - 3, 4):
        a += r[j]
        b += r[j + 1]
        c += r[j + 2]
        d += r[j + 3]
    for j in range(k - k % 4, k):
        a += r[j]
    return min((a + b) + (c + d), before)


# U-Topk: the likeliest whole answer, a vector of exactly k rows (definition 5.3) -----------------
#
# The likeliest vector within the first i rows takes the k greatest probabilities; its chance is
# ``rho_i``, with a factor (1 - p) for every other row up to i (the paper prints d). Products are
# kept as a mantissa and a power of two, so that they neither vanish nor lose ties.


@jit
def _choose(prob: Floats, slots: Ints, i: int, k: int, top: Ints, count: int) -> int:
    """Put row i among the k greatest probabilities so far; the position that left, or -1.

    ``top`` holds positions, greatest first. Of equal probabilities the earlier row stays,
    which gives the vector that comes first in row order.
    """
    p = prob[slots[i]]
    gone = -1
    j = count
    if count == k:
        gone = top[k - 1]
        if p <= prob[slots[gone]]:
            return i
        j = k - 1
    while j > 0 and prob[slots[top[j - 1]]] < p:
        top[j] = top[j - 1]
        j -= 1
    top[j] = i
    return gone


@jit
def _scan_vectors(
    prob: Floats, slots: Ints, n: int, k: int, slack: float, top: Ints
) -> tuple[int, int, float, int]:
    """The end of the compact set or -1; where the best vector ends, its mantissa and power."""
    out, out_power = 1.0, 0  # the product of (1 - p) over the rows that are not chosen
    bound, bound_power = 1.0, 0  # the product of max(p, 1 - p) over all
    best, best_power = 0.0, 0
    reach = 0
    for i in range(n):
        p = prob[slots[i]]
        bound, power = math.frexp(bound * max(p, 1.0 - p))
        bound_power += power
        gone = _choose(prob, slots, i, k, top, min(i, k))
        if gone >= 0:
            out, power = math.frexp(out * (1.0 - prob[slots[gone]]))
            out_power += power
        if gone != i and i + 1 >= k:
            rho, rho_power = out, out_power
            for m in range(k):
                part, part_power = math.frexp(prob[slots[top[m]]])
                rho, power = math.frexp(rho * part)
                rho_power += power + part_power
            greater = rho_power > best_power or (rho_power == best_power and rho > best)
            if rho > 0.0 and (reach == 0 or greater):
                best, best_power = rho, rho_power
                reach = i + 1
        if reach > 0:
            shift = min(max(bound_power - best_power, -1000), 1000)
            if best >= math.ldexp(bound, shift) * (1.0 + slack):
                return i + 1, reach, best, best_power
    return -1, reach, best, best_power


@jit
def vector_answer(prob: Floats, slots: Ints, n: int, k: int, found: Ints, chance: Floats) -> int:
    """The likeliest vector in row order, each row with the vector's chance; 0 or k rows."""
    if n < k:
        return 0
    top = np.empty(k, np.int64)
    _, reach, best, power = _scan_vectors(prob, slots, n, k, 0.0, top)
    for i in range(reach):
        _choose(prob, slots, i, k, top, min(i, k))
    chosen = np.zeros(reach, np.bool_)
    for m in range(k):
        chosen[top[m]] = True
    count = 0
    for i in range(reach):
        if chosen[i]:
            found[count] = slots[i]
            chance[count] = math.ldexp(best, max(power, -2000))
            count += 1
    return count


# U-kRanks: for each rank the row likeliest to have it; a row may win twice (condition 9) ---------
#
# The paper calls its conditions (8) and (9) equivalent. They are not. Condition (9) is sufficient
# and stays true after insertions, so it is used here.
#
# Every rank up to the number of rows has a winner, even if only because all rows before it exist.
# If that is too unlikely for the exponent of a float, the recursion is run again with a wider
# exponent. This cannot happen in a compact set: if (9) holds for n rows, the winner of each rank
# has a chance of at least 1 / 2kn.


_SOUND = 2.0**-900
"""Sums of products down to this size have lost nothing to underflow."""


@jit
def ranks_end(prob: Floats, slots: Ints, n: int, k: int, slack: float) -> int:
    """Rows of the compact set of sorted rows; -1 if they admit none."""
    r = np.zeros(k)
    r[0] = 1.0
    best = 0.0  # the greatest chance of the last rank
    for i in range(n):
        p = prob[slots[i]]
        best = max(best, p * r[k - 1])
        add_row(r, k, p)
        if best > 0.0:
            most = 0.0
            for j in range(k):
                most = max(most, r[j])
            if best >= most * (1.0 + slack):
                return i + 1
    return -1


@jit
def ranks_answer(prob: Floats, slots: Ints, n: int, k: int, found: Ints, chance: Floats) -> int:
    """The winner of each rank, with its chance; returns how many ranks there are."""
    end = ranks_end(prob, slots, n, k, 0.0)
    count = min(k, n)
    for j in range(count):
        found[j] = slots[j]
        chance[j] = 0.0
    r = np.zeros(k)
    r[0] = 1.0
    for i in range(n if end < 0 else end):
        p = prob[slots[i]]
        for j in range(min(i + 1, count)):
            if p * r[j] > chance[j]:
                chance[j] = p * r[j]
                found[j] = slots[i]
        add_row(r, k, p)
    sound = True
    for j in range(count):
        sound = sound and chance[j] >= _SOUND
    if not sound:
        _unlikely_ranks(prob, slots, n, count, found, chance)
    return count


@jit
def _unlikely_ranks(
    prob: Floats, slots: Ints, n: int, count: int, found: Ints, chance: Floats
) -> None:
    """Find the winners of ranks whose chances are too small for floats; the others stay."""
    r = np.zeros(count)
    power = np.zeros(count, np.int64)
    r[0] = 1.0
    best = np.zeros(count)
    best_power = np.zeros(count, np.int64)
    for i in range(n):
        p = prob[slots[i]]
        part, part_power = math.frexp(p)
        for j in range(min(i + 1, count)):
            own, own_power = math.frexp(part * r[j])
            own_power += part_power + power[j]
            greater = own_power > best_power[j] or (own_power == best_power[j] and own > best[j])
            if chance[j] < _SOUND and own > 0.0 and (best[j] == 0.0 or greater):
                best[j] = own
                best_power[j] = own_power
                found[j] = slots[i]
        add_wide_row(r, power, count, p)
    for j in range(count):
        if chance[j] < _SOUND:
            chance[j] = math.ldexp(best[j], int(max(best_power[j], -2000)))


# Pk-topk: the k rows likeliest to be among the best k (definition 3.1). PT-k: every row that is
# among them with at least the threshold's probability (definition 5.1), but the compact set ends at
# the first d where the probability of fewer than k rows falls *below* the threshold: with "at
# most", rows whose chance equals the threshold would be lost. ------------------------------------


@jit
def _scan_chances(
    rule: SemanticsCode, prob: Floats, slots: Ints, n: int, slack: float, chance: Floats
) -> int:
    """Fill in each row's chance up to the end of the compact set; -1 if there is none."""
    k = rule.k
    r = np.zeros(k)
    r[0] = 1.0
    best = np.zeros(k)  # the k greatest chances, descending
    under = 1.0
    for i in range(n):
        p = prob[slots[i]]
        # Each of the first k rows is among the best k whenever it exists: no digit is lost.
        chance[i] = p if i < k else p * under
        add_row(r, k, p)
        j = min(i, k - 1)
        if chance[i] > best[j]:
            while j > 0 and best[j - 1] < chance[i]:
                best[j] = best[j - 1]
                j -= 1
            best[j] = chance[i]
        if i + 1 >= k:
            under = fewer(r, k, under)
            most = under * (1.0 + slack)  # the chance of any row after this one, with the margin
            if best[k - 1] >= most if rule.kind == _PK else most < rule.threshold:
                return i + 1
    return -1


@jit
def _chances_answer(
    rule: SemanticsCode, prob: Floats, slots: Ints, n: int, found: Ints, chance: Floats
) -> int:
    """The answer's slots in its order, with their chances; returns how many."""
    chances = np.empty(n)
    end = _scan_chances(rule, prob, slots, n, 0.0, chances)
    order = np.empty(n, np.int64)
    count = 0
    for i in range(n if end < 0 else end):
        if rule.kind == _PK or chances[i] >= rule.threshold:
            order[count] = i
            count += 1
    sort_best(order[:count], np.empty(count, np.int64), chances, chances)
    if rule.kind == _PK:
        count = min(count, rule.k)
    for j in range(count):
        found[j] = slots[order[j]]
        chance[j] = chances[order[j]]
    return count


@jit
def compact_end(rule: SemanticsCode, prob: Floats, slots: Ints, n: int, slack: float) -> int:
    """How many of n rows in row order form the compact set; -1 if they admit none."""
    if n < rule.k:
        return -1  # a top-k needs k rows under any semantics
    if rule.kind == _RANKS:
        return ranks_end(prob, slots, n, rule.k, slack)
    if rule.kind == _VECTOR:
        return _scan_vectors(prob, slots, n, rule.k, slack, np.empty(rule.k, np.int64))[0]
    return _scan_chances(rule, prob, slots, n, slack, np.empty(n))


@jit
def set_end(rows: UncertainRowsState, slots: Ints, n: int) -> int:
    """How many of n slots in row order form a compact set that is kept; -1 if there is none."""
    return compact_end(rows.rule, rows.prob, slots, n, KEEP)


@jit
def answer(
    rule: SemanticsCode, prob: Floats, slots: Ints, n: int, found: Ints, chance: Floats
) -> int:
    """The answer over n rows in row order: slots in the answer's order and their chances.

    ``found`` and ``chance`` have room for max(k, n).
    """
    if rule.kind == _RANKS:
        return ranks_answer(prob, slots, n, rule.k, found, chance)
    if rule.kind == _VECTOR:
        return vector_answer(prob, slots, n, rule.k, found, chance)
    return _chances_answer(rule, prob, slots, n, found, chance)


@kernel
def prune_runs(rule: SemanticsCode, prob: Floats, offsets: Ints) -> Ints:
    """How many of each run's sorted rows to keep: its compact set; -1 if it admits none."""
    ends = np.full(len(offsets) - 1, -1)
    longest = 0
    for run in range(len(ends)):
        longest = max(longest, offsets[run + 1] - offsets[run])
    slots = np.arange(longest)
    for run in range(len(ends)):
        n = offsets[run + 1] - offsets[run]
        ends[run] = compact_end(rule, prob[offsets[run] : offsets[run + 1]], slots, n, KEEP)
    return ends


@kernel
def answer_runs(rule: SemanticsCode, prob: Floats, offsets: Ints) -> tuple[Ints, Floats, Ints]:
    """The answer of each run of sorted rows: positions, chances, offsets."""
    n_runs = len(offsets) - 1
    room = 0
    longest = 0
    for run in range(n_runs):
        n = offsets[run + 1] - offsets[run]
        longest = max(longest, n)
        room += n  # no semantics answers more rows than there are
    slots = np.arange(longest)
    found = np.empty(longest + rule.k, np.int64)
    chance = np.empty(longest + rule.k)
    positions = np.empty(room, np.int64)
    chances = np.empty(room)
    ends = np.zeros(n_runs + 1, np.int64)
    at = 0
    for run in range(n_runs):
        first = offsets[run]
        n = offsets[run + 1] - first
        count = answer(rule, prob[first : first + n], slots, n, found, chance)
        for j in range(count):
            positions[at] = first + found[j]
            chances[at] = chance[j]
            at += 1
        ends[run + 1] = at
    return positions[:at], chances[:at], ends
