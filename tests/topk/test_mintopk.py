"""What MinTopK counts: rows that some window predicts, and the predictions that they change."""

from __future__ import annotations

import pyarrow as pa
import pytest

import skyband as sb

pytestmark = pytest.mark.nojit


@pytest.mark.parametrize(
    ("values", "size", "slide", "inserted", "updates"),
    [
        # A row is in three windows. The first is predicted for all of them, each later one only for
        # the window that none of its betters reaches.
        ([9, 8, 7], 3, 1, 3, 3 + 1 + 1),
        # Each row is the best of all windows that it is in.
        ([7, 8, 9], 3, 1, 3, 3 + 3 + 3),
        # 8 is in the same window as 9, so that none predicts it.
        ([9, 8], 2, 2, 1, 1),
    ],
)
def test_predictions_are_counted(
    values: list[int], size: int, slide: int, inserted: int, updates: int
) -> None:
    window = sb.CountWindow(size, slide=slide)
    monitor = sb.Monitor(sb.TopK(k=1, score="x", window=window, algorithm="mintopk"))
    monitor.push(pa.table({"x": values}))
    monitor._check()
    stats = monitor.stats()
    assert (stats["inserted"], stats["window_updates"]) == (inserted, updates), stats
