"""A user's function is part of its query's identity, by what it computes, in every process."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb

FACTOR = 2.0
OTHER_FACTOR = 3.0
HOLDER = object()


def query(combine: Any) -> sb.FusedTopK:
    window = sb.TimeWindow(10, slide=5)
    return sb.FusedTopK(
        k=1, id="car", stream="cam", value="v", streams=("n", "s"), time="t", window=window,
        combine=combine,
    )  # fmt: skip


def identity(combine: Any) -> str:
    return query(combine).fingerprint


def scaled(factor: Any) -> Callable[[Any], Any]:
    return lambda v: v.sum(axis=1) * factor


def helper(v: Any) -> Any:
    return v[:, 0] + 1


def other_helper(v: Any) -> Any:
    return v[:, 0] + 2


DIFFERENT: dict[str, tuple[Any, Any]] = {
    "instructions": (lambda v: v[:, 0] + v[:, 1], lambda v: v[:, 0] * v[:, 1]),
    "constants": (lambda v: v[:, 0] + 1, lambda v: v[:, 0] + 2),
    "a constant's type": (lambda v: v[:, 0] + 1, lambda v: v[:, 0] + 1.0),
    "names": (lambda v: v.max(axis=1), lambda v: v.min(axis=1)),
    "defaults": (lambda v, w=1: v[:, 0] * w, lambda v, w=2: v[:, 0] * w),
    "keyword defaults": (lambda v, *, w=1: v[:, 0] * w, lambda v, *, w=2: v[:, 0] * w),
    "closures": (scaled(1.0), scaled(2.0)),
    "arrays in closures": (scaled(np.array([1.0, 2.0])), scaled(np.array([1.0, 3.0]))),
    "code inside": (
        lambda v: np.array(list(map(lambda r: r[0] + 1, v))),  # noqa: C417
        lambda v: np.array(list(map(lambda r: r[0] + 2, v))),  # noqa: C417
    ),
    "globals": (lambda v: v[:, 0] * FACTOR, lambda v: v[:, 0] * OTHER_FACTOR),
    "helpers": (lambda v: helper(v) * 3, lambda v: other_helper(v) * 3),
    "partials": (functools.partial(np.sum, axis=1), functools.partial(np.sum, axis=-1)),
    "partial functions": (functools.partial(np.sum, axis=1), functools.partial(np.max, axis=1)),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_functions_that_differ_are_different_queries(what: str) -> None:
    one, other = DIFFERENT[what]
    assert identity(one) != identity(other)


def test_the_place_and_the_name_of_a_function_do_not_matter() -> None:
    source = "\n\n\ndef other_name(v):\n    return v[:, 0] + 1\n"
    found: dict[str, Any] = {}
    exec(compile(source, "elsewhere.py", "exec"), found)
    assert identity(found["other_name"]) == identity(helper)
    assert identity(scaled(1.5)) == identity(scaled(1.5))


def test_a_global_of_the_same_name_with_another_value_is_another_function() -> None:
    made = []
    for factor in (1.0, 2.0):
        found: dict[str, Any] = {"FACTOR": factor}
        exec("def score(v): return v[:, 0] * FACTOR", found)
        made.append(identity(found["score"]))
    assert made[0] != made[1]


SCRIPT = """
import numpy as np
import skyband as sb
NAMES = {"x", "y", "z", "w"}
def score(v, weights=(1.0, 2.0)):
    if "x" in {"a", "b", "c", "d"} or "x" not in NAMES:
        return v[:, 0]
    return np.maximum(v, 0.5) @ np.array(weights)
window = sb.TimeWindow(10)
print(sb.FusedTopK(k=1, id="i", value="v", streams=("a", "b"), time="t", window=window,
                   combine=score).fingerprint)
"""


def test_every_process_finds_the_same_identity(tmp_path: Path) -> None:
    found = set()
    for seed in ("1", "2", "3"):
        script = tmp_path / f"job{seed}.py"
        script.write_text("\n" * int(seed) + SCRIPT, encoding="utf-8")
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, check=True
        )
        found.add(ran.stdout)
    assert len(found) == 1


class Scorer:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, v: Any) -> Any:
        return v.sum(axis=1) * self.factor

    def score(self, v: Any) -> Any:
        return self(v)


def reads_an_object(v: Any) -> Any:
    return v[:, 0] if HOLDER else v[:, 1]


def calls_a_class(v: Any) -> Any:
    return Scorer(2.0)(v)


@pytest.mark.parametrize(
    ("combine", "why"),
    [
        (Scorer(2.0), "Scorer"),
        (Scorer(2.0).score, "method"),
        (max, "builtin_function_or_method"),
        (np.maximum.reduce, "builtin_function_or_method"),
        (scaled(object()), "'factor' refers to an object of type object"),
        (reads_an_object, "'HOLDER' refers to an object of type object"),
        (calls_a_class, "'Scorer' refers to"),
        (functools.partial(Scorer.score, Scorer(1.0)), "Scorer"),
    ],
)
def test_what_cannot_be_read_is_refused_and_says_how_to_name_it(combine: Any, why: str) -> None:
    with pytest.raises(sb.QueryError, match="__skyband_name__") as refused:
        query(combine)
    assert why in str(refused.value)


def test_a_name_stands_for_a_function() -> None:
    one, two = Scorer(2.0), Scorer(2.0)
    one.__skyband_name__, two.__skyband_name__ = "double-1", "double-2"  # type: ignore[attr-defined]
    again = Scorer(2.0)
    again.__skyband_name__ = "double-1"  # type: ignore[attr-defined]
    assert identity(one) == identity(again) != identity(two)
    assert identity(lambda v: one(v) * 2) != identity(lambda v: two(v) * 2)
    again.__skyband_name__ = ""  # type: ignore[attr-defined]
    with pytest.raises(sb.QueryError, match="must be a non-empty string"):
        query(again)


ROWS = pa.table({"t": [0, 1, 2], "cam": ["n", "s", "n"], "car": [1, 1, 2], "v": [0.3, 0.4, 0.6]})


def test_restore_takes_the_function_of_the_snapshot_and_no_other() -> None:
    monitor = sb.Monitor(query(scaled(2.0)))
    monitor.push(ROWS)
    blob = monitor.snapshot()
    again = sb.Monitor.restore(blob, combine=scaled(2.0))
    assert [a.table for a in again.flush()] == [a.table for a in monitor.flush()]
    with pytest.raises(sb.EngineError, match="is not the snapshot's function"):
        sb.Monitor.restore(blob, combine=scaled(3.0))
    with pytest.raises(sb.EngineError, match="is not the snapshot's function"):
        sb.Monitor.restore(blob, combine="sum")
    with pytest.raises(sb.EngineError, match="give it again"):
        sb.Monitor.restore(blob)


def test_restore_changes_nothing_else_of_a_query() -> None:
    monitor = sb.Monitor(query("sum"))
    monitor.push(ROWS)
    with pytest.raises(sb.EngineError, match="k="):
        sb.Monitor.restore(monitor.snapshot(), k=2)
    with pytest.raises(sb.EngineError, match="colour"):
        sb.Monitor.restore(monitor.snapshot(), colour=2)
    sb.Monitor.restore(monitor.snapshot(), k=1)


def plan_of(combine: Any) -> Any:
    from skyband.spark.plan import QueryPlan

    return QueryPlan(query(combine), {"": ROWS.schema}, 1, "raise", False, True)


def test_a_checkpoint_does_not_go_on_under_another_function() -> None:
    known = plan_of(lambda v: v[:, 0] + 1).identity
    assert plan_of(lambda v: v[:, 0] + 1).identity == known
    other = plan_of(lambda v: v[:, 0] + 2)
    assert other.identity != known
    assert "another query" in str(other.differs(known))


def test_a_worker_finds_the_identity_that_the_driver_found() -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    factor = 2.0
    for combine in (helper, lambda v: helper(v) * factor, lambda v: np.maximum(v, FACTOR).sum(1)):
        plan = plan_of(combine)
        shipped = cloudpickle.loads(cloudpickle.dumps(plan))
        assert "identity" not in vars(shipped)
        assert shipped.identity == plan.identity
