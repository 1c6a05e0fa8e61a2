"""``exact`` keeps its counts in different states; all give the answers of the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oracle
import skyband as sb
from skyband.contract.rows import Rows, Windows
from skyband.frequency.exact import Exact
from support import conformance, streams

pytestmark = pytest.mark.nojit


@pytest.mark.parametrize("panes", [1, 2, 3])
@pytest.mark.parametrize("by", [(), ("g",)])
@pytest.mark.parametrize("weight", [None, "weight", "half"])
def test_windows_of_few_panes(panes: int, by: tuple[str, ...], weight: str | None) -> None:
    settings: dict[str, Any] = {"k": 3, "item": "item", "by": by, "weight": weight, "time": "ts"}
    settings["algorithm"] = "exact"
    stream = streams.stream(3, 120, pattern="crowded", step=1, gap=9, batches=5)
    rows = [row | {"half": row["weight"] + 0.5} for row in stream.rows]
    kinds = {name: stream.table.schema.field(name).type for name in stream.table.column_names}
    stream = streams.from_rows(rows, kinds | {"half": pa.float64()}, stream.cuts)
    for window in (oracle.TimeWindow(6 * panes, 6), oracle.CountWindow(8 * panes, 8)):
        conformance.compare("HeavyHitters", window, settings, stream)


def test_many_windows_of_one_batch() -> None:
    """More answers than there is room for at first."""
    numbers = np.arange(1_200)
    table = pa.table({"ts": numbers, "item": numbers * 7 % 11, "w": (numbers % 5) / 2})
    query = sb.HeavyHitters(
        k=4, item="item", time="ts", weight="w", window=sb.TimeWindow(600, slide=1)
    )
    monitor = sb.Monitor(query)
    pushes = [a for i in range(0, 1_200, 30) for a in monitor.push(table.slice(i, 30))]
    pieces = [answer.table for answer in [*pushes, *monitor.flush()]]
    whole = sb.rank(table, query)
    assert whole.num_rows > 4_096
    assert whole.equals(pa.concat_tables(pieces))


def test_a_window_may_be_read_before_there_is_any_group() -> None:
    """On Spark a shard may have no rows yet when other shards have some."""
    query = sb.HeavyHitters(k=2, item="n", time="t", by=("g",), window=sb.TimeWindow(10, slide=5))
    exact = Exact(query)
    exact.bind("", pa.schema({"t": pa.int64(), "g": pa.string(), "n": pa.int64()}))
    none, codes, one = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(1, np.int64)
    batch = pa.RecordBatch.from_pylist([], schema=exact.schemas[""])
    panes = exact.summarise(Rows("", batch, none, codes, one, None, none, none))
    answers = exact.fold(panes, Windows(one, one, one + 2, none))
    assert answers is None or not len(answers)
