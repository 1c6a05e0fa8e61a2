"""What the paper on uncertain streams claims, and the bounds of its Table 2."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from lab.experiments.uncertain_runs import Point
from lab.experiments.verdicts import Claim, claims

__all__ = ["CLAIMS", "FIGURES", "RADAR_ANSWERS", "TABLE_2"]

FIGURES = {
    ("synthetic", "pk-topk"): "Figures 4 and 5",
    ("icebergs", "pk-topk"): "Figures 6 and 7",
    ("icebergs", "pt-k"): "Figure 8",
    ("icebergs", "u-kranks"): "Figure 9",
    ("icebergs", "u-topk"): "Figure 10",
}
RADAR_ANSWERS = {"pk-topk": {5, 6}, "pt-k": {5, 6, 8}, "u-kranks": {8, 5}, "u-topk": {6, 5}}
"""The answers of section 1 to its Table 1, for k = 2 and a threshold of 0.3."""

# Table 2: the bounds on a synopsis' space and time; a sum grows like its fastest term.
Term = Callable[[Point], float]
_ARRAY: Term = lambda at: at.k * at.largest  # noqa: E731
_LOG: Term = lambda at: math.log2(at.size)  # noqa: E731
_LISTS: Term = lambda at: at.largest * math.log2(at.size)  # noqa: E731
_REBUILT: Term = lambda at: at.k * at.largest**2 / at.size  # noqa: E731
_CUBIC: Term = lambda at: at.k * at.largest**2  # noqa: E731
TABLE_2: dict[str, tuple[str, Sequence[Term], str, Sequence[Term]]] = {
    "BS": ("W + kH", (lambda at: at.size, _ARRAY), "kH²/W + log W", (_REBUILT, _LOG)),
    "CSQ": ("H² log W", (lambda at: at.largest**2 * math.log2(at.size),), "kH²", (_CUBIC,)),
    "CCSQ": ("H(k + log W)", (_ARRAY, _LISTS), "kH²", (_CUBIC,)),
    "SCSQ": ("H(k + log W)", (_ARRAY, _LISTS), "kH log W", (lambda at: at.k * _LISTS(at),)),
    "SCSQ-Buffer": ("H(k + log W)", (_ARRAY, _LISTS), "kH²/W + log W", (_REBUILT, _LOG)),
}

CLAIMS = [
    *claims("""
    radar | 1, Table 1 | the answers of the four semantics to the radar readings
    sufficient! | Theorems 3.1, 3.2, 5.1 to 5.3 | compact sets suffice: all synopses answer as if
        all rows were kept
    worst-case | 4 | falling scores and probabilities: every synopsis has to keep the whole window
    sets | Lemma 4.2 | CSQ has O(H log W) distinct compact sets: H + H ln(W / H)
    updates | Lemma 4.2 | O(H) of them are updated per row: 2 H
    segments | Lemma 4.4 | SCSQ has O(log W) compact sets: 8 log2 W by its proof
    """),
    *(
        Claim(f"{what}-{label}", "Table 2", f"{label}: {what} O({bound})")
        for label, (space, _, time, _) in TABLE_2.items()
        for what, bound in (("space", space), ("time", time))
    ),
    *claims("""
    small! | 6, Fig. 3 | the compact set is quite small: at most 1 % of the data
    linear | 6, Fig. 3 | and its size basically linear in k (as k to the power of 1)
    bs-k | 6, Figs. 4, 6, 8 to 10 | BS: space irrespective of k
    bs-largest | 6, Figs. 4, 6, 8 to 10 | BS takes most space
    csq-smaller | 6, Figs. 4, 6, 8 to 10 | CSQ takes considerably less than BS, except in very small
        windows
    comparable | 6, Figs. 4, 6, 8 to 10 | CCSQ, SCSQ and SCSQ-Buffer take comparable space
    smaller! | 6, Figs. 4, 6, 8 to 10 | and significantly less than BS and CSQ
    orders! | 6, Figs. 4, 6, 8 to 10 | they take 2 to 3 orders of magnitude less than BS in large
        windows
    slowest | 6, Figs. 5, 7 to 10 | CSQ and CCSQ are the slowest
    cubic | 6, Fig. 5 | their time depends on k to the power of 3
    quadratic | 6, Fig. 5 | that of SCSQ on k to the power of 2
    middle | 6, Figs. 5, 7 to 10 | SCSQ is slower than BS and SCSQ-Buffer
    fastest! | 6, Figs. 5, 7 to 10 | SCSQ-Buffer is even faster than BS
    larger-window | 6, Figs. 5b, 7b, 8d, 9d, 10d | time per row remains the same or decreases as the
        window grows
    real | 6, Figs. 6, 7 | real data: very similar results
    semantics | 6, Figs. 8 to 10 | the other semantics: very similar behaviour
    best-bounds | 4.4, Table 2 | SCSQ-Buffer has both the least space and the least time
    """),
]
