"""What all HeavyHitters algorithms share: columns, bad rows, shards, the finished answer.

A partial answer holds the best k items of each (window, group) with their ``count``. It also has
``estimate``, which decides the rank, if that may differ from the count, and ``error``, if that may
be more than zero. Shards split by item, so the full answer is the best k of the shards' answers.

If the answer states its ``mu``, a partial answer has one item more, and a scalar ``bound:mu`` for
what it leaves out. ``finish`` shows the best k; ``mu`` bounds the counts of all other items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Hashes, Ints, Saved, State
from skyband.contract.checks import (
    QuickTests,
    Test,
    faults,
    named,
    null_tests,
    number_tests,
    numeric,
    within,
)
from skyband.contract.rows import Faults, Rows, Windows
from skyband.contract.runs import MORE, Part, Runs
from skyband.contract.synopsis import Synopsis
from skyband.data.columns import output_type, to_arrow
from skyband.data.keys import hash_columns, is_key_type, shards_of
from skyband.data.packing import prefixed, under
from skyband.errors import SchemaError
from skyband.frequency.items import ItemColumns
from skyband.frequency.kernels.counting import sum_runs
from skyband.frequency.latest_rows import LatestRows, bare, latest_of_rows, latest_of_runs
from skyband.frequency.measures import Measure, measure_of
from skyband.frequency.weights import MOST_WEIGHT, ONE_EACH, too_heavy, unfit
from skyband.kernels.borrow import frozen
from skyband.query.frequency import HeavyHitters
from skyband.window import CountWindow

if TYPE_CHECKING:
    from skyband.frequency.sketch_summary import SketchSummaries

_NEGATIVE = "the weight is negative or too large"


class FrequencySynopsis(Synopsis[HeavyHitters]):
    """What HeavyHitters algorithms share: all except summaries and the state over sealed panes."""

    @cached_property
    def items(self) -> tuple[str, ...]:
        """The columns that make up an item."""
        return self.query.key

    @cached_property
    def item_type(self) -> ItemColumns:
        """These columns, once their types are known."""
        return ItemColumns(self.items, self.schema, self.query.most_rows)

    @property
    def own_windows(self) -> bool:
        """Whether each group has its own windows, so that panes expire group by group."""
        return isinstance(self.query.window, CountWindow) and bool(self.query.groups)

    # Columns ----------------------------------------------------------------------------------

    def columns(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        query = self.query
        return named(*query.groups, *self.items, query.weight, query.time, *query.keep)

    def check_types(self, source: str, schema: pa.Schema) -> None:
        for name in self.items:
            kind = schema.field(name).type
            if not is_key_type(kind) or pa.types.is_null(kind):
                raise SchemaError(
                    f"item column {name!r} has type {kind}; it must hold plain values such as "
                    "numbers, times or text: cast it, or name several plain columns"
                )
        if self.query.weight is not None:
            numeric("weight", schema, self.query.weight)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of counts, or of what a measure needs of items."""
        if self.measure is not None:
            return self.measure.dtype
        weight = self.query.weight
        whole = weight is None or pa.types.is_integer(self.schema.field(weight).type)
        return np.dtype(np.int64 if whole else np.float64)

    def output(self) -> pa.Schema:
        return self._output

    @property
    def total_type(self) -> pa.DataType:
        return pa.from_numpy_dtype(self.dtype)

    @cached_property
    def _output(self) -> pa.Schema:
        shown = [pa.field(n, output_type(self.schema.field(n).type)) for n in self.items]
        counted = pa.from_numpy_dtype(self.dtype)
        kept = [pa.field(n, output_type(self.schema.field(n).type)) for n in self.query.keep]
        proven = [pa.field("proven", pa.bool_())] if self.query.proof else []
        known = [pa.field("count", counted), pa.field("error", counted), *proven]
        return pa.schema([*shown, *(self.measure.fields() if self.measure else known), *kept])

    @cached_property
    def measure(self) -> Measure | None:
        """What items are ranked by; None if by their count."""
        return measure_of(self.query, self.schema)

    # Rows -------------------------------------------------------------------------------------

    def validate(self, source: str, batch: pa.RecordBatch) -> Faults | None:
        query = self.query
        tests: list[Test] = []
        for name in self.items:
            tests += null_tests(batch, item=name)
        if query.weight is not None:
            tests += number_tests(batch, "weight", query.weight)
            mask = unfit(batch.column(query.weight), query.signed)
            problem = "the weight is too large" if query.signed else _NEGATIVE
            tests.append((query.weight, problem, mask))
        return faults(batch, tests + null_tests(batch, time=query.time))

    def quick_tests(self, source: str) -> QuickTests | None:
        weight = self.query.weight
        if weight is None:
            return {}
        floating = pa.types.is_floating(self.schema.field(weight).type)
        # Rows that wait are not added up yet: 4,096 such integers surely fit.
        most = float(np.finfo(np.float64).max) if floating else 2**48
        return {weight: within(-most if self.query.signed else 0, most)}

    def shard(self, source: str, batch: pa.RecordBatch, shards: int) -> Ints:
        return shards_of([batch.column(name) for name in self.items], shards)

    def hashed(self, rows: Rows) -> Hashes:
        """Item hashes in run order."""
        hashes = hash_columns([rows.batch.column(name) for name in self.items])
        return hashes if rows.index is None else hashes[rows.index]

    def weighed(self, rows: Rows) -> tuple[Array, Array | None]:
        """Weights in run order, and the total of each run; None if rows have no weights.

        Weights that decay are those at the end of the row's pane.
        """
        if self.query.weight is None:
            return ONE_EACH, None
        weights = frozen(rows.numpy(self.query.weight).astype(self.dtype, copy=False))
        if self.query.signed:
            whole = self.query.aggregate == "sum"  # else the sum is only shown, and may not fit
            return weights, _added(weights if whole else weights.astype(np.float64), rows.offsets)
        totals = sum_runs(weights, rows.offsets)
        if totals.min(initial=0) < 0:
            raise too_heavy(self.query, [([rows.arrow(name) for name in self.items], weights)])
        return weights, totals

    # Weights that are too great ---------------------------------------------------------------

    def check_weight(self, weight: int, summaries: Sequence[Runs]) -> None:
        if weight > MOST_WEIGHT:
            parts = [part for runs in summaries for part in runs.parts.values()]
            raise too_heavy(
                self.query,
                [
                    ([part[name] for name in self.item_type.columns], part[counted])
                    for part in parts
                    for counted in ("count", "weight", "value")
                    if len(part) and counted in part.columns
                ],
            )

    def _check_panes(self, runs: Runs) -> None:
        """Raise DataError if the parts of a pane are too heavy together; parts that repeat join."""
        totals = runs.scalars.get("load", runs.scalars.get("total"))
        if totals is None or totals.dtype.kind == "f" or not len(totals):
            return
        if totals.sum(dtype=np.float64) > MOST_WEIGHT / 2:
            exactly = np.add.reduceat(totals.astype(object), np.flatnonzero(~runs.repeats))
            self.check_weight(max(exactly), [runs])

    # What an algorithm over panes that expire supplies; the methods around add the kept columns

    summaries: SketchSummaries
    """The summaries of a sketch; other algorithms summarise rows themselves."""

    def _summarise(self, rows: Rows) -> Runs:
        """See ``summarise``."""
        return self.summaries.summarise(rows)

    def _combine(self, runs: Runs) -> Runs:
        """See ``combine``."""
        return self.summaries.combine(runs)

    def _bounded_kept(self, runs: Runs) -> Runs:
        """Drop kept rows that a summary has no use for."""
        return runs if self.exact else self.summaries.bounded_kept(runs)

    def _fold(self, panes: Runs, windows: Windows) -> Runs | None:
        """See ``fold``."""
        raise NotImplementedError

    def _partial(self, first: int, end: int, group: int | None) -> Runs:
        """See ``partial``."""
        raise NotImplementedError

    def _stats(self) -> dict[str, int | float]:
        """See ``stats``."""
        raise NotImplementedError

    def _counted_keys(self) -> Hashes | None:
        """The keys of the items that the state counts; None if these are all live items."""
        return None

    # Kept columns -----------------------------------------------------------------------------

    @cached_property
    def latest(self) -> LatestRows | None:
        """The kept columns of each item's latest row; None if the query keeps none."""
        if not self.query.keep:
            return None
        types = {name: self.schema.field(name).type for name in self.query.keep}
        return LatestRows(types, self.many_groups and bool(self.query.groups))

    def summarise(self, rows: Rows) -> Runs:
        runs, keep = self._summarise(rows), self.query.kept
        if not keep:
            return runs
        kept = latest_of_rows(rows, self.hashed(rows), keep)
        return self._bounded_kept(runs.with_parts(kept=kept))

    def combine(self, runs: Runs) -> Runs:
        self._check_panes(runs)
        if not self.query.keep:
            return self._combine(runs)
        joined = runs.part("kept").joined(np.flatnonzero(~runs.repeats))
        kept = latest_of_runs(joined, self.query.kept)
        return self._bounded_kept(self._combine(bare(runs)).with_parts(kept=kept))

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        answers = self.with_kept(panes, [windows], [self._fold(bare(panes), windows)])
        counted = None if self.latest is None else self._counted_keys()
        if self.latest is not None and counted is not None:
            self.latest.keep_only(counted)
        return answers[0]

    def with_kept(
        self, panes: Runs, windows: Sequence[Windows], answers: Sequence[Runs | None]
    ) -> Sequence[Runs | None]:
        """The answers of each reader's windows, with the kept columns."""
        if self.latest is None:
            return answers
        return self.latest.take(panes, windows, answers, self._hashes_of)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        runs = self._partial(first, end, group)
        if self.latest is None or "items" not in runs.parts:
            return runs
        return self.latest.read(runs, self._hashes_of(runs))

    def _hashes_of(self, answers: Runs) -> Hashes:
        """Hashes of the items in answers."""
        part = answers.parts["items"]
        if not len(part):
            return np.zeros(0, np.uint64)
        return hash_columns([part[name] for name in self.item_type.columns])

    # State ------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        kept = {} if self.latest is None else prefixed("kept/", self.latest.state())
        return super().snapshot() | kept

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        if self.latest is not None:
            self.latest.restore(under(arrays, "kept/"))

    def stats(self) -> dict[str, int | float]:
        found = self._stats()
        if self.latest is not None:
            found["state_bytes"] += self.latest.nbytes
        return found

    # Answers ----------------------------------------------------------------------------------

    @property
    def bounded(self) -> bool:
        """Whether answers state ``mu``, the greatest count that an item left out may have."""
        return self.query.proof or not self.exact

    @property
    def reads(self) -> int:
        """How many items a partial answer holds: one more than k if answers state ``mu``."""
        return self.query.k + self.bounded

    @property
    def bounds(self) -> Mapping[str, Any]:
        """An answer without rows leaves nothing out."""
        cut = {} if self.query.most_rows is None else {"cut": 0}
        return {"mu": self.dtype.type(0).item()} | cut if self.bounded else cut

    def finish(self, partials: Sequence[Runs]) -> Runs:
        runs = Runs.concat(partials)
        part = runs.parts["items"]
        if len(partials) > 1:
            runs = _one_per_window(runs.ordered())
            part = self.item_type.sorted(runs.parts["items"])
        shown, scalars = self.item_type.first(part, self.query.k), dict(runs.scalars)
        columns: dict[str, Any] = {name: shown[f"item:{name}"] for name in self.items}
        if self.measure is not None:
            known = self.measure.columns(shown)
        else:
            error = shown.columns.get("error", np.zeros(len(shown), self.dtype))
            known = {"count": shown["count"], "error": error}
        columns |= {name: to_arrow(values) for name, values in known.items()}
        if self.query.most_rows is not None:
            scalars["bound:cut"] = shown.sums(MORE)
        if self.bounded:
            mu = _greatest_after(part, self.query.k)
            if "bound:mu" in scalars:
                mu = np.maximum(mu, scalars["bound:mu"])
            scalars["bound:mu"] = mu
            if self.query.proof:
                least = np.repeat(mu, shown.lengths)
                columns["proven"] = to_arrow(shown["count"] - error >= least)
        columns |= {name: shown[f"keep:{name}"] for name in self.query.keep}
        return Runs(runs.stamp, runs.group, {"rows": Part(shown.offsets, columns)}, scalars)


def _added(weights: Array, offsets: Ints) -> Array:
    """The sum of each run of weights, which may be negative."""
    starts = offsets[:-1]
    return np.add.reduceat(weights, starts) if len(starts) else weights[:0]


def _one_per_window(runs: Runs) -> Runs:
    """The partial answers of shards, joined: exact if all are, with the greatest ``mu``."""
    fresh = np.flatnonzero(~runs.repeats)
    merge = {"exact": np.logical_and, "bound:mu": np.maximum}
    scalars = {name: merge[name].reduceat(values, fresh) for name, values in runs.scalars.items()}
    parts = {name: part.joined(fresh) for name, part in runs.parts.items()}
    return Runs(runs.stamp[fresh], runs.group[fresh], parts, scalars)


def _greatest_after(part: Part, k: int) -> Array:
    """For each run, the greatest count after its first k rows; 0 if there are no others."""
    counts = part["count"]
    found = np.zeros(len(part.lengths), counts.dtype)
    some = part.lengths > k
    if some.any():
        pairs = np.stack([part.offsets[:-1][some] + k, part.offsets[1:][some]], axis=1).ravel()
        found[some] = np.maximum.reduceat(np.append(counts, 0), pairs)[::2]
    return found
