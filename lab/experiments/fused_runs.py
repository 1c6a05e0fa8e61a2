"""One run of all FusedTopK algorithms on one stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lab.datasets.fused import correlated_reports
from skyband.embedded.monitor import Monitor
from skyband.query import FusedTopK
from skyband.window import CountWindow

SLIDE = 10
ALGORITHMS = ("sla", "eaa", "eaa-approx")
HALF = "caution 0.5"
"""The approximation that expects an average report, where the paper's expects the greatest."""
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "sla": ("sla", {}),
    "eaa": ("eaa", {"slack": 0}),
    "eaa-approx": ("eaa-approx", {"slack": 0}),
    HALF: ("eaa-approx", {"slack": 0, "caution": 0.5}),
}


@dataclass(frozen=True)
class Measured:
    """Means over the evaluations of one setting."""

    retained: dict[str, float]
    precisions: dict[str, float]
    error: float

    @property
    def precision(self) -> float:
        """The precision of the paper's approximation."""
        return self.precisions["eaa-approx"]


def synthetic(
    window: int,
    evaluations: int,
    *,
    streams: int = 2,
    correlation: float = 0.5,
    k: int = 10,
    recent: int | None = None,
) -> Measured:
    """Run all algorithms on a synthetic stream."""
    spacing = max(SLIDE, window // 20 // SLIDE * SLIDE)
    rows = 2 * window + evaluations * spacing
    made = correlated_reports(
        rows,
        streams=streams,
        correlation=correlation,
        recent=window // 10 if recent is None else recent,
        seed=window + streams,
    )
    return measured(made, window, k, spacing)


def measured(reports: pa.Table, window: int, k: int, spacing: int) -> Measured:
    """Run all algorithms on one stream; evaluate every ``spacing`` rows after two windows."""
    streams = tuple(reports["stream"].combine_chunks().dictionary.to_pylist())
    seen: dict[str, list[pa.Table]] = {}
    kept: dict[str, list[int]] = {}
    for name, (algorithm, options) in SETTINGS.items():
        query = FusedTopK(
            k=k, id="object", stream="stream", value="value", streams=streams,
            window=CountWindow(window, slide=SLIDE), algorithm=algorithm,
            options=options, returns=algorithm == "sla",
        )  # fmt: skip
        monitor = Monitor(query)
        seen[name], kept[name] = [], []
        # The answers and needs of exact algorithms do not depend on when they sweep.
        step = SLIDE if algorithm == "eaa-approx" else spacing
        for row in range(0, reports.num_rows - step + 1, step):
            answers = monitor.push(reports.slice(row, step))
            if algorithm != "sla":  # right after a sweep, the count is that of the paper
                monitor.session.synopsis.sweep()  # type: ignore[attr-defined]
            end = row + step
            if end >= 2 * window and end % spacing == 0:
                seen[name].append(answers[-1].table)
                kept[name].append(int(monitor.stats()["retained"]))
    for truth, same in zip(seen["sla"], seen["eaa"], strict=True):
        assert truth.equals(same)
    precisions = {
        name: float(np.mean([_precision(*pair) for pair in zip(seen["sla"], got, strict=True)]))
        for name, got in seen.items()
    }
    errors = [_error(*pair) for pair in zip(seen["sla"], seen["eaa-approx"], strict=True)]
    means = {name: float(np.mean(counts)) for name, counts in kept.items()}
    return Measured(means, precisions, float(np.mean(errors)))


def _precision(truth: pa.Table, got: pa.Table) -> float:
    right = set(truth["object"].to_pylist())
    return len(right & set(got["object"].to_pylist())) / len(right)


def _error(truth: pa.Table, got: pa.Table) -> float:
    a, b = truth["score"].to_numpy(), got["score"].to_numpy()
    some = a[: len(b)] > 0
    return float((np.abs(a[: len(b)] - b)[some] / a[: len(b)][some]).mean())
