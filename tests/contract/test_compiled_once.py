"""Kernels are compiled for one kind of array: what was unpacked is no new type to them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numba.core import types
from test_conformance import pushes, query_of

import skyband as sb
from skyband import registry
from skyband.frequency import exact
from skyband.frequency.kernels.best_codes import best_of_runs
from skyband.fused.base import scorer
from skyband.kernels import patient
from support import conformance
from support.shards import sharded
from support.suites import settings_of

CASES = [(kind, name) for kind in registry.kinds() for name in registry.algorithms(kind)]


@pytest.mark.parametrize(("kind", "algorithm"), CASES)
def test_a_restored_monitor_compiles_nothing_again(
    kind: str, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays of a snapshot are read-only, a type of its own to numba: seconds for each kernel."""
    monkeypatch.setitem(patient._told, "hurry", True)
    settings = settings_of(kind, algorithm, 0)
    query, batches = query_of(kind, settings), pushes(kind, settings)
    conformance.run(query, batches)
    before = compiled()
    conformance.run(query, batches, restarts=True)
    sharded(query, batches, 1)
    again = [
        (name, signature)
        for name, found in compiled(beyond=before).items()
        for signature in found
        if plain(signature) in [plain(known) for known in before.get(name, [])]
    ]
    assert not again


def compiled(beyond: dict[str, Any] | None = None) -> dict[str, list[Any]]:
    """The signatures for which each kernel was compiled in this process, and not ``beyond``."""
    known = beyond or {}
    return {
        name: [each for each in kernel.signatures if each not in known.get(name, [])]
        for name, kernel in kernels()
    }


def kernels() -> Iterator[tuple[str, Any]]:
    for name, module in list(sys.modules.items()):
        if name.startswith("skyband.kernels."):
            for value in vars(module).values():
                kernel = getattr(value, "__wrapped__", value)
                if hasattr(kernel, "signatures") and not isinstance(kernel, type):
                    yield f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}", kernel


def plain(kind: Any) -> Any:
    """A type, or a signature of types, with all arrays as if they could be written to."""
    if isinstance(kind, types.Array):
        return kind.copy(readonly=False)
    parts: Any = kind
    if isinstance(kind, (tuple, types.BaseTuple)):
        return tuple(plain(each) for each in parts)
    return kind


def test_windows_of_one_pane_read_one_kind_of_array(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def noted(*args: Any) -> Any:
        given.extend(args[:3])
        return best_of_runs(*args)

    monkeypatch.setattr(exact, "best_of_runs", noted)
    query = sb.HeavyHitters(k=1, item="item", time="t", window=sb.TimeWindow(2))
    monitor = sb.Monitor(query)
    for start in (0, 2, 4):
        monitor.push(pa.table({"t": [start, start + 1], "item": ["a", "b"]}))
        if start:
            monitor = sb.Monitor.restore(monitor.snapshot())
    monitor.flush()
    assert len(given) == 9
    assert not any(array.flags.writeable for array in given)


def test_scores_of_a_users_function_are_contiguous() -> None:
    """A function may return a column of its argument."""
    query = sb.FusedTopK(
        k=1, id="o", stream="s", value="v", streams=("a", "b"), combine=lambda v: v[..., 1],
        time="t", window=sb.TimeWindow(2), bounds=(0.0, 1.0),
    )  # fmt: skip
    scores = scorer(query)(np.arange(6.0).reshape(3, 2))
    assert scores.tolist() == [1.0, 3.0, 5.0]
    assert scores.flags.c_contiguous
