"""``state_bytes`` is what a monitor holds, open panes included; compared with a snapshot's size."""

from __future__ import annotations

import pyarrow as pa
import pytest
import test_settings

import oracle
import skyband as sb
from skyband.data.packing import unpack
from support import conformance

LEAST, MOST = 0.8, 8.0
"""Bytes reported per byte of a snapshot: arrays have spare room, indexes are not in snapshots."""
SMALL = 16_384
"""Bytes that are not counted: clocks, the last answer, the framing of each column of text."""
# The first leaves several panes open, the second nearly all rows in one open pane.
WINDOWS = (oracle.TimeWindow(40, 5, lateness=30), oracle.TimeWindow(40, 40, lateness=300))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("kind", "name"), test_settings.ALGORITHMS)
def test_state_bytes_are_those_of_a_snapshot(
    kind: str, name: str, window: oracle.TimeWindow
) -> None:
    given = conformance.SETTINGS[kind][0] | {"algorithm": name}
    given |= test_settings.NEEDED.get(name, {})
    if kind == "SkylineJoin":
        given["prefer"] = {"price": "min", "volume": "max", "risk": "min", "cost": "min"}
    monitor = sb.Monitor(conformance.query_of(kind, window, given, pa.table({"ts": [1]})))
    for batch in test_settings.pushes(kind):
        monitor.push(batch)
        _, arrays = unpack(monitor.snapshot())
        held = sum(array.nbytes for n, array in arrays.items() if not n.startswith("schema"))
        told = monitor.stats()["state_bytes"]
        assert LEAST * held - SMALL <= told <= MOST * held + SMALL
