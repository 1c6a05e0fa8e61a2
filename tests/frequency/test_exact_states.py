"""``exact`` keeps its counts in different states; all give the answers of the definition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import oracle
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
