"""What the FSW paper prints, and the parameters of its experiments."""

from __future__ import annotations

from typing import Any

from lab.experiments.verdicts import claims

# Tables 1, 2, 4 and 5 as printed: precision, its deviation, μ, counters, inserts, removals, hits
# and updates, bucket updates, in the order of the algorithms.
PAPER: dict[str, dict[str, tuple[Any, ...]]] = {
    "week": {
        "ss": (92.8, 1.5, 15.81, 52_500, 3_809_897, 3_374_897, 6_245_284, None),
        "fss": (97.1, 0.8, 13.55, 52_500, 2_228_267, 2_010_767, 5_140_202, None),
        "fsp": (96.8, 1.1, None, "56,000 to 67,500", 1_104_979, 874_294, 2_065_535, None),
        "fsw": (92.8, 1.4, 15, 43_750, 194_470, 193_220, 991_980, 333_159),
        "fsw-r": (96.8, 1.2, 13, 55_000, 158_377, 157_127, 1_000_951, 280_504),
    },
    "month": {
        "ss": (94.4, 0.9, 73.41, 225_000, 13_619_455, 13_241_955, 23_934_302, None),
        "fss": (98.7, 0.5, 55.01, 225_000, 4_598_213, 4_409_463, 19_771_780, None),
        "fsp": (97.5, 0.5, None, "198,000 to 285,500", 990_202, 754_888, 2_323_366, None),
        "fsw": (90.4, 1.4, 71, 158_750, 102_120, 100_870, 982_196, 237_388),
        "fsw-r": (97.6, 0.9, 57, 215_000, 62_576, 61_326, 994_295, 172_715),
    },
    "day": {
        "ss": (78.0, 9.2, 1.74, 576_000, 96_050_191, 89_522_191, 51_205_610, None),
        "fss": (90.2, 4.3, 1.17, 576_000, 59_779_547, 56_515_547, 39_967_243, None),
        "fsp": (96.3, 2.6, None, "460,000 to 672,000", 7_928_158, 5_331_534, 6_006_718, None),
        "fsw-r": (85.8, 6.3, 4, 412_000, 2_208_715, 2_120_715, 8_656_562, 8_436_011),
        "fsw-f": (99.1, 1.3, 1, 496_000, 462_695, 455_778, 8_365_987, 4_842_797),
    },
    "3 days": {
        "ss": (74.1, 6.1, 1.29, 432_000, 67_916_042, 66_380_042, 36_654_727, None),
        "fss": (90.8, 2.0, 0.78, 432_000, 34_278_985, 33_510_985, 28_110_337, None),
        "fsp": (96.6, 1.1, None, "396,000 to 528,000", 5_800_014, 4_914_817, 5_481_997, None),
        "fsw-r": (93.4, 1.5, 18, 400_000, 1_282_823, 1_274_735, 3_524_475, 2_798_116),
        "fsw-f": (99.1, 0.6, 7, 412_500, 481_935, 473_935, 3_588_049, 1_734_535),
    },
}
STAYS = {  # Table 3: FSW and FSWr over 7 days, over 30 days
    "week": {"fsw": (65.5, 18.9, 6.8, 8.8), "fsw-r": (66.8, 16.3, 6.2, 10.6)},
    "month": {"fsw": (58.7, 19.8, 7.5, 14.0), "fsw-r": (58.3, 16.1, 7.2, 18.4)},
}


def words(r: int) -> dict[str, dict[str, int]]:
    """Parameters of the experiments on words."""
    return {
        "ss": {"capacity": 2500},
        "fss": {"capacity": 1250, "cells": 3750},
        "fsp": {"capacity": 1250, "cells": 3750 * r},
        "fsw": {"capacity": 1250, "cells": 3750},
        "fsw-r": {"capacity": 1250, "cells": 3750, "ratio": r},
    }


DESTINATIONS: dict[str, dict[str, int]] = {
    "ss": {"capacity": 8000},
    "fss": {"capacity": 4000, "cells": 12_000},
    "fsp": {"capacity": 4000, "cells": 96_000},
    "fsw-r": {"capacity": 8000, "cells": 12_000, "ratio": 8},
    "fsw-f": {"capacity": 8000, "cells": 12_000, "ratio": 8, "filter_bits": 200_000},
}

CLAIMS = claims("""
    fss-ss | Tables 1, 2, 4, 5 | p × FSS is at least as precise as p × SS
    words-fss | 9, Tables 1, 2 | On words, p × FSS is better than any other
    words-fswr! | 9, Tables 1, 2 | On words, FSWr follows very near p × FSS
    words-fsp | 9, Tables 1, 2 | On words, FSP follows very near p × FSS
    fswr-fsw | 9, Tables 1, 2 | FSWr is more precise than FSW
    month-fsw | 9, Table 2 | From week to month FSW loses more precision than any other
    month-stable | 9, Table 2 | Over a month FSW is the least stable of all
    calm | 9, Fig. 8 | On the log, precision rises when there are fewer rows (the paper: at
        weekends)
    log-fsp | 9, Tables 4, 5 | On the log, FSP is more precise than p × FSS
    log-fswf | 9, Tables 4, 5 | On the log, FSWf is more precise than FSWr
    log-best! | 9, Tables 4, 5 | On the log, FSWf is the most precise of all
    log-stable | 9, Tables 4, 5 | On the log, FSWf is the most stable of all
    ss-unstable | 9, Fig. 9 | On the log over 3 days, p × SS is the least stable of all
    sometimes-better | 10 | FSWr or FSWf is in some cases better than p × FSS
    operations-fss! | 9, 10 | FSW, FSWr and FSWf need a small part (a tenth or less) of the
        operations of p × FSS
    operations-ss | Tables 1, 2, 4, 5 | p × SS needs more operations than p × FSS
    operations-two | 9 | FSW's operations are of the order of those of 2 instances of FSS (at most
        twice them)
    operations-fsp | 10 | FSP needs more than twice the operations of FSW and FSWr (its hits counted
        twice)
    inserts-fswr | Tables 1, 2 | FSWr needs fewer inserts than FSW
    inserts-fswf | Tables 4, 5 | On the log, FSWf inserts less than half as often as FSWr
    stays | Table 3 | most removed items leave in the pane in which they came
    formulas | (15), (16) | Formulas (15) and (16) give the counters of FSP (at most) and FSWr
    counters-panes | after (16) | with more than 2 + r panes FSWr has fewer counters than p × FSS
        and FSP
    counters-fsp | Tables 1, 2, 4, 5 | FSWr has fewer counters than FSP
    bytes | ours | FSWr needs fewer bytes than p × SS, p × FSS and FSP
    bytes-exact | ours | Every sketch needs fewer bytes than exact counts
    bounds! | Theorems 1 to 3 | Every known true count lies within the answer's bounds
    fullest | after Theorem 5 | E(D_max) = 24.28 for D = 100,000 and h = 10,000
    fullest-found | after Theorem 5 | E(D_max) is about what one finds in the fullest cell
    mu | Theorem 4 | μ ≤ N^τ
    tau | Theorem 5 | E(τ) ≤ m / E(D_max), as printed
    tau-mended | Theorem 5 | E(τ) ≥ m / E(D_max), the other way round
""")
