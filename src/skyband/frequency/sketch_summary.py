"""Summaries for the sketches: the rows of a pane as they came, reduced once there are many.

The sketches work row by row, and what they keep depends on the order of the rows. So a pane's
summary is its rows (hash, weight, item), without a copy of the items. But a pane that stays open
must not grow without bound. Whenever ``raw_rows`` rows have gathered, they are counted by item into
the ``known`` part. If that then has more items than half of ``raw_rows``, and more than a sketch
can hold, the least frequent are cut off, and ``missing`` bounds how often each of them may have
occurred. Rows are taken in blocks of exactly ``raw_rows``, so the result does not depend on how the
input was cut into batches. docs/internals/decisions/0009 gives the reasons.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Ints
from skyband.contract.rows import Rows
from skyband.contract.runs import Part, Runs, expand, offsets_of, pick
from skyband.data.columns import plain, take
from skyband.data.keys import owned_keys
from skyband.errors import QueryError
from skyband.frequency.base import ONE_EACH, FrequencySynopsis
from skyband.frequency.items import woven
from skyband.frequency.kernels.counting import count_runs
from skyband.frequency.kernels.item_heap import PaneItems
from skyband.kernels.borrow import frozen
from skyband.kernels.hashing import hash_int64
from skyband.query.checks import count
from skyband.query.frequency import HeavyHitters

__all__ = ["SketchSynopsis"]

_NO_HASHES = np.zeros(0, np.uint64)
_MOST_PANES = 10_000
_RAW_ROWS = 1 << 18


class SketchSynopsis(FrequencySynopsis):
    """What sketches share: their sizes and their summaries."""

    exact = False

    def __init__(self, query: HeavyHitters) -> None:
        panes = query.window.panes.per_window
        if panes > _MOST_PANES:
            raise QueryError(
                f"the window has {panes:,} panes, but a sketch keeps state for each pane and "
                f"allows at most {_MOST_PANES:,}; use a longer slide, or algorithm='exact'"
            )
        super().__init__(query)
        self.panes = panes
        few = max(4 * query.k, 16) if query.groups else max(20 * query.k, 1000)
        self.capacity = query.capacity or few
        raw = query.options.get("raw_rows", max(_RAW_ROWS, 16 * self.capacity))
        count("options['raw_rows']", raw)
        self.raw_rows = int(raw)
        self.most_known = max(self.raw_rows // 2, self.capacity + 1)
        """How many items a cut leaves: more than a sketch can hold, so that it notices the loss
        even if everything that was cut off has weight 0."""

    # Rows -------------------------------------------------------------------------------------

    def _summarise(self, rows: Rows) -> Runs:
        weights, total = self.weighed(rows)
        columns: dict[str, Any] = {} if self.item_type.raw else {"hash": self.hashed(rows)}
        if total is not None:
            columns["weight"] = weights
        columns |= {f"item:{name}": self._as_bound(rows.arrow(name), name) for name in self.items}
        runs = rows.runs({"rows": Part(rows.offsets, columns)}, total)
        return runs.with_scalars(missing=np.zeros(len(runs), self.dtype))

    def _as_bound(self, column: pa.Array, name: str) -> pa.Array:
        """Cast a column to the type that the source had first, so that batches can be joined."""
        kind = self.schema.field(name).type
        if column.type == kind:
            return column
        column = plain(column)
        if pa.types.is_dictionary(kind):
            column = column.dictionary_encode()  # a cast alone encodes only text
        return column if column.type == kind else column.cast(kind)

    def _combine(self, runs: Runs) -> Runs:
        known, fresh = runs.part("known"), np.flatnonzero(~runs.repeats)
        united = runs.with_parts(known=known).united()
        if len(known):
            edges = zip(fresh.tolist(), [*fresh[1:].tolist(), len(runs)], strict=True)
            united = united.with_parts(
                known=_joined([self._merge(runs, known, *edge) for edge in edges])
            )
        return self.reduced(united)

    def _merge(self, runs: Runs, known: Part, start: int, stop: int) -> Part:
        """Merge counted items of one pane; items that a part lacks may have been cut off there."""
        part, missing = known.slice(start, start + 1), runs.scalars["missing"][start]
        for run in range(start + 1, stop):
            other = runs.scalars["missing"][run]
            part = _merged(part, missing, known.slice(run, run + 1), other)
            missing += other
        return part

    def _bounded_kept(self, runs: Runs) -> Runs:
        """Drop the kept rows of items that were cut off, once there are too many."""
        kept = runs.parts["kept"]
        if kept.lengths.max(initial=0) <= self.raw_rows + self.most_known:
            return runs
        keys = [
            owned_keys(hashes, np.arange(len(runs)), part.offsets)
            for part in (kept, runs.part("rows"), runs.part("known"))
            if len(hashes := self._hashes(part, 0, len(part)))
        ]
        mine = np.flatnonzero(np.isin(keys[0], np.concatenate(keys[1:]), kind="sort"))
        return runs.with_parts(kept=kept.rows(mine, np.searchsorted(mine, kept.offsets)))

    def reduced(self, runs: Runs) -> Runs:
        """Count whole blocks of ``raw_rows`` rows by item, so that each run has fewer rows left."""
        rows = runs.parts["rows"]
        long = np.flatnonzero(rows.lengths >= self.raw_rows)
        if not len(long):
            return runs
        known = runs.part("known")
        missing = runs.scalars["missing"].copy()
        pieces, blocks = [], rows.lengths // self.raw_rows
        for run in range(len(runs)):
            part, at = known.slice(run, run + 1), int(rows.offsets[run])
            for _ in range(int(blocks[run])):
                block = self._counted(rows, at, at + self.raw_rows)
                part = _merged(part, missing[run], block, missing[run] * 0)
                part, missing[run] = _cut(part, missing[run], self.most_known)
                at += self.raw_rows
            pieces.append(part)
        taken = blocks * self.raw_rows
        left = rows.lengths - taken
        positions = expand(rows.offsets[:-1] + taken, left)
        rest = rows.rows(positions, offsets_of(left))
        parts = {"rows": rest, "known": _joined(pieces)}
        return Runs(runs.stamp, runs.group, parts, {**runs.scalars, "missing": missing})

    # What kernels read ------------------------------------------------------------------------

    def unpacked(self, runs: Runs, raw: bool = False) -> PaneItems:
        """Arrays of all runs: ``known`` items with counts and errors, then rows with weights.

        With ``raw``, items of rows that are 64-bit integers are passed on without hashing.
        """
        rows, known = runs.part("rows"), runs.part("known")
        weighted = self.query.weight is not None and len(rows)
        some = len(known) > 0
        return PaneItems(
            stamp=frozen(runs.stamp),
            keys=frozen(self._hashes(rows, 0, len(rows), raw)),
            weights=frozen(rows["weight"] if weighted else np.zeros(0, self.dtype)),
            offsets=frozen(rows.offsets),
            known=frozen(known["hash"] if some else _NO_HASHES),
            counts=frozen(known["count"] if some else np.zeros(0, self.dtype)),
            errors=frozen(known["error"] if some else np.zeros(0, self.dtype)),
            known_offsets=frozen(known.offsets),
            missing=frozen(runs.scalars["missing"].astype(self.dtype, copy=False)),
        )

    def _hashes(self, rows: Part, start: int, stop: int, raw: bool = False) -> Array:
        """Hashes of some rows; with ``raw``, 64-bit integers stay as they are."""
        if stop == start:
            return _NO_HASHES
        if "hash" in rows.columns:
            return np.asarray(rows["hash"][start:stop])
        values = self.item_type.integers(rows)[start:stop]
        return values if raw else hash_int64(values.view(np.int64))

    def _counted(self, rows: Part, start: int, stop: int) -> Part:
        """Rows counted by item, in order of first appearance."""
        weights = rows["weight"][start:stop] if "weight" in rows.columns else ONE_EACH
        offsets = np.array([0, stop - start], np.int64)
        hashes = frozen(self._hashes(rows, start, stop))
        first, counts, offsets = count_runs(hashes, False, frozen(weights), offsets)
        columns: dict[str, Any] = {
            "hash": hashes[first],
            "count": counts.astype(self.dtype, copy=False),
            "error": np.zeros(len(first), self.dtype),
        }
        for name, column in rows.columns.items():
            if name.startswith("item:"):
                columns[name] = column.take(pa.array(start + first))
        return Part(offsets, columns)

    def item_columns(self, runs: Runs, rows: Ints) -> dict[str, pa.Array]:
        """Item columns of rows, numbered as kernels number them: known items first."""
        known = runs.part("known")
        early = rows < len(known)
        first = self._items_at(known, rows[early])
        return woven(early, first, self._items_at(runs.part("rows"), rows[~early] - len(known)))

    def _items_at(self, part: Part, rows: Ints) -> dict[str, pa.Array]:
        """Item columns of these rows of a part."""
        if not len(rows):
            kinds = zip(self.item_type.columns, self.item_type.types, strict=True)
            return {name: plain(pa.array([], kind)) for name, kind in kinds}
        return {name: plain(take(part[name], rows)) for name in self.item_type.columns}


def _joined(pieces: list[Part]) -> Part:
    """Concatenate parts of one run each."""
    runs = [Runs(np.zeros(1, np.int64), np.zeros(1, np.int32), {"": part}) for part in pieces]
    return Runs.concat(runs).parts[""]


def _merged(one: Part, missing_one: Any, two: Part, missing_two: Any) -> Part:
    """Merge two parts of one pane; an item that one of them lacks may have been cut off there."""
    if not len(one) and not missing_one:
        return two
    if not len(two) and not missing_two:
        return one
    part = Part(np.array([0, len(one) + len(two)]), _joined([one, two]).columns)
    hashes, offsets = frozen(part["hash"]), part.offsets
    first, counts, ends = count_runs(hashes, False, frozen(part["count"]), offsets)
    _, errors, _ = count_runs(hashes, False, frozen(part["error"]), offsets)
    _, sides, _ = count_runs(hashes, False, ONE_EACH, offsets)
    absent = np.where(first < len(one), missing_two, missing_one)
    absent = np.where(sides == 1, absent, 0).astype(counts.dtype)
    columns = {name: pick(column, first) for name, column in part.columns.items()}
    return Part(ends, columns | {"count": counts + absent, "error": errors + absent})


def _cut(part: Part, missing: Any, most: int) -> tuple[Part, Any]:
    """Keep the ``most`` heaviest items; the ``missing`` returned bounds the count of any other."""
    if len(part) <= most:
        return part, missing
    order = np.argsort(-part["count"], kind="stable")
    missing = max(missing, part["count"][order[most]])
    kept = np.sort(order[:most])
    return part.rows(kept, np.array([0, most])), missing
