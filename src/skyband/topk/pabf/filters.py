"""Section 4: the filters by name, and the parameters that follow from delta."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from skyband.arrays import Array, Ints
from skyband.contract.rows import Rows
from skyband.contract.runs import expand, offsets_of
from skyband.errors import QueryError
from skyband.kernels.core.borrow import frozen
from skyband.kernels.topk import pabf_filter as kernel
from skyband.kernels.topk.select import select_runs

__all__ = ["FILTERS", "Filter", "zeta"]


FILTERS = {
    "auto": kernel.AUTO,
    "stationary": kernel.STATIONARY,
    "time": kernel.TIME,
    "none-known": kernel.NONE_KNOWN,
    "off": None,
}
_SUREST = 1 - 1e-9
"""The greatest delta used: 1 would filter out nothing. A rescan makes up for the rare misses."""


def zeta(k: int, delta: float) -> int:
    """The z for which k rows of a pane pass the last pane's z-th best with probability delta.

    Both that score and the number of rows that pass it are random, hence the 2 in
    Phi((zeta - k) / sqrt(2 zeta)) = delta; the paper's Theorem 1 considers only one of them.

    >>> zeta(100, 0.99), zeta(100, 0.5)
    (139, 100)
    """
    margin = _quantile(delta) / math.sqrt(2)
    return math.ceil((margin + math.sqrt(margin * margin + k)) ** 2)


def _quantile(delta: float) -> float:
    return max(0.0, NormalDist().inv_cdf(min(delta, _SUREST)))


class Filter:
    """What a filter has learned about each group. These are hints: no answer depends on them."""

    def __init__(self, name: object, k: int, delta: float) -> None:
        if not isinstance(name, str) or name not in FILTERS:
            raise QueryError(f"option 'filter' must be one of {', '.join(FILTERS)}, not {name!r}")
        self.kind = FILTERS[name]
        self.k = k
        self.zeta = zeta(k, delta)
        self.quantile = _quantile(delta)
        self.learned = kernel.new_learned(1)
        self.counts = np.zeros(8, np.int64)

    def select(self, rows: Rows, score: Array, tie: Ints, largest: bool) -> tuple[Ints, Ints]:
        """The best k rows of every run, in the form that ``select_runs`` returns."""
        if self.kind is None:
            return select_runs(score, tie, rows.offsets, self.k, largest)
        groups = int(rows.group.max(initial=0)) + 1
        if groups > len(self.learned):
            more = kernel.new_learned(max(groups, 2 * len(self.learned)) - len(self.learned))
            self.learned = np.concatenate([self.learned, more])
        latest = not len(tie) and score.dtype.kind == "f"  # integers may be equal only as floats
        # The kernel computes with floats; it is compiled for one width of integers.
        narrow = score.dtype.kind in "iu" and score.dtype.itemsize < 8
        score = frozen(score.astype(np.int64) if narrow else score)
        found, offsets = kernel.filter_runs(
            score, 1.0 if largest else -1.0, rows.offsets, rows.pane, rows.group, self.k, latest,
            self.kind, self.zeta, self.quantile, self.learned, self.counts,
        )  # fmt: skip
        return self._untied(found, offsets, score, tie, largest)

    def _untied(
        self, found: Ints, offsets: Ints, score: Array, tie: Ints, largest: bool
    ) -> tuple[Ints, Ints]:
        """If several rows of a run have the k-th best score, keep only the latest of them."""
        lengths = np.diff(offsets)
        long = np.flatnonzero(lengths > self.k)
        if not len(long):
            return found, offsets
        inside = found[expand(offsets[long], lengths[long])]
        ties = tie[inside] if len(tie) else tie
        kept, ends = select_runs(score[inside], ties, offsets_of(lengths[long]), self.k, largest)
        chosen = np.ones(len(found), np.bool_)
        chosen[expand(offsets[long], lengths[long])] = False
        chosen[np.searchsorted(found, inside[kept])] = True
        lengths[long] = np.diff(ends)
        return found[chosen], offsets_of(lengths)

    def tallies(self) -> dict[str, Ints]:
        """Operation counts by name, each a view of one number."""
        names = ("panes", "rescans", "relearned", "survivors", "unfiltered")
        found = {f"filter_{n}": self.counts[i : i + 1] for i, n in enumerate(names)}
        used = enumerate(("stationary", "time", "sample"), start=kernel.BY_STATIONARY)
        return found | {f"filter_by_{n}": self.counts[i : i + 1] for i, n in used}
