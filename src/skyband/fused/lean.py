"""Reports that no answer can show travel without their value.

    pane 10:04, k = 1, sum of two streams within [0, 1]

    object   r1    r2    at least   at most
    a        0.9   0.8   1.7                    ─► one object has 1.7 in every window
    b        0.6   –                1.6         ─► b cannot be shown: its value becomes 0
    c        –     0.8              1.8         ─► c may, if r1 reports 0.9 or more elsewhere

The reports themselves stay, because one too many of them is a bad row.

**Lemma.** Let every object have at most one live report per stream, and let T be the k-th best of
the least scores that the reports of one pane and partition guarantee. Reports of that pane and
partition whose object can score less than T at most may have any smaller value: no answer changes.
*Proof.* Take a window, and the greatest T of the panes and partitions in it. Its k objects score at
least T in that window. A report is changed only if its object scores less than some T' <= T. So no
object that scores T or more is changed, and k such objects are there; the others rank after them,
before and after the change. ∎

A report that is refused as a bad row later might be one of those that guarantee T. So this holds
only where the first bad row ends the query.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Codes, Floats, Hashes
from skyband.contract.runs import Part
from skyband.fused.scores import Scorer

__all__ = ["lean_values"]

_LONG = 2_048
"""Runs with fewer reports are left as they are: there is little to gain."""
_SHARE = 20
"""Objects are sought among this part of the reports of a stream, those with the best values."""
_STEPS = 30
_ROUNDING = 1e-9


def lean_values(part: Part, low: Floats, high: Floats, score: Scorer, k: int) -> Floats | None:
    """The values of reports, those that no answer needs at their lower bound; None if none is."""
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    value: Floats | None = None
    for run in np.flatnonzero(part.lengths >= _LONG).tolist():
        own = slice(int(part.offsets[run]), int(part.offsets[run + 1]))
        stream, values = part["stream"][own], part["value"][own]
        sure = _guaranteed(part["hash"][own], stream, values, low, score, k)
        if sure is None:
            continue
        cut = _needed(sure, low, high, score)
        idle = values < cut[stream]
        if idle.any():
            value = part["value"].copy() if value is None else value
            value[own][idle] = low[stream[idle]]
    return value


def _guaranteed(
    hashes: Hashes, stream: Codes, value: Floats, low: Floats, score: Scorer, k: int
) -> float | None:
    """The k-th best of the least scores that some reports guarantee; None if there are fewer."""
    found = []
    for number in range(len(low)):
        rows = np.flatnonzero(stream == number)
        most = max(8 * k, len(rows) // _SHARE)
        if len(rows) > most:
            rows = rows[np.argpartition(value[rows], -most)[-most:]]
        found.append(rows)
    best = np.concatenate(found)
    objects, place = np.unique(hashes[best], return_inverse=True)
    if len(objects) < k:
        return None
    seen = np.tile(low, (len(objects), 1))
    seen[place, stream[best]] = value[best]
    sure = float(np.partition(score(seen), -k)[-k])
    return sure - _ROUNDING * abs(sure)


def _needed(sure: float, low: Floats, high: Floats, score: Scorer) -> Floats:
    """By stream, a value below which an object scores less than ``sure`` whatever else it has."""
    most = np.tile(high, (len(low), 1))
    own = np.diag_indices(len(low))
    most[own] = low
    never = score(most) >= sure
    below, above = low.copy(), high.copy()
    for _ in range(_STEPS):
        middle = (below + above) / 2
        most[own] = middle
        less = score(most) < sure
        below, above = np.where(less, middle, below), np.where(less, above, middle)
    return np.where(never, -np.inf, below)
