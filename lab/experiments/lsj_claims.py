"""The claims of Nagendra and Candan's skyline-window-join, Figures 5 and 10 to 14."""

from __future__ import annotations

from lab.experiments.verdicts import Claim

__all__ = ["CLAIMS"]

CLAIMS = [
    Claim("layers", "Fig. 5", "a window takes 20 to 35 layers"),
    Claim("overlap", "Fig. 5", "overlaps stay high across layers (at least half of the rows)"),
    Claim("overlap-falls", "V.D, Fig. 5", "overlaps fall as layers go up"),
    Claim("naive", "VI.B, Fig. 10", "LSJ saves more than 95 % of Naive's time"),
    Claim(
        "grows", "VI.B, Fig. 10", "the gain over ISJ rises with the number of layers l", main=True
    ),
    Claim("more-layers", "VI.B, Fig. 10", "sharing all layers saves most"),
    Claim("isj", "VI.B, Fig. 10", "sharing all layers saves about 25 % of ISJ's time", main=True),
    Claim("real-isj", "VI.B", "on sensors LSJ saves 25 to 40 % of ISJ's time"),
    Claim("size-best", "VI.B, Fig. 11a", "LSJ beats Naive, ISJ and LSJ (1) at every window size"),
    Claim(
        "size-45",
        "VI.B, Fig. 11",
        "LSJ saves about 45 % of ISJ's time at 10 shifts a window",
        main=True,
    ),
    Claim("size-drop", "VI.B, Fig. 11a", "the gain over ISJ is smaller at much larger windows"),
    Claim("shift-best", "VI.B, Fig. 11b", "LSJ beats Naive, ISJ and LSJ (1) at every shift"),
    Claim("shift-drop", "VI.B, Fig. 11b", "the gain over ISJ is smaller at a very small shift"),
    Claim("correlation", "VI.C, Fig. 12", "correlated rows gain most over ISJ", main=True),
    Claim("anti-least", "VI.C, Fig. 12", "anti-correlated rows gain least over ISJ"),
    Claim("up-to-80", "VI.B", "correlated streams gain up to about 80 % over ISJ"),
    Claim("anti-one", "VI.C, Fig. 12", "anti-correlated: LSJ gains nothing over LSJ (1)"),
    Claim(
        "layers-30",
        "VI.C, Fig. 12",
        "correlated and independent: LSJ saves about 30 % of LSJ (1)'s time",
        main=True,
    ),
    Claim(
        "one-correlated",
        "VI.C, Fig. 12",
        "LSJ and LSJ (1) are faster on correlated than on anti-correlated rows",
    ),
    Claim("rate-naive", "VI.C, Fig. 13", "the gain over Naive grows with the join rate"),
    Claim(
        "rate-correlated",
        "VI.C, Fig. 13a",
        "correlated: the gain over LSJ (1) falls as the join rate grows",
    ),
    Claim(
        "rate-independent",
        "VI.C, Fig. 13b",
        "independent: the gain over LSJ (1) does not depend on the join rate",
    ),
    Claim("shift-correlated", "VI.C, Fig. 14a", "correlated: smaller shifts gain more over ISJ"),
    Claim("shift-independent", "VI.C, Fig. 14a", "independent: greater shifts gain more over ISJ"),
    Claim("volume-low", "VI.C, Fig. 14b", "at low volume sharing is not worthwhile"),
    Claim("volume", "VI.C, Fig. 14b", "more volume gains more over ISJ"),
    Claim("dimensions-naive", "VI.C, Fig. 14c", "more dimensions gain more over Naive"),
    Claim("dimensions-one", "VI.C, Fig. 14c", "more dimensions gain more over LSJ (1)"),
    Claim("gsj", "ours", "gsj is at least twice as fast as ISJ", ours=True),
    Claim("auto", "ours", "automatic lsj is not slower than isj", ours=True),
    Claim(
        "auto-40000", "ours", "automatic lsj is faster than isj at the largest volume", ours=True
    ),
]
