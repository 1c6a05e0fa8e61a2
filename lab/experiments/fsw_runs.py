"""Runs of the FSW paper's experiments: each algorithm on each data set, beside exact counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from lab.datasets.real import real
from lab.experiments.fsw_paper import DESTINATIONS, words
from lab.experiments.report import Progress
from lab.experiments.seeds import SEEDS, Sample
from skyband.data.keys import hash_columns
from skyband.frequency.many_groups import fullest_cell

K = 500
ARTICLE = 286
"""Words of the paper's average article: 1,489,947 words in 5,208 articles."""
ROW_BY_ROW = {"raw_rows": 1 << 30}
LABELS = {
    "ss": "SS", "fss": "FSS", "fsp": "FSP", "fsw": "FSW", "fsw-r": "FSWr", "fsw-f": "FSWf",
    "exact": "exact",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One table of the paper on one of our data sets."""

    name: str
    title: str
    paper: str
    table: pa.Table
    item: str
    time: str | None
    window: sb.TimeWindow | sb.CountWindow
    settings: dict[str, dict[str, int]]
    panes: str


@dataclass(frozen=True)
class Measured:
    """What one algorithm did in one case."""

    precision: list[float]
    stats: dict[str, int | float]
    most_bytes: int
    worst: float
    """The greatest share of an answer's items whose true count is out of bounds; must be 0."""
    unsure: list[float]
    """For each window, ``mu`` of the answer divided by the 500th greatest true count."""
    proven: float
    """The share of all rows whose place is proven."""
    per_window: int
    """Panes of a window."""
    rows: Sequence[int] = ()
    """The rows of each window over time."""

    @property
    def deviation(self) -> float | None:
        return float(np.std(self.precision)) if self.precision else None


Found = dict[str, dict[str, Measured]]
"""By case and algorithm."""
Moved = dict[str, dict[str, Sample]]
"""Precision of cases whose rows have changed places, in several orders; by case and algorithm."""


@dataclass(frozen=True)
class Cells:
    """How the items of one window fill the cells of FSWr."""

    distinct: int
    cells: int
    capacity: int
    expected: float
    fullest: int
    tau: int
    at_tau: int
    mu: int | float


def mean(values: Sequence[float]) -> float | None:
    """The average; None if there are no values."""
    return float(np.mean(values)) if len(values) else None


def precision_of(found: Found, case: str, name: str) -> float:
    """The average precision of an algorithm in one case; 0 if there was no full window."""
    return mean(found[case][name].precision) or 0.0


def work(each: Measured, lists: int = 1) -> float:
    """Operations, with each insert and removal counted once; stats count both lists of FSP."""
    stats = each.stats
    changed = (stats["inserts"] + stats["removals"]) / lists
    return changed + stats["hits"] + stats.get("updates", 0)


def cases(scale: float) -> list[Case]:
    """The paper's tables on our data."""
    folha = _first(real("folha_words_pt", ["word"]), scale)
    reuters = _first(real("reuters21578_words", ["ts", "word"]), scale)
    log = _first(real("osdf_access_log", ["ts", "object_id"]), scale)
    day = 8_277
    return [
        Case("folha-week", "Weekly top-500 words, Folha (Table 1, Figure 6)", "week", folha, "word",
             None, sb.CountWindow(7 * day, slide=day), words(4), "day"),
        Case("reuters-week", "Weekly top-500 words, Reuters (Table 1, Figure 6)", "week", reuters,
             "word", "ts", sb.TimeWindow("7 days", slide="1 day"), words(4), "day"),
        Case("folha-month", "Monthly top-500 words, Folha (Table 2, Figure 7)", "month", folha,
             "word", None, sb.CountWindow(30 * day, slide=day), words(16), "day"),
        Case("reuters-month", "Monthly top-500 words, Reuters (Table 2, Figure 7)", "month",
             reuters, "word", "ts", sb.TimeWindow("30 days", slide="1 day"), words(16), "day"),
        Case("osdf-day", "Daily top-500 objects, OSDF (Table 4, Figure 8)", "day", log, "object_id",
             "ts", sb.TimeWindow("1 day", slide="1 hour"), DESTINATIONS, "hour"),
        Case("osdf-3-days", "3-day top-500 objects, OSDF (Table 5, Figure 9)", "3 days", log,
             "object_id", "ts", sb.TimeWindow("3 days", slide="4 hours"), DESTINATIONS, "4 hours"),
    ]  # fmt: skip


def in_other_orders(scale: float, progress: Progress) -> Moved:
    """Precision on shuffled rows."""
    found: dict[str, dict[str, list[float]]] = {}
    for seed in range(SEEDS):
        for case in shuffled(scale, seed):
            for name, each in run(case, progress).items():
                known = found.setdefault(case.name, {}).setdefault(name, [])
                known.append(float(np.mean(each.precision)) if each.precision else float("nan"))
    return {
        case: {name: Sample(tuple(values)) for name, values in runs.items()}
        for case, runs in found.items()
    }


def shuffled(scale: float, seed: int) -> list[Case]:
    """Folha with its articles, and the log with the rows of each day, in random order.

    Only the algorithms that the verdicts compare.
    """
    found = []
    rng = np.random.default_rng(seed)
    wanted: tuple[str, ...]
    for case in cases(scale):
        rows = case.table.num_rows
        if case.name.startswith("folha"):
            wanted, order = ("fss", "fsw", "fsw-r"), _blocks(rows, ARTICLE, rng)
        elif case.name == "osdf-day":
            wanted, order = ("fss", "fsp", "fsw-r", "fsw-f"), _within_days(case.table["ts"], rng)
        else:
            continue
        at = case.table.schema.get_field_index(case.item)
        item = case.table[case.item].take(pa.array(order))
        table = case.table.set_column(at, case.item, item).combine_chunks()
        settings = {name: case.settings[name] for name in wanted}
        title = f"{case.title}, shuffled"
        found.append(replace(case, title=title, table=table, settings=settings))
    return found


def _blocks(rows: int, size: int, rng: np.random.Generator) -> Any:
    """An order of rows in which blocks of this size change places."""
    starts = rng.permutation(-(-rows // size)) * size
    order = (starts[:, None] + np.arange(size)).ravel()
    return order[order < rows]


def _within_days(times: pa.ChunkedArray, rng: np.random.Generator) -> Any:
    """An order in which the rows of each day change places."""
    day = times.cast(pa.int64()).to_numpy() // 86_400_000_000
    return np.lexsort((rng.random(len(day)), day))


def _first(table: pa.Table, scale: float) -> pa.Table:
    rows = table.num_rows if scale >= 1 else max(1, int(table.num_rows * scale))
    return table.slice(0, rows).combine_chunks()


# Running ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """The greatest true counts of one window."""

    counts: dict[Any, int]
    least: int
    """The 500th greatest count."""
    wanted: int


def run(case: Case, progress: Progress) -> dict[str, Measured]:
    """All algorithms of a case; the last is ``exact``."""
    progress(f"{case.title}: exact")
    tables, stats, most, _ = _answers(case, "exact", 4 * K, {})
    truth = [_truth(table, case.item) for table in tables]
    rows = _rows_of(tables, case)
    panes = case.window.panes.per_window
    found = {}
    for name, sizes in case.settings.items():
        progress(f"{case.title}: {LABELS[name]}")
        made = _measured(truth, case.item, *_answers(case, name, K, sizes), panes)
        found[name] = replace(made, rows=rows)
    found["exact"] = Measured([1.0] * len(truth), stats, most, 0.0, [], 1.0, panes)
    return found


def _rows_of(tables: Sequence[pa.Table], case: Case) -> list[int]:
    """The number of rows in the window of each answer, if time makes the windows."""
    if case.time is None or any(not table.num_rows for table in tables):
        return []
    kind = case.table[case.time].type
    times = case.table[case.time].cast(pa.int64()).to_numpy()
    places = [
        np.searchsorted(times, [int(table[name].cast(kind).cast(pa.int64())[0].as_py())
                                for table in tables])
        for name in ("window_start", "window_end")
    ]  # fmt: skip
    return [int(count) for count in places[1] - places[0]]


def _truth(table: pa.Table, item: str) -> Truth:
    counts = table["count"].to_pylist()
    known = dict(zip(table[item].to_pylist(), counts, strict=True))
    wanted = min(K, len(counts))
    return Truth(known, counts[K - 1] if len(counts) >= K else 0, wanted)


def _measured(
    truth: list[Truth], item: str, tables: list[pa.Table], stats: dict[str, int | float], most: int,
    mus: list[float], panes: int,
) -> Measured:  # fmt: skip
    precision, worst, proven = [], 0.0, []
    for true, got in zip(truth, tables, strict=True):
        right = outside = 0
        shown = zip(*(got[n].to_pylist() for n in (item, "count", "error")), strict=True)
        for value, count, error in shown:
            real_count = true.counts.get(value)
            right += real_count is not None and real_count >= true.least
            outside += real_count is not None and not count - error <= real_count <= count
        precision.append(right / true.wanted if true.wanted else 1.0)
        worst = max(worst, outside / max(1, got.num_rows))
        proven += got["proven"].to_pylist()
    unsure = [mu / max(1, true.least) for mu, true in zip(mus, truth, strict=True)]
    return Measured(precision, stats, most, worst, unsure, mean(proven) or 0.0, panes)


def _answers(
    case: Case, algorithm: str, k: int, sizes: dict[str, Any]
) -> tuple[list[pa.Table], dict[str, int | float], int, list[float]]:
    """The answers of all full windows, the operation counts, the most bytes, and each ``mu``."""
    exact = algorithm == "exact"
    query = sb.HeavyHitters(
        k=k, item=case.item, time=case.time, window=case.window, algorithm=algorithm,
        options={} if exact else ROW_BY_ROW, proof=not exact, **sizes,
    )  # fmt: skip
    monitor = sb.Monitor(query)
    panes, full, tables, most = case.window.panes, None, [], 0
    mus: list[float] = []
    for batch in case.table.to_batches(max_chunksize=1 << 14):
        for answer in [*monitor.push(batch)]:
            if full is None:
                full = panes.per_window // panes.per_slide - 1
            if full > 0:
                full -= 1
            else:
                tables.append(answer.table)
                mus.append(answer.bounds.get("mu", 0))
        most = max(most, int(monitor.stats()["state_bytes"]))
    return tables, monitor.stats(), most, mus


def cells_of(case: Case, found: dict[str, Measured]) -> Cells:
    """How the items of the last window's length of rows fill the cells of FSWr."""
    sizes = case.settings["fsw-r"]
    table = case.table
    if case.time is None:
        table = table.slice(max(0, table.num_rows - case.window.panes.size))
    else:
        times = table[case.time].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
        table = table.slice(int(np.searchsorted(times, times[-1] - case.window.panes.size)))
    hashes, rows = np.unique(hash_columns([table[case.item].combine_chunks()]), return_counts=True)
    h, m = sizes["cells"], min(sizes["capacity"], len(hashes))
    fine = ((hashes >> np.uint64(32)) * np.uint64(h)) >> np.uint64(32)
    items = np.bincount(fine.astype(np.int64), minlength=h)
    total = np.bincount(fine.astype(np.int64), weights=rows, minlength=h)
    fullest = np.argsort(-total, kind="stable")
    tau = int(np.searchsorted(np.cumsum(items[fullest]), m)) + 1
    return Cells(
        len(hashes), h, m, fullest_cell(len(hashes), h), int(items.max()), tau,
        int(total[fullest[tau - 1]]), found["fsw-r"].stats["mu"],
    )  # fmt: skip
