"""Items of one or more columns of any type: their order, and a store for retained ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.runs import Part, expand, offsets_of, pick
from skyband.data.column_store import ColumnStore
from skyband.data.columns import native_dtype, plain, spans, to_numpy
from skyband.data.order import id_ranks, sortable
from skyband.kernels.core.strings import prefix_keys

__all__ = ["ItemStore", "order_keys", "ranked", "settled"]


def order_keys(columns: Sequence[pa.Array]) -> Ints:
    """Integers that never contradict the order of the items; different items may share one.

    The key of a number or time is its value, that of text its first eight bytes; of several columns
    only the first counts.
    """
    column = plain(columns[0])
    if native_dtype(column.type) is not None:
        return sortable(to_numpy(column))
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return prefix_keys(*spans(column), 0)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return prefix_keys(*spans(column), 0)
    return np.zeros(len(column), np.int64)


def keys_decide(kinds: Sequence[pa.DataType]) -> bool:
    """Whether items with equal order keys are equal."""
    return len(kinds) == 1 and native_dtype(kinds[0]) is not None


def settled(part: Part, names: Sequence[str], k: int, runs: Ints | None = None) -> Part:
    """The best k of each run: greatest estimate first, then smallest error, then smallest item.

    ``runs`` are the runs whose rows may not be sorted yet; None means all.
    """
    lengths = part.lengths
    if runs is None:
        runs = np.arange(len(lengths))
    if len(runs):
        rows = expand(part.offsets[runs], lengths[runs])
        estimate = part["estimate" if "estimate" in part.columns else "count"][rows]
        keys: list[Any] = [
            id_ranks(pick(part[f"item:{name}"], rows)) if len(rows) else rows
            for name in reversed(names)
        ]
        if "error" in part.columns:
            keys.append(part["error"][rows])
        keys += [-estimate, np.repeat(runs, lengths[runs])]
        order = np.arange(len(part))
        order[rows] = rows[np.lexsort(keys)]
        if (lengths <= k).all():
            return part.rows(order, part.offsets)
    else:
        order = np.arange(len(part))
        if (lengths <= k).all():
            return part
    kept = np.minimum(lengths, k)
    best = order[expand(part.offsets[:-1], kept)]
    return part.rows(best, offsets_of(kept))


def ranked(part: Part, names: Sequence[str], k: int) -> Part:
    """``settled`` for runs that are sorted except for ties: only runs with ties are sorted."""
    estimate = part["estimate" if "estimate" in part.columns else "count"]
    same = estimate[1:] == estimate[:-1]
    if "error" in part.columns:
        same &= part["error"][1:] == part["error"][:-1]
    same[part.offsets[1:-1][(part.offsets[1:-1] > 0) & (part.offsets[1:-1] < len(part))] - 1] = (
        False
    )
    tied = np.flatnonzero(same)
    runs = np.unique(np.searchsorted(part.offsets, tied, side="right") - 1)
    return settled(part, names, k, runs)


class ItemStore:
    """The columns of retained items, by slot."""

    def __init__(self, names: Sequence[str], kinds: Sequence[pa.DataType]) -> None:
        self.names = tuple(names)
        self.stores = [ColumnStore(kind) for kind in kinds]

    @property
    def kinds(self) -> list[pa.DataType]:
        return [store.type for store in self.stores]

    @property
    def nbytes(self) -> int:
        return sum(store.nbytes for store in self.stores)

    def put(self, slots: npt.NDArray[Any], part: Part, positions: npt.NDArray[Any]) -> None:
        """Copy items out of a summary."""
        for name, store in zip(self.names, self.stores, strict=True):
            store.put(slots, part[f"item:{name}"], positions)

    def gather(self, slots: npt.NDArray[Any]) -> dict[str, pa.Array]:
        """Item columns of these slots."""
        return {
            f"item:{name}": store.gather(slots)
            for name, store in zip(self.names, self.stores, strict=True)
        }

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Flat arrays for a snapshot."""
        return {
            f"item{i}/{name}": value
            for i, store in enumerate(self.stores)
            for name, value in store.state().items()
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore from a snapshot."""
        for i, store in enumerate(self.stores):
            prefix = f"item{i}/"
            mine = {n[len(prefix) :]: a for n, a in arrays.items() if n.startswith(prefix)}
            self.stores[i] = ColumnStore.from_state(store.type, mine)
