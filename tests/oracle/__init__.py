"""The definition of every query, in the simplest possible Python.

Each algorithm of the package is compared with these functions at every step, so they import nothing
from the package and are written to be read, not to be fast: a row is a dict, a window is a list of
rows, times are integers (timestamps are microseconds since the epoch).

    windows.py     which rows a window holds, which rows are late or unused
    where.py       which rows count
    expressions.py columns that are computed from others
    order.py       the one total order of rows
    unsized.py     the same for windows without a size: decay and landmark
    revisions.py   windows that late rows correct
    topk.py  frequency.py  uncertain.py  fused.py  skyline.py     live rows -> answer
    changes.py     what changed from one answer to the next
    one_window.py  live rows -> answer, for all kinds of queries and windows
    driver.py      batches in, every answer out
    peeking.py     what `peek` shows between pushes
    compare.py     equality, up to the last digits of floating sums
"""

from oracle.changes import changes
from oracle.compare import SUMS, difference
from oracle.driver import Run, answers, interleave
from oracle.frequency import heavy_hitters
from oracle.fused import fused
from oracle.one_window import Answer
from oracle.order import KEPT, in_row_order
from oracle.peeking import peeks
from oracle.skyline import dominates, join, skyline, skyline_join
from oracle.topk import topk
from oracle.uncertain import uncertain, uncertain_by_worlds
from oracle.unsized import DecayWindow, LandmarkWindow
from oracle.where import counts
from oracle.windows import (
    BAD,
    FILTERED,
    CountWindow,
    Live,
    Push,
    Row,
    SideWindows,
    TimeWindow,
    count_windows,
    cut_from,
    cut_up_to,
    first_end_after,
    groups,
    is_unused,
    late_rows,
    pane_end,
    time_windows,
)

__all__ = [
    "BAD",
    "FILTERED",
    "KEPT",
    "SUMS",
    "Answer",
    "CountWindow",
    "DecayWindow",
    "LandmarkWindow",
    "Live",
    "Push",
    "Row",
    "Run",
    "SideWindows",
    "TimeWindow",
    "answers",
    "changes",
    "count_windows",
    "counts",
    "cut_from",
    "cut_up_to",
    "difference",
    "dominates",
    "first_end_after",
    "fused",
    "groups",
    "heavy_hitters",
    "in_row_order",
    "interleave",
    "is_unused",
    "join",
    "late_rows",
    "pane_end",
    "peeks",
    "skyline",
    "skyline_join",
    "time_windows",
    "topk",
    "uncertain",
    "uncertain_by_worlds",
]
