"""CSQ: all distinct compact sets of the newest panes (section 4.1 of the paper)."""

from __future__ import annotations

from skyband.uncertain.kernels.csq import csq_fold, csq_read
from skyband.uncertain.queue import Kernels, QueueSynopsis

__all__ = ["CompactSetQueue"]


class CompactSetQueue(QueueSynopsis):
    """Keeps all distinct compact sets of the newest panes, so that on expiry the next is there.

    Cost in a random stream, with W rows in the window and H in a compact set: O(kH²) per row and
    O(H² log W) space. Exact.

    Section 4.1, algorithm 1, pane by pane. The newest rows are searched for a compact set until
    they admit none; the paper searches once, but the rows that are left may admit another.

    >>> import pyarrow as pa, skyband as sb
    >>> readings = pa.table({"speed": [5, 6, 8, 2], "p": [0.8, 0.5, 0.4, 0.4]})
    >>> names, window = {"score": "speed", "probability": "p"}, sb.CountWindow(4)
    >>> query = sb.UncertainTopK(k=2, **names, window=window, algorithm="csq")
    >>> sb.rank(readings, query)["speed"].to_pylist()
    [5, 6]
    """

    kernels = Kernels(csq_fold, csq_read)
