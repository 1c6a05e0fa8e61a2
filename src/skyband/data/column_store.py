"""Columns of retained values.

A synopsis copies the values it retains out of the batch into a `ColumnStore`: a batch of a million
rows must not stay in memory because ten of its rows are retained.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skyband.arrays import Array, Ints, Saved, State, grown
from skyband.data.columns import (
    OFFSETS_32,
    OFFSETS_64,
    Positions,
    fixed_bytes,
    native_dtype,
    output_type,
    plain,
    spans,
    take,
    to_numpy,
    validity,
)
from skyband.data.flat_state import Form, admitted, require
from skyband.data.ipc import columns_from, columns_to_array
from skyband.errors import DataError, SchemaError
from skyband.kernels.borrow import frozen
from skyband.kernels.strings import SPARE, bytes_and_words, copy_spans, place_spans

Slots = slice | Ints
Valid = NDArray[np.uint8] | None
"""0 for each row that is null, 1 for the others; None if no row is null."""
_LONGEST = 2**31 - 1
_MUCH = 4096  # bytes of garbage that a heap may always have before it is compacted
_MANY = 1024  # overwritten values that may always stay
_MOST_PIECES = 32


def check_keepable(name: str, kind: pa.DataType) -> None:
    """Raise SchemaError if Arrow cannot select, join and write values of this type."""
    try:
        store = ColumnStore(kind)
        store.append(pa.nulls(1, store.type))
        store.restore(store.state())
    except (pa.ArrowException, NotImplementedError) as problem:
        raise SchemaError(
            f"column {name!r} has type {kind}, which Arrow cannot copy row by row ({problem}); "
            "cast it, or leave it out of keep"
        ) from problem


def check_plain(kind: pa.DataType) -> None:
    """Raise SchemaError for nested types, whose values cannot be compared."""
    if isinstance(ColumnStore(kind)._cells, _Values) and not pa.types.is_null(kind):  # noqa: SLF001
        raise SchemaError(
            f"a column of type {kind} cannot be kept in a window; leave it out, cast it to a "
            "string, or flatten it into plain columns first"
        )


class ColumnStore:
    """A growable column of one Arrow type: numbered slots that are written, read and compacted.

    Appending and writing take time proportional to the bytes written (amortised, since arrays
    double), gathering to the bytes read. Numbers, times and decimals take their own width, bools
    one byte, strings 16 bytes plus their length. Overwritten strings remain as garbage until half
    of the bytes are garbage; then the heap is rewritten. From the first null on, each slot takes
    one more byte. Slots that `put` skips are zero or empty. Values of nested types stay Arrow's,
    and take 8 bytes more each; there, slots that were skipped are null.

    >>> store = ColumnStore(pa.string())
    >>> store.append(pa.array(["a", None, "ccc"]))
    >>> store.put(np.array([0, 3]), pa.array(["new", "d"]))
    >>> store.gather(np.array([3, 0, 1])).to_pylist()
    ['d', 'new', None]
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.type = output_type(kind)
        is_extension = isinstance(self.type, pa.BaseExtensionType)
        self._storage = output_type(self.type.storage_type) if is_extension else self.type
        self._cells = _cells_for(self._storage)
        self._valid: NDArray[np.uint8] | None = None
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return self._cells.nbytes + (0 if self._valid is None else self._valid.nbytes)

    def append(self, arr: pa.Array | pa.ChunkedArray, positions: Positions | None = None) -> None:
        """Add the rows of `arr`, or only those at `positions`, at the end."""
        count = len(arr) if positions is None else len(positions)
        self._write(slice(self._length, self._length + count), count, arr, positions)

    def put(
        self, slots: Positions, arr: pa.Array | pa.ChunkedArray, positions: Positions | None = None
    ) -> None:
        """Write the rows of `arr`, or those at `positions`, into `slots`.

        If a slot is given twice, the last row wins.
        """
        count = len(arr) if positions is None else len(positions)
        if len(slots) != count:
            raise ValueError(f"{len(slots)} slots for {count} rows")
        if count and slots.min() < 0:
            raise IndexError("slots count from 0")
        self._write(np.asarray(slots, np.int64), count, arr, positions)

    def gather(self, indices: Positions) -> pa.Array:
        """The values of the slots `indices`, in that order, as an array of `self.type`."""
        bitmap, nulls = None, 0
        if self._valid is not None:
            valid = self._valid.take(indices)
            nulls = len(valid) - int(np.count_nonzero(valid))
            bitmap = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
        values = self._cells.gather(indices, bitmap, nulls)
        is_extension = isinstance(self.type, pa.BaseExtensionType)
        return self.type.wrap_array(values) if is_extension else values

    def compact(self, indices: Positions) -> None:
        """Keep only the slots `indices`, renumbered in that order, and free memory."""
        self._cells.compact(indices)
        if self._valid is not None:
            kept = self._valid.take(indices)
            self._valid = None if kept.all() else kept
        self._length = len(indices)

    def state(self) -> State:
        """A copy of everything, as flat arrays."""
        state = self._cells.state(self._length)
        if self._valid is not None:
            state["valid"] = self._valid[: self._length].copy()
        return state

    def restore(self, state: Saved) -> None:
        """Replace everything by what `state()` of a store of the same type returned."""
        self._length = self._cells.load(state)
        self._valid = None
        if "valid" in state:
            like = {"valid": np.zeros(0, np.uint8)}
            self._valid = admitted(state, like, {"valid": Form(self._length, 0, 2)})["valid"]
        if isinstance(self._cells, _Heap):
            self.gather(np.arange(self._length)).validate(full=True)  # is text valid?

    def _write(self, slots: Slots, count: int, arr: Any, positions: Positions | None) -> None:
        if output_type(arr.type) != self.type:
            raise SchemaError(
                f"the column had type {self.type} so far and now has {output_type(arr.type)}; "
                f"cast it to {self.type}"
            )
        if count == 0:
            return
        if positions is not None and positions.min() < 0:
            raise IndexError("positions count from 0")  # the last offset would be misread
        if positions is not None and pa.types.is_dictionary(arr.type):
            arr, positions = take(arr, positions), None
        rows = plain(arr)
        end = slots.stop if isinstance(slots, slice) else int(slots.max()) + 1
        length = max(self._length, end)
        valid = None if isinstance(self._cells, _Values) else validity(rows)
        if valid is not None and positions is not None:
            valid = valid.take(positions)
        if valid is not None and self._valid is None and not valid.all():
            self._valid = np.ones(length, np.uint8)
        self._cells.reserve(length)
        self._cells.write(slots, rows, positions, valid)
        if self._valid is not None:
            self._valid = grown(self._valid, length, fill=1)
            self._valid[slots] = 1 if valid is None else valid
        self._length = length


class _Flat:
    """Cells of a fixed width."""

    def __init__(self, kind: pa.DataType) -> None:
        self._type = kind
        self._is_bool = pa.types.is_boolean(kind)
        native = native_dtype(kind)
        self._read = fixed_bytes if native is None else to_numpy
        self._dtype = np.dtype((np.void, kind.byte_width)) if native is None else native
        self._values = np.zeros(0, self._dtype)

    @property
    def nbytes(self) -> int:
        return self._values.nbytes

    def reserve(self, length: int) -> None:
        self._values = grown(self._values, length)

    def write(self, slots: Slots, rows: pa.Array, at: Positions | None, valid: Valid) -> None:
        values = self._read(rows)
        self._values[slots] = values if at is None else values.take(at)

    def gather(self, indices: Positions, bitmap: pa.Buffer | None, nulls: int) -> pa.Array:
        values: Array = self._values.take(indices)
        if self._is_bool:
            values = np.packbits(values, bitorder="little")
        buffers = [bitmap, pa.py_buffer(values)]
        return pa.Array.from_buffers(self._type, len(indices), buffers, nulls)

    def compact(self, indices: Positions) -> None:
        self._values = self._values.take(indices)

    def state(self, length: int) -> State:
        return {"values": self._values[:length].copy()}

    def load(self, state: Saved) -> int:
        self._values = admitted(state, {"values": self._values}, {})["values"]
        return len(self._values)


class _Heap:
    """Cells of variable length: bytes in one heap, with the begin and size of each cell."""

    def __init__(self, kind: pa.DataType) -> None:
        self._type = kind
        self._offset_dtype = np.dtype(np.int64 if kind in OFFSETS_64 else np.int32)
        self._spans = np.zeros((0, 2), np.int64)
        self._heap = np.zeros(SPARE, np.uint8)
        self._used = 0
        self._live = 0

    @property
    def nbytes(self) -> int:
        return self._spans.nbytes + self._heap.nbytes

    def reserve(self, length: int) -> None:
        self._spans = grown(self._spans, length)

    def write(self, slots: Slots, rows: pa.Array, at: Positions | None, valid: Valid) -> None:
        offsets, data = spans(rows)
        if at is None:
            begin, size = offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)
        else:
            begin = offsets.take(at).astype(np.int64)
            size = offsets.take(at + 1) - begin
        if valid is not None:  # a null may have bytes in the source, which are not kept
            size *= valid
        self._heap = grown(self._heap, self._used + int(size.sum()) + SPARE)
        source, target = bytes_and_words(frozen(data)), bytes_and_words(self._heap)
        end = copy_spans(begin, size, *source, *target, self._used)
        if isinstance(slots, slice):
            slots = np.arange(slots.start, slots.stop)
        self._live += place_spans(slots, size, self._used, self._spans)
        self._used = end
        if self._used > 2 * self._live + _MUCH:
            self.compact(np.arange(len(self._spans)))

    def gather(self, indices: Positions, bitmap: pa.Buffer | None, nulls: int) -> pa.Array:
        heap, offsets, _ = self._read(indices)
        if offsets[-1] > _LONGEST and self._offset_dtype.itemsize == 4:
            raise DataError(
                f"{offsets[-1]} bytes do not fit into one column of type {self._type}; "
                f"cast the column to large_{self._type}"
            )
        offsets = offsets.astype(self._offset_dtype, copy=False)
        buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(heap[: offsets[-1]])]
        return pa.Array.from_buffers(self._type, len(indices), buffers, nulls)

    def compact(self, indices: Positions) -> None:
        heap, offsets, size = self._read(indices)
        self._load(heap, offsets, size)

    def state(self, length: int) -> State:
        heap, offsets, size = self._read(np.arange(length))
        return {"lengths": size, "heap": heap[: offsets[-1]]}

    def load(self, state: Saved) -> int:
        like = {"lengths": np.zeros(0, np.int64), "heap": np.zeros(0, np.uint8)}
        saved = admitted(state, like, {"lengths": Form("cells", 0, len(state["heap"]) + 1)})
        size = saved["lengths"]
        require(size.sum() == len(saved["heap"]), "texts have another length in all")
        heap = np.concatenate([saved["heap"], np.zeros(SPARE, np.uint8)])
        self._load(heap, np.concatenate([[0], np.cumsum(size)]), size)
        return len(size)

    def _load(self, heap: NDArray[np.uint8], offsets: Ints, size: Ints) -> None:
        self._heap = heap
        self._spans = np.stack([offsets[:-1], size], axis=1)
        self._used = self._live = int(offsets[-1])

    def _read(self, indices: Positions) -> tuple[NDArray[np.uint8], Ints, Ints]:
        """The bytes of the slots, concatenated and padded; their offsets; their sizes."""
        slots = np.asarray(indices, np.int64)
        if len(slots) and not 0 <= slots.min() <= slots.max() < len(self._spans):
            raise IndexError(f"slots {slots.min()} to {slots.max()} of {len(self._spans)}")
        begin, size = np.ascontiguousarray(self._spans[slots].T)
        offsets = np.append(0, np.cumsum(size))
        heap = np.empty(int(offsets[-1]) + SPARE, np.uint8)
        copy_spans(begin, size, *bytes_and_words(frozen(self._heap)), *bytes_and_words(heap), 0)
        return heap, offsets, size


class _Values:
    """Cells of any other type: Arrow's own values, and the place of each cell's value among them.

    Values are only appended. Reading also joins what was appended since the last read. Overwritten
    values stay until they outnumber the others.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._pieces: list[pa.Array] = [pa.nulls(0, kind)]
        self._used = 0
        self._places = np.zeros(0, np.int64)
        """-1 for cells without a value."""

    @property
    def nbytes(self) -> int:
        return self._places.nbytes + sum(int(piece.nbytes) for piece in self._pieces)

    def reserve(self, length: int) -> None:
        self._places = grown(self._places, length, fill=-1)

    def write(self, slots: Slots, rows: pa.Array, at: Positions | None, valid: Valid) -> None:
        values = rows if at is None else rows.take(pa.array(at))
        self._places[slots] = self._used + np.arange(len(values))
        self._pieces.append(values)
        self._used += len(values)
        if self._used > 2 * len(self._places) + _MANY:
            self.compact(np.arange(len(self._places)))
        elif len(self._pieces) > _MOST_PIECES:
            self._joined()

    def _joined(self) -> pa.Array:
        if len(self._pieces) > 1:
            self._pieces = [pa.concat_arrays(self._pieces)]
        return self._pieces[0]

    def gather(self, indices: Positions, bitmap: Any = None, nulls: int = 0) -> pa.Array:
        places = self._places.take(indices)
        return self._joined().take(pa.array(places, mask=places < 0))

    def compact(self, indices: Positions) -> None:
        self._pieces = [self.gather(indices)]
        self._used = len(indices)
        self._places = np.arange(self._used)

    def state(self, length: int) -> State:
        return {"arrow": columns_to_array({"_": self.gather(np.arange(length))})}

    def load(self, state: Saved) -> int:
        values = columns_from(np.array(state["arrow"]))["_"]
        own = self._pieces[0].type
        require(values.type == own, f"a column of {own} has type {values.type}")
        self._pieces, self._used = [values], len(values)
        self._places = np.arange(self._used)
        return self._used


def _cells_for(kind: pa.DataType) -> _Flat | _Heap | _Values:
    if kind in OFFSETS_32 or kind in OFFSETS_64:
        return _Heap(kind)
    has_width = pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind)
    if native_dtype(kind) is not None or (has_width and kind.byte_width > 0):
        return _Flat(kind)
    return _Values(kind)
