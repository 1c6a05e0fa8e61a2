"""Approximate EAA: best scores that are likely, given how the streams correlate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from skyband.arrays import Codes, Floats, Ints, Mask
from skyband.contract.checks import integer_option
from skyband.contract.runs import Runs
from skyband.data.flat_state import Form, Forms
from skyband.errors import QueryError
from skyband.fused.base import REPORTS
from skyband.fused.eaa import Eaa
from skyband.fused.kernels.sweep import live_streams
from skyband.fused.sketches import LEVELS, Appearances, bitmaps_for, levels_for
from skyband.query.checks import number
from skyband.query.fused import FusedTopK
from skyband.window import CountWindow

_BITMAPS = 64
"""At most 12 kB per stream. More bitmaps estimate better and take more memory."""


class EaaApprox(Eaa):
    """EAA that expects from a silent stream only what its correlation with the others suggests.

    If an object has no report in stream y, its best score counts ``low + P (high - low)`` instead
    of ``high``. P is estimated: of the objects that the object's other live streams have in
    common, the share that also occurs in y. The cost is that of EAA plus O(1) per report for the
    sketches, and fewer reports are kept.

    Scores are never too high. The bound ``missed`` of an answer is certain: no object left out of
    it has a true score above both ``missed`` and the last score shown, and no object shown has a
    true score above both ``missed`` and its shown score. ``exact`` is true if the last score shown
    is above ``missed``.

    Section 4 of the paper. We depart from it in three points: reports are dropped during a sweep,
    never at each arrival; all cardinalities are estimated with the same sketches, whose errors
    then partly cancel; and P is conditioned on at most six streams. Options: ``bitmaps`` (64,
    fewer over a small count window) and ``sketch`` ("fm" or "hll"); ``caution`` (1, as in the
    paper) multiplies P: with 0.5 a missing report is expected to be an average one, and a third
    less is kept; ``slack`` and ``kmax`` as in EAA.

    >>> import pyarrow as pa, skyband as sb
    >>> reports = pa.table({"car": ["a", "b", "a"], "cam": ["n", "n", "s"], "v": [0.5, 0.7, 0.4]})
    >>> names = {"id": "car", "stream": "cam", "value": "v", "streams": ("n", "s")}
    >>> query = sb.FusedTopK(k=1, **names, window=sb.CountWindow(3), algorithm="eaa-approx")
    >>> sb.rank(reports, query).select(["car", "score"]).to_pylist()
    [{'car': 'a', 'score': 0.9}]
    """

    exact = False
    saved_arrays = (*Eaa.saved_arrays, "lost_pane", "lost_best")
    saved_forms: ClassVar[Forms] = {
        **Eaa.saved_forms,
        "lost_pane": Form("lost", ascends=True),
        "lost_best": Form("lost"),
    }

    def __init__(self, query: FusedTopK) -> None:
        super().__init__(query)
        if len(query.streams) > 62:
            raise QueryError(f"eaa-approx takes at most 62 streams, not {len(query.streams)}")
        estimator = query.options.get("sketch", "fm")
        if estimator not in ("fm", "hll"):
            raise QueryError(f"option 'sketch' must be 'fm' or 'hll', not {estimator!r}")
        # A count window tells how many objects there may be, so small ones get smaller sketches.
        size = query.window.size if isinstance(query.window, CountWindow) else None
        usual = _BITMAPS if size is None else bitmaps_for(size, _BITMAPS)
        bitmaps = integer_option(query.options, "bitmaps", usual, 16)
        levels = LEVELS if size is None else levels_for(size, bitmaps)
        self.sketch = Appearances(len(query.streams), bitmaps, estimator, levels)
        self.sketches = {**self.sketches, "sketch/": self.sketch}
        self.caution = query.options.get("caution", 1.0)
        number("option 'caution'", self.caution, 0.0, 1.0)
        self.lost_pane = np.zeros(0, np.int64)
        """Panes that lost an instance which might have been in an answer, ascending."""
        self.lost_best = np.zeros(0)
        """The best score that any such instance of this pane or a newer one could reach."""

    def _best(self, who: Codes, values: Floats, seen: Codes) -> Floats:
        """The greatest values that instances are likely to reach."""
        masks = live_streams(who, self.links, self.log.chain, self.log.columns[1])
        masks, place = np.unique(masks, return_inverse=True)
        share = self.caution * self.sketch.conditionals(masks, self.first)
        return self._within(who, values, seen, share[place])

    def _leave(
        self, who: Codes, panes: Ints, offsets: Ints, values: Floats, seen: Codes, lost: Mask
    ) -> None:
        """Remember how good the instances to be dropped could have become."""
        if not lost.any():
            return
        if self.self_join is None:
            best = self.score(super()._best(who, values, seen))
        else:
            best = np.full(len(who), np.inf)  # how often they would have reported is unknown
        best[~lost] = -np.inf
        best = np.maximum.reduceat(best, offsets[:-1])
        some = best > -np.inf
        self._remember(panes[some], best[some])

    def _left_of(self, pane: Ints) -> Floats:
        return self._worst(pane)

    def _recall(self, panes: Runs, rows: Ints) -> None:
        super()._recall(panes, rows)
        part = panes.parts[REPORTS]
        pane, best = np.repeat(panes.stamp, part.lengths)[rows], part["value"][rows]
        self._remember(pane[best > -np.inf], best[best > -np.inf])

    def _remember(self, pane: Ints, best: Floats) -> None:
        live = self.lost_pane >= self.first
        pane = np.append(self.lost_pane[live], pane)
        best = np.append(self.lost_best[live], best)
        order = np.argsort(pane, kind="stable")
        pane, best = pane[order], best[order]
        best = np.maximum.accumulate(best[::-1])[::-1]
        # The first entry of each pane holds the best score of that pane and all newer ones.
        fresh = np.append(True, pane[1:] > pane[:-1])
        self.lost_pane, self.lost_best = pane[fresh], best[fresh].copy()

    def _worst(self, first: Ints) -> Floats:
        """What windows may have missed: the best score that a dropped instance could reach."""
        padded = np.append(self.lost_best, -np.inf)
        found: Floats = padded[np.searchsorted(self.lost_pane, first)]
        return found

    def _read(self, first: Ints, answers: Runs, answered: Ints) -> Runs:
        answers = super()._read(first, answers, answered)
        return answers.with_scalars(**{"bound:missed": self._worst(answered)})

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        runs = super().partial(first, end, group)
        return runs.with_scalars(**{"bound:missed": self._worst(np.full(len(runs), first))})

    def finish(self, partials: Sequence[Runs]) -> Runs:
        runs = super().finish(partials)
        if not len(runs):
            return runs
        part, missed = runs.parts["rows"], runs.scalars["bound:missed"]
        last = part["score"][part.offsets[1:] - 1]
        full = part.lengths == self.query.k
        return runs.with_scalars(exact=(missed == -np.inf) | (full & (last > missed)))

    def stats(self) -> dict[str, int | float]:
        return super().stats() | {"sketch_bytes": self.sketch.nbytes}

    def _check(self) -> None:
        super()._check()
        assert (np.diff(self.lost_pane) > 0).all()
        assert (np.diff(self.lost_best) <= 0).all()
