"""Items of one or more columns of any type: their order, and codes for those that live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Codes, Hashes, Ints, Mask, Saved, State, grown
from skyband.contract.runs import MORE, Part, with_ties
from skyband.data.columns import OFFSETS_32, OFFSETS_64, native_dtype, plain, spans, to_numpy
from skyband.data.flat_state import Form, admitted, require
from skyband.data.keys import KeyIndex
from skyband.data.order import id_ranks, sortable
from skyband.data.packing import prefixed, under
from skyband.data.retained_rows import RetainedRows
from skyband.frequency.kernels.counting import add_refs, drop_refs
from skyband.kernels.borrow import frozen
from skyband.kernels.hashing import hash_int64
from skyband.kernels.strings import prefix_keys


def order_keys(columns: Sequence[pa.Array]) -> Ints:
    """Integers that never contradict the order of the items; different items may share one.

    The key of a number or time is its value, that of text its first eight bytes; of several columns
    only the first counts.
    """
    column = plain(columns[0])
    if native_dtype(column.type) is not None:
        return sortable(to_numpy(column))
    if column.type in OFFSETS_32 or column.type in OFFSETS_64:
        return prefix_keys(*spans(column), 0)
    return np.zeros(len(column), np.int64)


def woven(chosen: Mask, ones: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, pa.Array]:
    """Rows of ``ones`` where they are chosen, else those of ``others``, each in their order."""
    if chosen.all() or not chosen.any():
        return dict(ones if len(chosen) and chosen.all() else others)
    place = np.where(chosen, np.cumsum(chosen) - 1, np.cumsum(~chosen) - 1 + chosen.sum())
    both = {name: pa.concat_arrays([ones[name], others[name]]) for name in ones}
    return {name: column.take(pa.array(place)) for name, column in both.items()}


class ItemColumns:
    """The columns that make up an item, under their names in summaries."""

    def __init__(self, names: Sequence[str], schema: pa.Schema, most: int | None = None) -> None:
        """With ``most``, an answer has up to so many items: also those that tie with the k-th."""
        self.most = most
        self.names = tuple(names)
        self.columns = tuple(f"item:{name}" for name in names)
        self.types = [schema.field(name).type for name in names]

    def new_store(self) -> RetainedRows:
        """An empty store of items."""
        return RetainedRows(dict(zip(self.columns, self.types, strict=True)), label="item")

    @cached_property
    def raw(self) -> bool:
        """Whether items are 64-bit integers: then kernels hash them as they go."""
        kind = native_dtype(self.types[0])
        plain = kind is not None and kind.kind in "iu" and kind.itemsize == 8
        return plain and len(self.names) == 1

    @cached_property
    def decided(self) -> bool:
        """Whether items with equal order keys are equal, so that the keys order any two items."""
        one = len(self.names) == 1 and native_dtype(self.types[0]) is not None
        return one and self.most is None

    def order_keys(self, columns: Sequence[pa.Array]) -> Ints:
        """See ``order_keys``; if ties are shown, all are equal, so that all that ties is found."""
        return np.zeros(len(columns[0]), np.int64) if self.most else order_keys(columns)

    def integers(self, part: Part) -> Hashes:
        """The items of a part as they are; only if items are ``raw``."""
        if not len(part):
            return np.zeros(0, np.uint64)
        return frozen(to_numpy(part[self.columns[0]])).view(np.uint64)

    def hashes(self, part: Part) -> Hashes:
        """Hashes of the items of a part."""
        if not len(part):
            return np.zeros(0, np.uint64)
        if "hash" in part.columns:
            return np.ascontiguousarray(part["hash"])
        return hash_int64(self.integers(part).view(np.int64))

    def settled(self, part: Part, k: int, runs: Ints | None = None) -> Part:
        """The best k of each run: greatest estimate first, then smallest error, then smallest item.

        ``runs`` are the runs whose rows may not be sorted yet; None means all.
        """
        return self.first(self.sorted(part, runs), k)

    def sorted(self, part: Part, runs: Ints | None = None) -> Part:
        """As ``settled``, with all rows."""
        if runs is None:
            runs = np.arange(len(part.lengths))
        return part.resorted(runs, self.order)

    def first(self, part: Part, k: int) -> Part:
        """The best k of each sorted run, and if ties are shown those that tie with the k-th."""
        if self.most is None:
            return part.first_rows(k)
        columns = {MORE: np.zeros(len(part), np.int64), **part.columns}
        return with_ties(Part(part.offsets, columns), _ranking(part), k, self.most)

    def order(self, part: Part, run: Ints) -> Array:
        """Positions of entries in the order of their runs, best first."""
        keys: list[Any] = [
            id_ranks(part[name]) if len(part) else run for name in reversed(self.columns)
        ]
        if "error" in part.columns:
            keys.append(part["error"])
        return np.lexsort([*keys, -_estimate(part), run])

    def ranked(self, part: Part, k: int) -> Part:
        """``settled`` for runs that are sorted except for ties of items with equal order keys."""
        if self.decided and "error" not in part.columns:
            return part
        estimate = _estimate(part)
        same = estimate[1:] == estimate[:-1]
        if "error" in part.columns and self.most is None:
            same &= part["error"][1:] == part["error"][:-1]
        inner = part.offsets[1:-1]
        same[inner[(inner > 0) & (inner < len(part))] - 1] = False
        tied = np.flatnonzero(same)
        runs = np.unique(np.searchsorted(part.offsets, tied, side="right") - 1)
        return self.settled(part, k, runs)


def _ranking(part: Part) -> str:
    """The column that ranks items."""
    return "estimate" if "estimate" in part.columns else "count"


def _estimate(part: Part) -> Array:
    found: Array = part[_ranking(part)]
    return found


class ItemCodes:
    """Codes of the items that lists have, or of pairs of a group and an item; kernels work on them.

    An item lives as long as an entry of a list has it. State: each live item once.
    """

    def __init__(self, item_type: ItemColumns) -> None:
        self.item_type = item_type
        self.index, self.store = KeyIndex(), item_type.new_store()
        self.refs = np.zeros(0, np.int32)
        """How many entries of lists each code has."""
        self._order_key = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def bound(self) -> int:
        """All codes are below this."""
        return self.index.bound

    @property
    def order_key(self) -> Ints:
        """The order key of each code; see ``order_keys``."""
        return self._order_key[: self.bound]

    @property
    def nbytes(self) -> int:
        arrays = (self.refs, self._order_key)
        return sum(each.nbytes for each in arrays) + self.index.nbytes + self.store.nbytes

    def take(self, hashes: Hashes, part: Part) -> tuple[Codes, Ints, Codes]:
        """Codes of new entries of lists, and the places and codes of items that are new."""
        codes, rows, fresh = self.index.encode(hashes)
        if len(fresh):
            self.refs = grown(self.refs, self.bound)
            self._order_key = grown(self._order_key, self.bound)
            self.store.put(fresh, part.columns, rows)
            self._order_key[fresh] = self.item_type.order_keys(
                list(self.store.gather(fresh).values())
            )
        add_refs(codes, self.refs)
        return codes, rows, fresh

    def drop(self, codes: Codes) -> int:
        """Entries have gone; forget the items that have no others, and say how many they are."""
        dead = drop_refs(codes, self.refs)
        self.index.release(dead)
        return len(dead)

    def summed(self, codes: Codes, value: Array) -> Part:
        """All items of these entries, with the sums of their values."""
        items, place = np.unique(codes, return_inverse=True)
        sums = np.zeros(len(items), value.dtype)
        np.add.at(sums, place, value)
        return Part(np.array([0, len(items)]), {"count": sums, **self.store.gather(items)})

    def state(self) -> State:
        """Flat arrays for a snapshot; ``refs`` follow from the lists."""
        arrays = prefixed("index/", self.index.state()) | self.store.state()
        return arrays | {"order_key": self.order_key.copy()}

    def restore(self, arrays: Saved, codes: Codes) -> None:
        """Restore from a snapshot; ``codes`` are those of all entries of the lists."""
        self.index.restore(under(arrays, "index/"))
        self.store.restore(arrays)
        known = self.bound
        require(len(self.store) >= known, "an item has no row")
        like, forms = {"order_key": self._order_key}, {"order_key": Form(known)}
        self._order_key = admitted(arrays, like, forms)["order_key"]
        require(
            0 <= codes.min(initial=0) <= codes.max(initial=-1) < known or not len(codes),
            "an entry has no item",
        )
        self.refs = np.bincount(codes, minlength=known).astype(np.int32)
        live = np.array_equal(np.flatnonzero(self.refs), self.index.codes())
        require(live, "an item has no entry")

    def _check(self, codes: Codes) -> None:
        """Assert that the live items are those of these entries."""
        self.index._check()
        assert np.array_equal(np.bincount(codes, minlength=self.bound), self.refs[: self.bound])
        assert np.array_equal(np.flatnonzero(self.refs[: self.bound]), self.index.codes())
