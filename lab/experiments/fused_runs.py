"""One run of all FusedTopK algorithms on one stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lab.datasets.fused import correlated_reports
from lab.experiments.seeds import SEEDS, Sample
from skyband.embedded.monitor import Monitor
from skyband.query import FusedTopK
from skyband.window import CountWindow

SLIDE = 10
Settings = dict[str, tuple[str, dict[str, Any]]]
ALGORITHMS = ("sla", "eaa", "eaa-approx")
HALF = "caution 0.5"
"""The approximation that expects an average report, where the paper's expects the greatest."""
SETTINGS: Settings = {
    "sla": ("sla", {}),
    "eaa": ("eaa", {"slack": 0}),
    "eaa-approx": ("eaa-approx", {"slack": 0}),
    HALF: ("eaa-approx", {"slack": 0, "caution": 0.5}),
}


@dataclass(frozen=True)
class Measured:
    """Means over the evaluations of one setting, one for each seed."""

    retained: dict[str, Sample]
    precisions: dict[str, Sample]
    error: Sample

    @property
    def precision(self) -> Sample:
        """The precision of the paper's approximation."""
        return self.precisions["eaa-approx"]


@cache
def synthetic(
    window: int,
    evaluations: int,
    recent: int,
    *,
    streams: int = 2,
    correlation: float = 0.5,
    k: int = 10,
    bitmaps: int | None = None,
) -> Measured:
    """Run all algorithms on synthetic streams, or the approximation with so many bitmaps."""
    spacing = max(SLIDE, window // 20 // SLIDE * SLIDE)
    rows = 2 * window + evaluations * spacing
    settings = SETTINGS
    if bitmaps is not None:
        chosen: dict[str, Any] = {"slack": 0, "bitmaps": bitmaps}
        settings = SETTINGS | {"eaa-approx": ("eaa-approx", chosen)}
        del settings[HALF]
    found = []
    for seed in range(SEEDS):
        made = correlated_reports(
            rows, streams=streams, correlation=correlation, recent=recent, seed=seed
        )
        found.append(measured(made, window, k, spacing, settings))

    def by_name(each: Sequence[Mapping[str, Sample]]) -> dict[str, Sample]:
        return {n: Sample(tuple(one[n].mean for one in each)) for n in each[0]}

    return Measured(
        by_name([each.retained for each in found]),
        by_name([each.precisions for each in found]),
        Sample(tuple(each.error.mean for each in found)),
    )


def measured(
    reports: pa.Table, window: int, k: int, spacing: int, settings: Settings = SETTINGS
) -> Measured:
    """Run all algorithms on one stream; evaluate every ``spacing`` rows after two windows."""
    streams = tuple(reports["stream"].combine_chunks().dictionary.to_pylist())
    seen: dict[str, list[pa.Table]] = {}
    kept: dict[str, list[int]] = {}
    for name, (algorithm, options) in settings.items():
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
        name: _mean([_precision(*pair) for pair in zip(seen["sla"], got, strict=True)])
        for name, got in seen.items()
    }
    errors = [_error(*pair) for pair in zip(seen["sla"], seen["eaa-approx"], strict=True)]
    means = {name: _mean(counts) for name, counts in kept.items()}
    return Measured(means, precisions, _mean(errors))


def _mean(values: Sequence[float]) -> Sample:
    return Sample.of(float(np.mean(values)))


class Bytes(NamedTuple):
    """The size of an algorithm's state in bytes, and what two of its parts take."""

    total: Sample
    guard: Sample
    sketch: Sample
    reports: Sample
    """Reports in the log, as a mean over the same time."""


def state_bytes(reports: pa.Table, window: int, k: int = 10) -> dict[str, Bytes]:
    """What each algorithm takes with its default settings: the mean over the last half window."""
    streams = tuple(reports["stream"].combine_chunks().dictionary.to_pylist())
    found = {}
    step = max(SLIDE, window // 20)
    for name in ALGORITHMS:
        query = FusedTopK(
            k=k, id="object", stream="stream", value="value", streams=streams, algorithm=name,
            window=CountWindow(window, slide=SLIDE),
        )  # fmt: skip
        monitor = Monitor(query)
        totals, held_reports = [], []
        for row in range(0, reports.num_rows, step):
            monitor.push(reports.slice(row, step))
            if row + step > reports.num_rows - window // 2:
                stats = monitor.stats()
                totals.append(stats["state_bytes"])
                held_reports.append(stats["reports"])
        synopsis: Any = monitor.session.synopsis
        held = 0 if synopsis.guard is None else synopsis.guard.nbytes
        sketch = int(monitor.stats().get("sketch_bytes", 0))
        total, kept = (float(np.mean(each)) for each in (totals, held_reports))
        found[name] = Bytes(*map(Sample.of, (total, held, sketch, kept)))
    return found


class Recurring(NamedTuple):
    """Live reports of one object in one stream: how many there are, and what is estimated."""

    most: Sample
    mean: Sample
    """F2 / F1: the number for the object of a randomly chosen report."""
    estimate: Sample
    root: Sample
    """The square root of F2, which the greatest number never exceeds."""
    precision: Sample
    """Of EAA with the estimate."""


def recurring(rows: int, window: int, exponent: float, seed: int, k: int = 10) -> Recurring:
    """Reports whose objects follow a power law; with exponent 0 they are uniform."""
    rng = np.random.default_rng(seed)
    objects = window // 3
    weights = 1.0 / np.arange(1, objects + 1) ** exponent
    made = pa.table({
        "object": rng.choice(objects, rows, p=weights / weights.sum()),
        "stream": pa.array(np.array(["s0", "s1"])[rng.integers(0, 2, rows)]).dictionary_encode(),
        "value": rng.random(rows),
    })  # fmt: skip
    precisions = []
    asked: dict[str, Any] = {"k": k, "id": "object", "stream": "stream", "value": "value"}
    asked |= {"streams": ("s0", "s1"), "window": CountWindow(window, slide=SLIDE)}
    monitors = {
        name: Monitor(FusedTopK(**asked, recurrences="estimate", algorithm=name, options=options))
        for name, options in (("sla", {}), ("eaa", {"slack": 0}))
    }
    for row in range(0, rows, SLIDE):
        got = {n: m.push(made.slice(row, SLIDE))[-1].table for n, m in monitors.items()}
        if row >= window:
            precisions.append(_precision(got["sla"], got["eaa"]))
    synopsis: Any = monitors["eaa"].session.synopsis
    live = made.slice(rows - window)
    stream = live["stream"].combine_chunks().indices.to_numpy()
    counts = [np.bincount(live["object"].to_numpy()[stream == s]) for s in (0, 1)]
    squares = [float((count.astype(float) ** 2).sum()) for count in counts]
    return Recurring(
        most=Sample.of(max(count.max() for count in counts)),
        mean=Sample.of(max(f2 / count.sum() for f2, count in zip(squares, counts, strict=True))),
        estimate=Sample.of(synopsis.self_join.recurrences(synopsis.first)),
        root=Sample.of(max(squares) ** 0.5),
        precision=_mean(precisions),
    )


def _precision(truth: pa.Table, got: pa.Table) -> float:
    right = set(truth["object"].to_pylist())
    return len(right & set(got["object"].to_pylist())) / len(right)


def _error(truth: pa.Table, got: pa.Table) -> float:
    a, b = truth["score"].to_numpy(), got["score"].to_numpy()
    some = a[: len(b)] > 0
    return float((np.abs(a[: len(b)] - b)[some] / a[: len(b)][some]).mean())
