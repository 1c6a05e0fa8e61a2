"""Snapshots that somebody forged, with the right checksum, reach no memory but their own.

They are refused, or restored and used. It happens in another process, so that a crash is seen.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.data.ipc import table_to_bytes
from support import forging

SCRIPT = Path(forging.__file__)
ALL = len(forging.seeds())


def outcomes(seed: int, count: int) -> Counter[str]:
    """What came of so many forged snapshots, in one word each."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(seed), str(count)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{lines[-1:]}: {done.stderr[-3000:]}"
    assert len(lines) == count
    unkind = [line for line in lines if line.split()[2].startswith(("raised", "failed"))]
    assert not unkind, unkind[:5]
    return Counter(line.split()[2].rstrip(":") for line in lines)


def test_some_forged_snapshots_of_every_algorithm() -> None:
    told = outcomes(1_000_000, 2 * ALL)
    assert told["refused"] > ALL // 2  # of those that are restored many change only numbers
    assert told["restored"] > ALL // 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_forged_snapshots(part: int) -> None:
    told = outcomes(2_000_000 + 1000 * part, 1000)
    assert told["refused"] > 300
    assert told["restored"] > 200


def test_honest_snapshots_are_restored_however_few_rows_they_have() -> None:
    for name, make in forging.seeds():
        query, batches = make()
        monitor = sb.Monitor(query)
        for rows in (0, 1):
            if rows:
                first = batches[0]
                monitor.push(first.slice(0, 1) if isinstance(first, pa.Table) else first)
            blob = monitor.snapshot()
            again = sb.Monitor.restore(blob).snapshot()
            # Queries of a board may have kept one state, which each of them saves by itself.
            assert again == blob or name.startswith("Board"), name


def test_the_forger_can_leave_everything_as_it_was() -> None:
    """What it takes apart and puts together again is the same snapshot."""
    for _, make in forging.seeds()[::20]:
        blob, batches = forging.taken(make)
        again = forging.closed(*forging.opened(blob))
        monitor, forged = sb.Monitor.restore(blob), sb.Monitor.restore(again)
        assert forged.snapshot() == monitor.snapshot()
        assert forging.played(again, batches) == "restored"


def changed(name: str, array: str, values: Any) -> bytes:
    """The first snapshot of an algorithm with something in an array, and other values there."""
    for own, make in forging.seeds():
        if own != name:
            continue
        header, arrays = forging.opened(forging.taken(make)[0])
        for each in arrays:
            if each[0] == array and len(each[3]):
                before = np.frombuffer(each[3], each[1]).reshape(each[2])
                after = values(before.copy())
                each[1:] = [after.dtype.str, list(after.shape), after.tobytes()]
                return forging.closed(header, arrays)
    raise AssertionError(f"no snapshot of {name} has {array}")


@pytest.mark.parametrize(
    ("name", "array", "values", "why"),
    [
        ("TopK-sma", "payload/0/lengths", lambda v: v.view("V8"), "V8"),
        ("TopK-skyband", "groups", lambda v: v + 1, "overlap"),
        ("TopK-sma", "cells", lambda v: v + 100_000, "cells is not below"),
        ("HeavyHitters-exact", "code", lambda v: v + 1000, "an entry has no item"),
        ("HeavyHitters-fsw", "heap", lambda v: v * 0, "a slot is there twice"),
        ("Skyline-stabsky", "graphs/parent", lambda v: v * 0 + 1, "parent"),
        ("SkylineJoin-gsj", "left/heads", lambda v: v * 0, "in two"),
        ("UncertainTopK-csq", "own/arena", lambda v: v + 1000, "arena is not below"),
        ("FusedTopK-eaa", "log/stream", lambda v: v + 9, "stream is not below"),
    ],
)
def test_the_reason_says_what_contradicts_the_rest(
    name: str, array: str, values: Any, why: str
) -> None:
    with pytest.raises(sb.EngineError, match=why):
        sb.Monitor.restore(changed(name, f"0/fold/synopsis/{array}", values))


NOT_FOLDS: tuple[Any, ...] = ([], {}, "")
NOT_IDLE: tuple[Any, ...] = ("x", [None], 0, -1.0, float("inf"))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *(("folds", folds) for folds in NOT_FOLDS),
        *(("names", names) for names in ([], ["", ""])),
        *(("idle", idle) for idle in NOT_IDLE),
    ],
)
def test_a_header_that_leaves_out_or_makes_up_something_is_refused(place: str, value: Any) -> None:
    header, arrays = forging.opened(forging.taken(forging.seeds()[0][1])[0])
    (header["folds"][0] if place == "idle" else header)[place] = value
    with pytest.raises(sb.EngineError, match="use another copy"):
        sb.Monitor.restore(forging.closed(header, arrays))


def test_an_answer_with_other_columns_is_refused() -> None:
    table = pa.table({"window_start": [1]})
    other = np.frombuffer(table_to_bytes(table), np.uint8)
    blob = changed("FusedTopK-reports", "0/fold/last0/0", lambda _: other)
    with pytest.raises(sb.EngineError, match="other columns"):
        sb.Monitor.restore(blob)


def test_counts_of_another_type_are_refused() -> None:
    blob = changed("SkylineJoin-lsj", "0/fold/synopsis/shares", lambda v: v.astype(np.float16))
    with pytest.raises(sb.EngineError, match="shares is float16"):
        sb.Monitor.restore(blob)
