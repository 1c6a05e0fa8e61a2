"""Summaries for the sketches: the rows of a pane as they came, reduced once there are many.

The sketches work row by row, and what they keep depends on the order of the rows. So a pane's
summary is its rows (hash, weight, item), without a copy of the items. But a pane that stays open
must not grow without bound. Whenever ``raw_rows`` rows have gathered, they are counted by item into
the ``known`` part. If that then has more items than half of ``raw_rows``, and more than a sketch
can hold, the least frequent are cut off, and ``missing`` bounds how often each of them may have
occurred. Rows are taken in blocks of exactly ``raw_rows``, so the result does not depend on how the
input was cut into batches.

Summaries that are sent and stored, as on Spark, have no rows: all are counted by item at once. Half
of ``raw_rows`` items are kept here, too; by default ``_STORED`` times the capacity. ``missing`` is
then at most W / (n + 1) for a pane of weight W of which n items are kept, however its rows were
split: added items are cut as in the summaries of Misra and Gries, whose counts are ours less
``missing``. Each cut takes what it adds to ``missing`` from n + 1 counts at least.

docs/internals/decisions/0009 gives the reasons.
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

_NO_HASHES = np.zeros(0, np.uint64)
_MOST_PANES = 10_000
_RAW_ROWS = 1 << 18
_STORED = 2
"""Items of a stored summary, as a multiple of the capacity: what they lack is then half of
what Space-Saving itself may err."""


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
        self._keep(max(_RAW_ROWS, 16 * self.capacity))

    def prepare(self, stored: bool = False, late: bool = False, positions: bool = False) -> None:
        if stored:
            self._keep(2 * _STORED * self.capacity)
            self.raw_rows = 0

    def _keep(self, usual: int) -> None:
        """Keep so many rows of a pane, unless the query says how many, and half as many items."""
        raw = self.query.options.get("raw_rows", usual)
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
        part = Part(rows.offsets, columns)
        runs = rows.runs({"rows": part} if self.raw_rows else {"known": self._counted(part)}, total)
        return self._cut(runs.with_scalars(missing=np.zeros(len(runs), self.dtype)))

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
        return self.reduced(self._merged(runs))

    def _merged(self, runs: Runs) -> Runs:
        """One run per (pane, group); items that a part lacks may have been cut off there."""
        known, united = runs.part("known"), runs.united()
        if not len(known) or len(united) == len(runs):
            return united
        part, lacks = united.parts["known"], np.repeat(runs.scalars["missing"], known.lengths)
        hashes = frozen(part["hash"])
        # An item has what its own parts count, and for each of the others what is missing there.
        counts, errors = (frozen(part[name] - lacks) for name in ("count", "error"))
        first, counts, offsets = count_runs(hashes, False, counts, part.offsets)
        _, errors, _ = count_runs(hashes, False, errors, part.offsets)
        lacks = np.repeat(united.scalars["missing"], np.diff(offsets))
        columns = {name: pick(column, first) for name, column in part.columns.items()}
        columns |= {"count": counts + lacks, "error": np.maximum(errors + lacks, 0)}
        return self._cut(united.with_parts(known=Part(offsets, columns)))

    def _cut(self, runs: Runs) -> Runs:
        """Keep the ``most_known`` heaviest items of each run; ``missing`` bounds all others."""
        known, most = runs.part("known"), self.most_known
        long = np.flatnonzero(known.lengths > most)
        if not len(long):
            return runs
        missing, inside = runs.scalars["missing"].copy(), np.ones(len(known), np.bool_)
        for run in long.tolist():
            low, high = known.offsets[run : run + 2].tolist()
            counts = known["count"][low:high]
            at = len(counts) - most
            ranked = np.partition(counts, (at - 1, at))
            missing[run] = max(missing[run], ranked[at - 1])
            inside[low:high] = counts > ranked[at]
            ties = low + np.flatnonzero(counts == ranked[at])
            inside[ties[: most - np.count_nonzero(inside[low:high])]] = True
        heavy = np.flatnonzero(inside)
        known = known.rows(heavy, np.searchsorted(heavy, known.offsets))
        return runs.with_parts(known=known).with_scalars(missing=missing)

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
        while (rows := runs.part("rows")).lengths.max(initial=0) >= max(self.raw_rows, 1):
            taken = np.where(rows.lengths >= self.raw_rows, self.raw_rows, 0)
            block, rest = _split(rows, taken)
            none = {name: values * 0 for name, values in runs.scalars.items()}
            counted = Runs(runs.stamp, runs.group, {"known": self._counted(block)}, none)
            before = runs.with_parts(rows=Part(rest.offsets * 0, {}))
            runs = self._merged(Runs.concat([before, counted]).ordered()).with_parts(rows=rest)
        return runs

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

    def _counted(self, rows: Part) -> Part:
        """The rows of each run counted by item, in order of first appearance."""
        weights = rows["weight"] if "weight" in rows.columns else ONE_EACH
        hashes = frozen(self._hashes(rows, 0, len(rows)))
        first, counts, offsets = count_runs(hashes, False, frozen(weights), rows.offsets)
        columns: dict[str, Any] = {
            "hash": hashes[first],
            "count": counts.astype(self.dtype, copy=False),
            "error": np.zeros(len(first), self.dtype),
        }
        columns |= {name: take(rows[name], first) for name in self.item_type.columns}
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


def _split(part: Part, lengths: Ints) -> tuple[Part, Part]:
    """The first rows of each run, so many, and the rest."""
    starts, left = part.offsets[:-1], part.lengths - lengths
    first, rest = expand(starts, lengths), expand(starts + lengths, left)
    return part.rows(first, offsets_of(lengths)), part.rows(rest, offsets_of(left))
