"""What the PABF paper prints: Tables 2 and 3, and every claim that can be measured."""

from __future__ import annotations

from collections.abc import Sequence

from lab.experiments.verdicts import claims

__all__ = ["CLAIMS", "DELTAS", "EPSILONS", "PAPER", "PAPER_DELTA", "Printed"]

EPSILONS = (0.0001, 0.0005, 0.001, 0.005, 0.01)
DELTAS = (0.9999, 0.999, 0.99, 0.95, 0.9)
Printed = tuple[Sequence[float], Sequence[float], Sequence[float]]

# Tables 2 and 3 as printed, by epsilon: seconds, deviation in % of the range, accuracy in %.
PAPER: dict[str, Printed] = {
    "STOCK": ((36.64, 32.38, 29.11, 27.13, 26.82), (0.003, 0.021, 0.030, 0.24, 0.46),
              (86.3, 64.5, 53.3, 48.6, 45.1)),
    "TIME^U": ((32.7, 30.8, 28.9, 25.1, 22.3), (0.0028, 0.0097, 0.033, 0.13, 0.43),
               (86.0, 64.0, 59.0, 53.0, 49.0)),
    "TIME^R": ((52.7, 43.1, 38.1, 31.6, 27.8), (0.005, 0.023, 0.034, 0.12, 0.33),
               (82.1, 73.0, 71.9, 65.8, 60.3)),
    "SKEW-I(a)": ((31.5, 28.8, 26.9, 23.2, 21.3), (0.0039, 0.022, 0.032, 0.26, 0.35),
                  (82.3, 65.5, 63.7, 52.6, 44.3)),
    "SKEW-I(b)": ((30.1, 28.1, 27.4, 25.3, 24.7), (0.0037, 0.002, 0.029, 0.3, 0.34),
                  (80.9, 69.1, 64.5, 50.7, 40.6)),
    "SKEW-I(c)": ((29.8, 26.8, 25.4, 24.3, 22.8), (0.0035, 0.0017, 0.027, 0.27, 0.32),
                  (78.6, 60.1, 59.2, 48.5, 39.4)),
    "SKEW-I(d)": ((27.7, 25.1, 23.1, 21.8, 20.5), (0.0033, 0.016, 0.025, 0.25, 0.31),
                  (76.1, 60.6, 57.0, 52.9, 38.8)),
    "SKEW-II(a)": ((29.7, 27.8, 26.9, 25.1, 24.3), (0.004, 0.019, 0.028, 0.12, 0.26),
                   (81.9, 74.3, 62.0, 51.4, 38.8)),
    "SKEW-II(b)": ((31.2, 30.3, 29.4, 28.7, 27.8), (0.004, 0.021, 0.029, 0.14, 0.27),
                   (80.2, 72.1, 59.3, 46.9, 36.2)),
    "SKEW-II(c)": ((34.2, 33.7, 32.1, 30.5, 28.6), (0.005, 0.022, 0.029, 0.15, 0.28),
                   (78.1, 65.6, 54.0, 44.1, 34.8)),
    "SKEW-II(d)": ((36.5, 34.5, 33.4, 32.1, 31.9), (0.005, 0.023, 0.03, 0.16, 0.29),
                   (76.3, 63.2, 51.4, 42.8, 33.5)),
}  # fmt: skip

# The same by delta.
PAPER_DELTA: dict[str, Printed] = {
    "STOCK": ((30.64, 29.68, 29.11, 28.84, 28.12), (0.027, 0.028, 0.029, 0.03, 0.033),
              (66.0, 64.5, 63.9, 63.1, 61.3)),
    "TIME^U": ((27.6, 28.5, 28.9, 30.6, 31.3), (0.037, 0.035, 0.033, 0.032, 0.031),
               (65.9, 64.0, 63.2, 62.3, 61.7)),
    "TIME^R": ((40.4, 38.6, 38.1, 37.4, 36.8), (0.03, 0.031, 0.033, 0.034, 0.036),
               (75.5, 73.0, 72.4, 70.1, 69.2)),
    "SKEW-I(a)": ((28.8, 27.6, 26.9, 25.7, 23.8), (0.03, 0.031, 0.032, 0.033, 0.034),
                  (65.9, 65.6, 63.7, 62.9, 61.4)),
    "SKEW-I(b)": ((28.2, 27.9, 27.4, 27.0, 26.6), (0.027, 0.028, 0.029, 0.031, 0.032),
                  (66.2, 65.6, 64.5, 62.9, 62.1)),
    "SKEW-I(c)": ((26.4, 24.8, 25.4, 26.1, 25.1), (0.025, 0.026, 0.027, 0.028, 0.029),
                  (65.2, 62.6, 59.2, 58.9, 57.1)),
    "SKEW-I(d)": ((23.8, 23.4, 23.1, 22.9, 22.6), (0.023, 0.024, 0.025, 0.026, 0.027),
                  (60.5, 58.6, 57.0, 55.4, 55.1)),
    "SKEW-II(a)": ((28.4, 27.6, 26.9, 26.4, 25.8), (0.026, 0.027, 0.028, 0.028, 0.029),
                   (63.9, 63.6, 62.0, 61.4, 60.1)),
    "SKEW-II(b)": ((30.1, 29.8, 29.4, 28.6, 28.4), (0.027, 0.028, 0.029, 0.029, 0.03),
                   (61.1, 60.7, 59.3, 58.4, 57.1)),
    "SKEW-II(c)": ((35.3, 33.4, 32.1, 31.5, 30.6), (0.028, 0.028, 0.029, 0.029, 0.029),
                   (57.5, 55.6, 54.0, 51.4, 50.1)),
    "SKEW-II(d)": ((34.2, 33.8, 33.4, 33.1, 32.7), (0.029, 0.029, 0.03, 0.03, 0.031),
                   (52.5, 51.6, 51.4, 50.1, 49.7)),
}  # fmt: skip

CLAIMS = claims("""
    promise! | definition 1, Theorem 4 | a rank's score is off by at most epsilon with probability
        delta
    nodes | 3, 5.4 | the candidates are bounded by R / epsilon
    logarithmic | abstract, formula (4) | even in the worst case a candidate is merged only e ln(R /
        (epsilon k)) times
    pruned-stationary | 4.2.1, 7.2 | scores unrelated to time: most of the s - k rows that no window
        shows are pruned
    pruned-time | 4.2.2, 7.2 | the same for scores that follow a curve
    pruned-unknown | 4.2.3, 7.2 | the same if nothing is known of the scores
    false-pruning | Theorems 1 to 3 | too much is pruned with probability 1 - delta
    time-epsilon | 7.1, Tables 2, 3 | time falls as epsilon grows
    time-large-epsilon | 7.1, Tables 2, 3 | time is not drastically changed by the greatest epsilons
    time-delta | 7.1, Tables 2, 3 | delta does not heavily impact the time
    deviation-epsilon | 7.1, Tables 2, 3 | deviation grows with epsilon
    deviation-small | 7.1, Tables 2, 3 | deviation is much smaller than epsilon
    deviation-delta | 7.1, Tables 2, 3 | delta does not change the deviation a lot
    accuracy-epsilon | 7.1, Tables 2, 3 | accuracy falls as epsilon grows
    accuracy-delta | 7.1, Tables 2, 3 | delta has no significant impact on accuracy
    tables-time | Tables 2, 3 | the printed times, relative to those at epsilon = 0.1 % and delta =
        0.99
    tables-deviation | Tables 2, 3 | the printed deviations
    tables-accuracy | Tables 2, 3 | the printed accuracies
    skew1-time | 7.1, Table 3 | SKEW-I: more skew does not impact the time too much
    skew1-deviation | 7.1, Table 3 | SKEW-I: more skew does not impact the deviation too much
    skew1-accuracy | 7.1, Table 3 | SKEW-I: more skew slowly decreases the accuracy
    skew2-table | 7.1, Table 3 | SKEW-II: PABF's time is stable
    stock-fastest | 7.2, Fig. 9a, c, e | STOCK: PABF is the fastest of the three
    stock-mintopk! | 7.2, Fig. 9a | STOCK: PABF takes on average 40 % of MinTopK's time under
        various N
    stock-sma! | 7.2, Fig. 9a | STOCK: PABF takes on average 20 % of SMA's time under various N
    stock-memory! | 7.2, Fig. 9b, d, f | STOCK: MinTopK keeps 1.6 times as much as PABF
    time-fastest | 7.2, Figs. 10, 11 | TIME^U, TIME^R: PABF is the fastest of the three
    time-significant | 7.2, Figs. 10, 11 | and that with significant advantage
    time-memory | 7.2, Figs. 10, 11 | TIME^U, TIME^R: PABF keeps less than MinTopK
    time-memory-much | 7.2, Figs. 10, 11 | and that with significant advantage, too
    sma-period | 7.2, Fig. 11 | windows shorter than the period: SMA takes long, because it rescans
        incessantly
    pabf-period | 7.2, Fig. 11 | in these windows PABF is as fast as elsewhere
    skew1-sma | 7.2, Fig. 12 | SKEW-I: SMA's time exceeds PABF's by more, the more skew there is
    skew2-pabf | 7.2, Fig. 12 | SKEW-II: PABF's time remains stable
    skew2-sma | 7.2, Fig. 12 | SKEW-II: SMA's time increases dramatically
    skew2-mintopk | 7.2, Fig. 12 | SKEW-II: MinTopK's time increases dramatically
    skew2-kept | 7.2, Fig. 12 | SKEW-II: if scores fall, MinTopK has to maintain many candidates
    over-skyband | ours | PABF takes less time than our exact default
    less-than-skyband | ours | PABF keeps less than our exact default
""")
"""Fig. 12 is a plot without numbers, so its claims are those of the text."""
