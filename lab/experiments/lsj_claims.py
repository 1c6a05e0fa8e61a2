"""The claims of Nagendra and Candan's skyline-window-join, Figures 5 and 10 to 14."""

from __future__ import annotations

from lab.experiments.verdicts import claims

__all__ = ["CLAIMS"]

CLAIMS = claims("""
    layers | Fig. 5 | a window takes 20 to 35 layers
    overlap | Fig. 5 | overlaps stay high across layers (at least half of the rows)
    overlap-falls | V.D, Fig. 5 | overlaps fall as layers go up
    naive | VI.B, Fig. 10 | LSJ saves more than 95 % of Naive's time
    grows! | VI.B, Fig. 10 | the gain over ISJ rises with the number of layers l
    more-layers | VI.B, Fig. 10 | sharing all layers saves most
    isj! | VI.B, Fig. 10 | sharing all layers saves about 25 % of ISJ's time
    real-isj | VI.B | on sensors LSJ saves 25 to 40 % of ISJ's time
    size-best | VI.B, Fig. 11a | LSJ beats Naive, ISJ and LSJ (1) at every window size
    size-45! | VI.B, Fig. 11 | LSJ saves about 45 % of ISJ's time at 10 shifts a window
    size-drop | VI.B, Fig. 11a | the gain over ISJ is smaller at much larger windows
    shift-best | VI.B, Fig. 11b | LSJ beats Naive, ISJ and LSJ (1) at every shift
    shift-drop | VI.B, Fig. 11b | the gain over ISJ is smaller at a very small shift
    correlation! | VI.C, Fig. 12 | correlated rows gain most over ISJ
    anti-least | VI.C, Fig. 12 | anti-correlated rows gain least over ISJ
    up-to-80 | VI.B | correlated streams gain up to about 80 % over ISJ
    anti-one | VI.C, Fig. 12 | anti-correlated: LSJ gains nothing over LSJ (1)
    layers-30! | VI.C, Fig. 12 | correlated and independent: LSJ saves about 30 % of LSJ (1)'s time
    one-correlated | VI.C, Fig. 12 | LSJ and LSJ (1) are faster on correlated than on
        anti-correlated rows
    rate-naive | VI.C, Fig. 13 | the gain over Naive grows with the join rate
    rate-correlated | VI.C, Fig. 13a | correlated: the gain over LSJ (1) falls as the join rate
        grows
    rate-independent | VI.C, Fig. 13b | independent: the gain over LSJ (1) does not depend on the
        join rate
    shift-correlated | VI.C, Fig. 14a | correlated: smaller shifts gain more over ISJ
    shift-independent | VI.C, Fig. 14a | independent: greater shifts gain more over ISJ
    volume-low | VI.C, Fig. 14b | at low volume sharing is not worthwhile
    volume | VI.C, Fig. 14b | more volume gains more over ISJ
    dimensions-naive | VI.C, Fig. 14c | more dimensions gain more over Naive
    dimensions-one | VI.C, Fig. 14c | more dimensions gain more over LSJ (1)
    gsj | ours | gsj is at least twice as fast as ISJ
    auto | ours | automatic lsj is not slower than isj
    auto-40000 | ours | automatic lsj is faster than isj at the largest volume
""")
