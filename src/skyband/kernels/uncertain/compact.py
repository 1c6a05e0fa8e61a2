"""Compact sets under any semantics: where one ends, and the answer that is read from it.

Each semantics is a file with two functions, and only this file names them. The rest of this folder
uses rules and knows no semantics.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Floats, Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import kernel
from skyband.kernels.uncertain.pk import pk_answer, pk_end
from skyband.kernels.uncertain.pt import pt_answer, pt_end
from skyband.kernels.uncertain.ranks import ranks_answer, ranks_end
from skyband.kernels.uncertain.types import KEEP, Rule
from skyband.kernels.uncertain.vector import vector_answer, vector_end

KINDS = ("pk-topk", "pt-k", "u-kranks", "u-topk")
_PK, _PT, _RANKS = 0, 1, 2


@jit
def compact_end(rule: Rule, prob: Floats, slots: Ints, n: int, slack: float) -> int:
    """How many of n rows in row order form the compact set; -1 if they admit none."""
    if rule.kind == _PK:
        return pk_end(prob, slots, n, rule.k, slack)
    if rule.kind == _PT:
        return pt_end(prob, slots, n, rule.k, rule.threshold, slack)
    if rule.kind == _RANKS:
        return ranks_end(prob, slots, n, rule.k, slack)
    return vector_end(prob, slots, n, rule.k, slack)


@jit
def answer(rule: Rule, prob: Floats, slots: Ints, n: int, found: Ints, chance: Floats) -> int:
    """The answer over n rows in row order: slots in the answer's order and their chances.

    ``found`` and ``chance`` have room for max(k, n).
    """
    if rule.kind == _PK:
        return pk_answer(prob, slots, n, rule.k, found, chance)
    if rule.kind == _PT:
        return pt_answer(prob, slots, n, rule.k, rule.threshold, found, chance)
    if rule.kind == _RANKS:
        return ranks_answer(prob, slots, n, rule.k, found, chance)
    return vector_answer(prob, slots, n, rule.k, found, chance)


@kernel
def prune_runs(rule: Rule, prob: Floats, offsets: Ints) -> Ints:
    """How many of each run's sorted rows to keep: its compact set; -1 if it admits none."""
    ends = np.full(len(offsets) - 1, -1)
    longest = 0
    for run in range(len(ends)):
        longest = max(longest, offsets[run + 1] - offsets[run])
    slots = np.arange(longest)
    for run in range(len(ends)):
        n = offsets[run + 1] - offsets[run]
        if n < rule.k:
            continue  # a top-k needs k rows under any semantics
        ends[run] = compact_end(rule, prob[offsets[run] : offsets[run + 1]], slots, n, KEEP)
    return ends


@kernel
def answer_runs(rule: Rule, prob: Floats, offsets: Ints) -> tuple[Ints, Floats, Ints]:
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
