"""Keys of any Arrow type as 64-bit hashes, and dense codes for them.

Hashing reads Arrow buffers in bulk and uses no seed: a key has the same hash in every process.
Equal values have equal hashes across int8 to uint64, across float16 to float64, and across strings
and binaries of any layout, including dictionaries. Times are hashed as the integers that store
them, so their units must agree; so must the scales and widths of decimals. The probability that
some two of n distinct keys collide is n² / 2⁶⁵; integers never collide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.arrays import Codes, Hashes, Ints, Saved, State
from skyband.data.columns import (
    Positions,
    fixed_bytes,
    mask_of,
    native_dtype,
    plain,
    spans,
    to_numpy,
    validity,
)
from skyband.data.flat_state import Form, admitted, require
from skyband.data.memo import once
from skyband.errors import EngineError, SchemaError
from skyband.kernels import hashing
from skyband.kernels.borrow import frozen
from skyband.kernels.hashing import NULL_HASH

_SMALLEST = 16  # keys that a new index has room for
_MANY = 1 << 20  # from this many keys on, an index doubles rather than quadruples


def is_key_type(kind: pa.DataType) -> bool:
    """Whether columns of this type can be keys."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_key_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return is_key_type(kind.value_type)
    return native_dtype(kind) is not None or _is_bytes(kind) or pa.types.is_null(kind)


def hash_array(arr: pa.Array | pa.ChunkedArray) -> Hashes:
    """The hash of each value. Costs one pass over the buffers.

    Raises SchemaError if the type is nested.
    """
    if not is_key_type(arr.type):
        raise SchemaError(
            f"a column of type {arr.type} cannot be a key; cast it to a string, or use the plain "
            "columns that it is made of"
        )
    if not isinstance(arr, pa.ChunkedArray):
        return once("hash", arr, lambda: _hash(arr))
    if arr.num_chunks == 1:
        return _hash(arr.chunk(0))
    return np.concatenate([np.zeros(0, np.uint64), *(_hash(chunk) for chunk in arr.chunks)])


def hash_columns(arrays: Sequence[pa.Array | pa.ChunkedArray]) -> Hashes:
    """The hash of each row of one or more columns; the order of the columns matters."""
    first, *others = arrays
    hashes = hash_array(first)
    if others:
        hashes = hashes.copy()  # the hashes of one column may be used again
    for other in others:
        hashing.combine_hashes(hashes, hash_array(other))
    return hashes


def hash_any(arr: pa.Array | pa.ChunkedArray) -> Hashes:
    """Like ``hash_array``, for values of any type, nested ones too; equal values hash alike."""
    if isinstance(arr, pa.ChunkedArray):
        return np.concatenate([np.zeros(0, np.uint64), *(hash_any(chunk) for chunk in arr.chunks)])
    if is_key_type(arr.type):
        return hash_array(arr)
    arr = plain(arr)
    kind = arr.type
    if pa.types.is_struct(kind):
        hashes = np.zeros(len(arr), np.uint64)
        for child in arr.flatten():
            hashing.combine_hashes(hashes, hash_any(child))
    elif _is_list(kind):
        hashes = _hash_lists(arr)
    else:  # intervals and unions are rare
        texts = pa.array([repr(value) for value in arr.to_pylist()], pa.string())
        hashes = hash_array(texts)
    if arr.null_count:
        hashes[mask_of(arr.is_null())] = NULL_HASH
    return hashes


def _is_list(kind: pa.DataType) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)
    return bool(is_list or pa.types.is_fixed_size_list(kind))


def _hash_lists(arr: pa.Array) -> Hashes:
    """The hash of each list, from the hashes and places of its values; a null is an empty list."""
    if pa.types.is_map(arr.type):
        pair = pa.struct([arr.type.key_field, arr.type.item_field])
        arr = arr.cast(pa.list_(pair))
    lengths = to_numpy(pc.list_value_length(arr).fill_null(0)).astype(np.int64)
    values = hash_any(arr.flatten())  # leaves out the values of null lists
    ends = np.cumsum(lengths)
    place = np.arange(len(values)) - np.repeat(ends - lengths, lengths)
    hashing.combine_hashes(values, hashing.hash_int64(frozen(place)))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    hashes = hashing.hash_int64(frozen(lengths))
    hashing.combine_hashes(hashes, sums[ends] - sums[ends - lengths])
    return hashes


def hash_kept(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Hashes:
    """The hash of each row of columns of any type: the last tie-break of rows with ``keep``."""
    hashes = hash_any(columns[0])
    for other in columns[1:]:
        hashing.combine_hashes(hashes, hash_any(other))
    return hashes


def owned_keys(hashes: Hashes, owners: Codes | Ints, offsets: Ints) -> Hashes:
    """Hashes of (key, owner), for stretches of keys that have one owner each."""
    keys = np.array(hashes)
    salts = hashing.hash_int64(frozen(owners.astype(np.int64)))
    hashing.combine_hashes(keys, np.repeat(salts, np.diff(offsets)))
    return keys


def best_of_each(
    hashes: Hashes, keys: tuple[Ints, Ints], kept: Iterable[pa.Array], offsets: Ints
) -> tuple[Ints, Ints]:
    """Positions of the row of each (run, hash) with the greatest keys, run by run; their offsets.

    ``offsets`` cut the rows into runs. Of rows with equal keys, the one with the smallest hash of
    the ``kept`` columns counts; they are not read where every row has a greater key than the last.
    """
    key, tie = map(frozen, keys)
    columns = [] if (key[1:] > key[:-1]).all() else list(kept)
    last = hash_kept(columns) if columns else hashes
    return hashing.best_rows(frozen(hashes), key, tie, frozen(last), frozen(offsets))


def shards_of(columns: Sequence[pa.Array], shards: int) -> Ints:
    """The shard of each row, by the hash of these columns."""
    return (hash_columns(columns) % np.uint64(shards)).astype(np.int64)


def _hash(arr: pa.Array) -> Hashes:
    if pa.types.is_dictionary(arr.type):
        return _hash_dictionary(arr)
    if pa.types.is_run_end_encoded(arr.type):
        return _hash(pc.run_end_decode(arr))
    arr = plain(arr)
    if len(arr) == 0 or arr.null_count == len(arr):
        return np.full(len(arr), NULL_HASH)
    hashes = _hash_values(arr)
    if arr.null_count:
        bitmap = np.frombuffer(arr.buffers()[0], np.uint8)
        hashing.mark_nulls(hashes, frozen(bitmap), arr.offset)
    return hashes


def _hash_values(arr: pa.Array) -> Hashes:
    native = native_dtype(arr.type)
    if _has_width(arr.type):
        width = arr.type.byte_width
        if width == 0:
            return hashing.hash_bytes(np.zeros(len(arr) + 1, np.int32), np.zeros(0, np.uint8))
        return hashing.hash_fixed(fixed_bytes(arr).view(np.uint8), width)
    if native is None:
        return hashing.hash_bytes(*spans(arr))
    values = to_numpy(arr)
    if native.kind == "f":
        return hashing.hash_float64(frozen(values.astype(np.float64, copy=False)))
    return hashing.hash_int64(frozen(values.astype(np.int64, copy=False)))


def _hash_dictionary(arr: pa.DictionaryArray) -> Hashes:
    """Hash the dictionary and look up each row; if it is larger than the array, decode instead."""
    if len(arr.dictionary) > len(arr):
        return _hash(arr.dictionary_decode())
    indices = to_numpy(arr.indices)
    valid = validity(arr.indices)
    if valid is None:
        return _hash(arr.dictionary).take(indices)
    # The indices of null rows are undefined, so they are redirected to an extra hash at the end.
    hashes = np.append(_hash(arr.dictionary), NULL_HASH)
    return hashes.take(np.where(valid, indices.astype(np.int64), len(arr.dictionary)))


def _is_bytes(kind: pa.DataType) -> bool:
    is_string = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    is_view = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    return bool(is_string or is_binary or is_view or _has_width(kind))


def _has_width(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind))


class EncodedKeys(NamedTuple):
    """The result of `KeyIndex.encode`: a code per row, and the row and code of each new key."""

    codes: Codes
    fresh_rows: Ints
    fresh_codes: Codes


class KeyIndex:
    """Dense codes 0, 1, 2, … for hashes, in order of first appearance; released codes are reused.

    A look-up, an insertion or a release costs O(1). A key takes 36 to 144 bytes. The table has room
    for the greatest number of keys held at one time and never shrinks.

    >>> index = KeyIndex()
    >>> index.encode(hash_array(pa.array(["b", "a", "b"]))).codes.tolist()
    [0, 1, 0]
    >>> index.release(np.array([0]))
    >>> index.encode(hash_array(pa.array(["a", "c"]))).codes.tolist()
    [1, 0]
    """

    def __init__(self) -> None:
        self._counts = np.zeros(2, np.int64)
        self._by_code = np.zeros(0, np.uint64)
        self._free = np.zeros(0, np.int32)
        self._allocate(_SMALLEST)

    def __len__(self) -> int:
        return int(self._counts[0] - self._counts[1])

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        arrays = (self._keys, self._codes, self._by_code, self._free)
        return sum(array.nbytes for array in arrays)

    @property
    def bound(self) -> int:
        """All codes in use are below this number."""
        return int(self._counts[0])

    def codes(self) -> Ints:
        """Codes in use, ascending."""
        used, free = self._counts
        return np.delete(np.arange(used), self._free[:free])

    def encode(self, hashes: Hashes) -> EncodedKeys:
        """The code of each hash; new hashes are given a code."""
        hashes = frozen(hashes)
        codes = np.empty(len(hashes), np.int32)
        row = 0
        rows_found, codes_found = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        while row < len(hashes):
            room = min(len(self._by_code) - len(self), len(hashes) - row)
            rows, fresh = np.empty(room, np.int64), np.empty(room, np.int32)
            row, count = hashing.encode_rows(
                hashes, row, self._keys, self._codes, self._shift, self._by_code, self._free,
                self._counts, codes, rows, fresh,
            )  # fmt: skip
            rows_found.append(rows[:count])
            codes_found.append(fresh[:count])
            if row < len(hashes):
                few = len(self._by_code) < _MANY
                self._allocate((4 if few else 2) * len(self._by_code))
        return EncodedKeys(codes, np.concatenate(rows_found), np.concatenate(codes_found))

    def find(self, hashes: Hashes) -> Codes:
        """The code of each hash; -1 for an unknown hash."""
        return hashing.find_rows(hashes, self._keys, self._codes, self._shift)

    def hashes(self, codes: Positions) -> Hashes:
        """The hashes that have these codes."""
        return self._by_code.take(codes)

    def release(self, codes: Positions) -> None:
        """Forget the keys with these codes, and make the codes available to later keys."""
        gone = np.asarray(codes, np.int32)
        outside = len(gone) > 0 and not 0 <= int(gone.min()) <= int(gone.max()) < self.bound
        if outside or len(gone) != hashing.remove_codes(
            gone, self._keys, self._codes, self._shift, self._by_code, self._free, self._counts
        ):
            raise EngineError("a code that is not in use was released; please report this as a bug")

    def state(self) -> State:
        """A copy of everything, as flat arrays."""
        used, free = self._counts
        return {"hashes": self._by_code[:used].copy(), "free": self._free[:free].copy()}

    def restore(self, state: Saved) -> None:
        """Become the index whose `state()` this is; it hands out codes in the same order."""
        like = {"hashes": np.zeros(0, np.uint64), "free": np.zeros(0, np.int32)}
        saved = admitted(state, like, {"hashes": Form("used"), "free": Form("free", 0, "used")})
        self._by_code, self._free = saved["hashes"], saved["free"]
        require(np.bincount(self._free).max(initial=0) < 2, "a code is free twice")
        self._counts = np.array([len(self._by_code), len(self._free)], np.int64)
        self._allocate(max(_SMALLEST, len(self._by_code)))

    def _allocate(self, keys: int) -> None:
        """Make room for this many keys: the table is a power of two, at most half full."""
        bits = (2 * keys - 1).bit_length()
        room = 1 << (bits - 1)
        self._shift = np.uint64(64 - bits)
        self._keys = np.zeros(1 << bits, np.uint64)
        self._codes = np.full(1 << bits, hashing.EMPTY, np.int32)
        by_code, free = np.zeros(room, np.uint64), np.zeros(room, np.int32)
        by_code[: len(self._by_code)] = self._by_code
        free[: len(self._free)] = self._free
        self._by_code, self._free = by_code, free
        self._insert_all()

    def _insert_all(self) -> None:
        used, released = self._counts
        if used == 0:
            return
        codes = np.arange(used, dtype=np.int32)
        codes[self._free[:released]] = hashing.EMPTY
        hashing.insert_pairs(self._by_code[:used], codes, self._keys, self._codes, self._shift)

    def _check(self) -> None:
        """Assert every invariant; only tests call it."""
        used, released = self._counts
        live = np.setdiff1d(np.arange(used), self._free[:released])
        assert len(live) == len(self) == used - released <= len(self._by_code)
        assert np.array_equal(np.sort(self._codes[self._codes >= 0]), live)
        assert np.array_equal(self.find(self._by_code[live]), live)
