"""Jin et al., "Sliding-Window Top-k Queries on Uncertain Streams": Figures 3-10 and Table 2.

Do the compact set queues give the same answers as keeping the whole window in order (BS), in two to
three orders of magnitude less space? And is the buffered queue as fast as BS or faster?
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from lab.datasets.real import data_folder
from lab.datasets.uncertain import icebergs_repeated, random_order, worst_order
from lab.experiments.report import Progress, Report
from lab.experiments.seeds import SEEDS, Sample
from lab.experiments.uncertain_claims import Found, Pair, Sweep, growth, judged, proof_bounds
from lab.experiments.uncertain_paper import FIGURES, RADAR_ANSWERS, TABLE_2
from lab.experiments.uncertain_radar import CHANCES, SPEEDS, THRESHOLD, draw
from lab.experiments.uncertain_runs import (
    ALGORITHMS,
    OURS,
    PRINTED,
    Point,
    Stream,
    as_printed,
    measure,
    query_of,
    semantics_of,
    set_size,
)

__all__ = ["QUICK", "SCALE", "estimate", "reproduce"]

SCALE = 0.1
"""Windows of up to 100,000 rows; the paper has up to 1,000,000."""
QUICK = 0.02
"""Windows of up to 100,000 rows, too, as in the paper's figures, but only what these show."""
QUICK_KS = (10, 40, 100)
FILLED, FIXED = 60_000, 10
"""Rows of a window that are filled per second, with all synopses; seconds for the rest."""
KINDS = ("pk-topk", "pt-k", "u-kranks", "u-topk")
LABELS = (*ALGORITHMS, OURS)
KS = (10, 20, 40, 60, 80, 100)
WINDOWS = (1_000, 10_000, 100_000, 1_000_000)
K, WINDOW = 10, 100_000
"""The fixed value of each while the other one varies."""
TIMED_ROWS = 80_000
"""Enough for the fastest synopsis, at the greatest time."""
FIGURE_3_ROWS = 1_000_000
FIGURE_3_KS = (1, *range(10, 101, 10))
WORST_WINDOW, WORST_K = 400, 5
CHECKED = 600
"""The window over which all synopses are compared row by row, and twice as many rows."""


@dataclass(frozen=True)
class Study:
    """The sizes and times that a scale stands for."""

    scale: float

    @property
    def seconds(self) -> float:
        """How long an algorithm is timed in one setting."""
        return min(0.2, max(0.02, self.scale))

    @property
    def ks(self) -> Sequence[int]:
        return KS if self.scale >= SCALE else QUICK_KS if self.scale >= QUICK else KS[:3]

    @property
    def windows(self) -> Sequence[int]:
        least = WINDOW if self.scale >= QUICK else WINDOW // 10
        return [size for size in WINDOWS if size <= max(least, WINDOWS[-1] * self.scale)]

    @property
    def window(self) -> int:
        """The window's size while k varies."""
        return min(WINDOW, self.windows[-1])

    def pairs(self, streams: Iterable[str]) -> list[tuple[str, str]]:
        """Streams with semantics: those of the paper's figures, or all."""
        every = [(stream, kind) for stream in streams for kind in KINDS]
        if self.scale >= SCALE or data_folder() is None:
            return every
        return [pair for pair in every if pair in FIGURES]

    @property
    def rows(self) -> int:
        return self.windows[-1] + max(20_000, int(2_000_000 * self.scale))


def estimate(scale: float) -> float:
    """About how many seconds of processor time a run takes.

    Each point is measured for a given time. Before that, its window is filled, and the rows of the
    first window that a queue would hold are found, once per setting.
    """
    study = Study(scale)
    settings = [study.window] * (len(study.ks) - 1) + list(study.windows)
    once = sum(study.seconds * len(LABELS) + size / FILLED for size in settings)
    streams = ("synthetic",) if data_folder() is None else ("synthetic", "icebergs")
    return FIXED + once * len(study.pairs(streams))


def reproduce(scale: float, out: Path, progress: Progress) -> None:
    """Write ``uncertain.md`` and its plots to ``out``; ``scale`` 1 is the paper's size."""
    study = Study(scale)
    draw(out / "uncertain-radar.png")
    streams = {"synthetic": Stream(random_order(study.rows))}
    if data_folder() is not None:
        streams["icebergs"] = Stream(icebergs_repeated(study.rows))
    progress("Figure 3 and answers of all synopses")
    sizes = _figure_3()
    radar, equal, worst = _radar(), _equal(streams), _worst_order()
    pairs, seeded = _pairs(study, streams, progress), _other_seeds(study)
    ks, rows = FIGURE_3_KS, FIGURE_3_ROWS
    shares = {name: point.retained / WORST_WINDOW for name, point in worst.items()}
    found = Found(pairs, sizes, ks, rows, radar, equal, shares)
    verdicts = judged(found)
    report = Report("Top-k on uncertain streams")
    _set_up(report, study, streams, pairs)
    _show_figure_3(report, sizes)
    _show_other_seeds(report, study, seeded)
    for pair in pairs:
        title = FIGURES.get((pair.stream, pair.kind), "Not in the paper's figures")
        report.heading(f"{title}: {pair.kind}, {pair.stream}")
        stem = f"uncertain-{pair.stream}-{pair.kind}"
        values = [point.k for point in pair.by_k["BS"]]
        _figures(report, "k", values, pair.by_k, f"W = {study.window:,}", stem)
        _figures(report, "W", study.windows, pair.by_size, f"k = {K}", stem)
    _lemmas(report, pairs)
    _table_2(report, pairs[0])
    _show_worst_order(report, worst)
    verdicts.add_to(report)
    report.write(out / "uncertain.md")
    verdicts.save(out)


# Measurements -------------------------------------------------------------------------------------


def _pairs(study: Study, streams: Mapping[str, Stream], progress: Progress) -> list[Pair]:
    """The sweeps of every stream and semantics; fewer values of k if the paper has no figure."""
    names = study.pairs(streams)
    ks = {pair: study.ks if pair in FIGURES else study.ks[::2] for pair in names}
    settings = {
        pair: ([(k, study.window) for k in ks[pair]], [(K, size) for size in study.windows])
        for pair in names
    }
    total = sum(len({*by_k, *by_size}) for by_k, by_size in settings.values()) * len(LABELS)
    known: dict[tuple[str, str, str, int, int], Point] = {}

    def point(name: str, kind: str, label: str, k: int, size: int) -> Point:
        """Both sweeps of a pair have one setting in common, which is measured once."""
        which = name, kind, label, k, size
        if which not in known:
            at = f"{name}, {kind}, k = {k}, W = {size:,}: {label}"
            progress(f"{len(known) + 1} of {total}: {at}")
            known[which] = measure(streams[name], kind, label, k, size, study.seconds)
        return known[which]

    def sweep(name: str, kind: str, chosen: Sequence[tuple[int, int]]) -> Sweep:
        found: dict[str, list[Point]] = {label: [] for label in LABELS}
        for k, size in chosen:
            for label in LABELS:
                found[label].append(point(name, kind, label, k, size))
        return found

    return [
        Pair(name, kind, *(sweep(name, kind, chosen) for chosen in settings[name, kind]))
        for name, kind in names
    ]


def _makers() -> dict[str, Callable[[int, int], pa.Table]]:
    """Streams that depend on a seed."""
    real = {} if data_folder() is None else {"icebergs": icebergs_repeated}
    return {"synthetic": random_order, **real}


def _other_seeds(study: Study) -> dict[str, dict[str, tuple[Sample, Sample]]]:
    """Space in kB and microseconds per row of one setting, by stream and synopsis."""
    size = study.windows[1]
    found: dict[str, dict[str, list[Point]]] = {}
    for name, make in _makers().items():
        for seed in range(1, SEEDS + 1):
            stream = Stream(make(size + TIMED_ROWS, seed))
            for label in LABELS:
                point = measure(stream, KINDS[0], label, K, size, study.seconds)
                found.setdefault(name, {}).setdefault(label, []).append(point)
    return {
        name: {
            label: (
                Sample(tuple(point.space / 1000 for point in points)),
                Sample(tuple(point.micros for point in points)),
            )
            for label, points in by_label.items()
        }
        for name, by_label in found.items()
    }


def _figure_3() -> dict[str, list[Sample]]:
    """The sizes of the compact sets of whole streams, by semantics and stream; several seeds."""
    found: dict[str, list[list[float]]] = {}
    for name, make in _makers().items():
        for seed in range(1, SEEDS + 1):
            table = make(FIGURE_3_ROWS, seed)
            score, p = (table[column].to_numpy() for column in ("score", "p"))
            ordered = np.ascontiguousarray(p[np.argsort(-score, kind="stable")])
            for kind in KINDS:
                sizes = [set_size(semantics_of(kind, k), ordered) or len(p) for k in FIGURE_3_KS]
                found.setdefault(f"{kind}, {name}", []).append([float(size) for size in sizes])
    return {
        name: [Sample(tuple(sizes)) for sizes in zip(*by_seed, strict=True)]
        for name, by_seed in found.items()
    }


def _radar() -> dict[str, bool]:
    """Whether each semantics answers the paper's radar readings as its section 1 does."""
    readings = pa.table({"score": SPEEDS, "p": CHANCES})
    found = {}
    kind: Any
    for kind, speeds in RADAR_ANSWERS.items():
        query = sb.UncertainTopK(
            k=2, score="score", probability="p", window=sb.CountWindow(4), semantics=kind,
            threshold=THRESHOLD if kind == "pt-k" else None,
        )  # fmt: skip
        found[kind] = set(sb.rank(readings, query)["score"].to_pylist()) == speeds
    return found


def _equal(streams: Mapping[str, Stream]) -> dict[str, bool]:
    """Whether all synopses give the answers of BS, which keeps all rows."""
    found = {}
    for name, stream in streams.items():
        table = stream.table.slice(0, 2 * CHECKED)
        for kind in KINDS:
            window = sb.CountWindow(CHECKED, slide=1)
            queries = {
                label: query_of(kind, algorithm, K, window, None)
                for label, algorithm in ALGORITHMS.items()
            }
            answers = {label: sb.rank(table, query) for label, query in queries.items()}
            with as_printed():
                answers[PRINTED] = sb.rank(table, queries[PRINTED])
            for label, answer in answers.items():
                if label != "BS":
                    found[f"{label}, {kind}, {name}"] = answer.equals(answers["BS"])
    return found


def _worst_order() -> dict[str, Point]:
    """Falling scores and probabilities, from 1 to a half: every row is in some answer."""
    table = worst_order(4 * WORST_WINDOW).slice(0, 2 * WORST_WINDOW)
    stream = Stream(table)
    return {
        label: measure(stream, KINDS[0], label, WORST_K, WORST_WINDOW, 0.02) for label in ALGORITHMS
    }


# The report ---------------------------------------------------------------------------------------


def _set_up(
    report: Report, study: Study, streams: Mapping[str, Stream], pairs: Sequence[Pair]
) -> None:
    report.heading("Question")
    report.text((__doc__ or "").partition("\n\n")[2])
    report.heading("Set-up")
    report.bullets([
        "Synthetic: distinct scores in random order, uniform probabilities. Icebergs: "
        "sightings of 2014-2021 drawn at random into a long stream, as the paper did with "
        "1998-2007; the score is days since the first sighting, because these seasons do not "
        "record days drifted.",
        f"Every slide is one row. Windows of up to {study.windows[-1]:,} rows (the paper, and "
        f"`--full`: {WINDOWS[-1]:,}), k up to {study.ks[-1]}.",
        "Space is counted as in the paper: 6 bytes per row in every list that contains it, and "
        "4 bytes per entry of the array r. The memory that our program uses is a different "
        "figure (`state_bytes`).",
        f"Times are processor times of the rows right after the first window, for about "
        f"{study.seconds:g} s in each setting. BS and SCSQ-Buffer take all rows of a count window, "
        "in batches of 5,000 rows, then 10,000 and so on. CSQ, CCSQ and SCSQ take batches of 25 "
        "rows, then 50 and so on, in a time window of one unit per row; its first window is filled "
        "only with the rows that they would hold, because the other rows would leave no trace.",
        "SCSQ-Buffer empties its buffer whenever it has kH rows, as algorithm 2 does. "
        f'"{OURS}" is our own: it takes a whole batch before it empties the buffer.',
    ])  # fmt: skip
    if "icebergs" not in streams:
        report.text(
            "Figures 6-10 are missing: set SKYBAND_DATA to a folder with the sightings to get them."
        )
    report.text("Rows that were timed per setting, and how often the buffer was emptied:")
    rows = []
    for label in LABELS:
        points = [p for pair in pairs for s in (pair.by_k, pair.by_size) for p in s[label]]
        timed = [point.rows for point in points]
        emptied = [point.emptied for point in points]
        rows.append([label, f"{min(timed):,}", f"{max(timed):,}", f"{min(emptied):,}",
                     f"{max(emptied):,}"])  # fmt: skip
    header = ["synopsis", "fewest rows", "most rows", "emptied, least", "emptied, most"]
    report.table(header, rows)


def _show_figure_3(report: Report, sizes: Mapping[str, Sequence[Sample]]) -> None:
    report.heading("Figure 3: the size of the compact set")
    report.text(
        f"""Over whole streams of {FIGURE_3_ROWS:,} rows; means over {SEEDS} seeds with their 95 %
        intervals."""
    )
    ks = FIGURE_3_KS
    lines = [[k, *(f"{column[i]:.0f}" for column in sizes.values())] for i, k in enumerate(ks)]
    report.table(["k", *sizes], lines)
    report.plot(
        "uncertain-figure-3", "Compact set",
        {name: [each.mean for each in line] for name, line in sizes.items()}, "k", "rows",
        [str(k) for k in ks],
        halves={name: [each.half for each in line] for name, line in sizes.items()},
    )  # fmt: skip


def _show_other_seeds(
    report: Report, study: Study, found: Mapping[str, Mapping[str, tuple[Sample, Sample]]]
) -> None:
    report.heading("What another seed would have said")
    both = [pair for by_label in found.values() for pair in by_label.values()]
    space, micros = (max(100 * pair[at].apart for pair in both) for at in (0, 1))
    report.text(
        f"""All that follows is of one seed. Here is one setting of it ({KINDS[0]}, k = {K},
        W = {study.windows[1]:,}) with {SEEDS} seeds: means with their 95 % intervals. A single seed
        is up to {space:.0f} % off the mean in space, and up to {micros:.0f} % in time."""
    )
    columns = ("space (kB)", "µs per row")
    report.table(
        ["synopsis", *(f"{what}, {name}" for name in found for what in columns)],
        [[label, *(f"{each:.2f}" for by_label in found.values() for each in by_label[label])]
         for label in LABELS],
    )  # fmt: skip


def _figures(
    report: Report, axis: str, values: Sequence[int], found: Sweep, fixed: str, stem: str
) -> None:
    quantities: tuple[tuple[str, str, Callable[[Point], float]], ...] = (
        ("Space", "kB", lambda point: point.space / 1000),
        ("Time per row", "µs", lambda point: point.micros),
    )
    for what, unit, of in quantities:
        data = {label: [of(point) for point in points] for label, points in found.items()}
        report.text(f"{what} ({unit}), {fixed}:")
        lines = [[value, *(data[label][i] for label in data)] for i, value in enumerate(values)]
        report.table([axis, *data], lines)
        report.plot(
            f"{stem}-{axis.lower()}-{what.split()[0].lower()}", f"{what}, {fixed}", data, axis,
            unit, [f"{value:,}" for value in values], log=True,
        )  # fmt: skip


def _lemmas(report: Report, pairs: Sequence[Pair]) -> None:
    report.heading("Lemmas 4.2 and 4.4: compact sets, and how many a row updates")
    report.text(
        """The bounds of the proofs are in brackets: CSQ has at most H + H ln(W / H) distinct
        compact sets on average, a row updates at most 2 H of them, and SCSQ has at most 8 log2
        W."""
    )
    rows = []
    for pair in pairs:
        for sweep in (pair.by_k, pair.by_size):
            for point, segmental in zip(sweep["CSQ"], sweep["SCSQ"], strict=True):
                sets, updates, segments = proof_bounds(point)
                rows.append([
                    str(pair), point.k, point.size, point.largest,
                    f"{point.sets:,} ({sets:,.0f})", f"{point.updates:.1f} ({updates:,.0f})",
                    f"{segmental.sets:,} ({segments:,.0f})", f"{segmental.updates:.2f}",
                ])  # fmt: skip
    header = ["stream", "k", "W", "H", "sets of CSQ", "updates per row"]
    report.table([*header, "sets of SCSQ", "SCSQ's updates per row"], rows)


def _table_2(report: Report, pair: Pair) -> None:
    """The powers of k and W with which space and time grow, compared with those of Table 2."""
    report.heading("Table 2: growth with k and W")
    report.text(
        f"{pair}. Each cell gives the power of k (or W) with which our space (or time per row) "
        "grows along the sweep, then the power with which the bound's fastest term grows, using "
        "the measured H. A bound holds if our power is at most 0.25 above that of the bound."
    )
    lines = []
    for label in TABLE_2:
        cells = [label]
        for what in ("space", "time"):
            cells += [f"{o:.2f} / {a:.2f}" for o, a in growth(pair, label, what).values()]
        lines.append(cells)
    report.table(["ours / bound", "space, k", "space, W", "time, k", "time, W"], lines)


def _show_worst_order(report: Report, worst: Mapping[str, Point]) -> None:
    report.heading("The worst order (section 4)")
    report.text(
        f"Scores and probabilities fall from row to row, so every row is in some answer: "
        f"{KINDS[0]}, k = {WORST_K}, W = {WORST_WINDOW:,}. A row counts in every list "
        "that contains it."
    )
    rows = [
        [label, point.retained, f"{point.retained / WORST_WINDOW:.2f}", point.micros]
        for label, point in worst.items()
    ]
    report.table(["synopsis", "rows kept", "× W", "µs per row"], rows)
