"""``distinct="latest"`` over many small panes: all windows in one call, with the same answers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.topk import latest
from support import conformance, streams

CASES = [each | conformance.NEEDED["latest"] for each in conformance.SETTINGS["TopK"]]
ROWS = 600
SCORES = {
    "random": lambda rng: rng.random(ROWS),
    "falling": lambda rng: -np.arange(ROWS) + rng.random(ROWS),
    "rising": lambda rng: np.arange(ROWS) + rng.random(ROWS),
    "crowded": lambda rng: rng.integers(0, 3, ROWS).astype(float),
}


@pytest.mark.nojit
@pytest.mark.parametrize("chosen", CASES, ids=range(len(CASES)))
@given(data=st.data())
@settings(max_examples=15)
def test_at_once_is_the_definition(chosen: dict[str, Any], data: st.DataObject) -> None:
    window = data.draw(streams.time_windows() | streams.count_windows())
    lateness = getattr(window, "lateness", 0)
    stream = data.draw(conformance.small_streams("TopK", chosen, window, lateness))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latest, "_MANY", 1)
        conformance.compare("TopK", window, chosen, stream, data.draw(st.booleans()))


@pytest.mark.parametrize("shape", SCORES)
@pytest.mark.parametrize("window", [sb.CountWindow(120, slide=1), sb.TimeWindow(50, slide=2)])
@pytest.mark.parametrize("by", [(), ("g",)])
def test_at_once_is_window_by_window(
    shape: str, window: Any, by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer lists: more live ids than are kept sorted, so lists are cut and made again."""
    rng = np.random.default_rng(len(shape))
    table = pa.table({
        "t": np.sort(rng.integers(0, ROWS // 3, ROWS)),
        "id": [f"id {number}" for number in rng.integers(0, 100, ROWS).tolist()],
        "x": SCORES[shape](rng),
        "g": rng.integers(0, 2, ROWS),
        "n": np.arange(ROWS),
    })  # fmt: skip
    for k in (1, 3, 200):
        query = sb.TopK(
            k=k, score="x", id="id", time="t", distinct="latest", by=by, keep=("n",), window=window
        )
        monkeypatch.setattr(latest, "_MANY", 10)
        ours, retained = pushed(query, table)
        monkeypatch.setattr(latest, "_MANY", 10**9)
        assert (ours, retained) == pushed(query, table)
        assert ours.num_rows >= 100 * k**0.5


def pushed(query: sb.Query, table: pa.Table) -> tuple[pa.Table, Any]:
    """The answers to some long and short pushes, with a restart between them."""
    monitor, found = sb.Monitor(query), []
    cuts = [0, 40, 300, 305, 330, ROWS]
    for low, high in itertools.pairwise(cuts):
        found += monitor.push(table.slice(low, high - low))
        monitor._check()
        monitor = sb.Monitor.restore(monitor.snapshot())
    found += monitor.flush()
    tables = pa.concat_tables([answer.table for answer in found])
    return tables, monitor.stats()["retained"]
