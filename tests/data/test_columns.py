from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.data.column_store import ColumnStore, check_plain
from skyband.data.columns import output_type, take
from skyband.errors import SchemaError
from support.column_cases import CASES, IDS

pytestmark = pytest.mark.nojit

NESTED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.list_(pa.int64()), [[1], [], [2, 3]]),
    (pa.struct([("a", pa.string())]), [{"a": "x"}, {"a": None}, {"a": "y"}]),
]
STORED = pytest.mark.parametrize(
    ("kind", "values"), [*CASES, *NESTED], ids=[*IDS, "list", "struct"]
)
KINDS = st.sampled_from([*CASES, *NESTED])


def restored(kind: Any, state: Any) -> ColumnStore:
    store = ColumnStore(kind)
    store.restore(state)
    return store


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind in (pa.string_view(), pa.binary_view()):
        return pa.array(values, output_type(kind)).cast(kind)
    return pa.array(values, kind)


def positions(*numbers: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


def contents(store: ColumnStore) -> list[Any]:
    gathered = store.gather(np.arange(len(store)))
    gathered.validate(full=True)
    assert gathered.type == store.type
    return list(gathered.to_pylist())


@STORED
def test_what_is_appended_is_gathered(kind: pa.DataType, values: list[Any]) -> None:
    rows = [*values, None, *values]
    arr = array(rows, kind)
    expected = arr.cast(output_type(kind)).to_pylist()
    n = len(rows)
    store = ColumnStore(kind)
    assert contents(store) == []
    store.append(arr)
    store.append(arr.slice(1))
    store.append(pa.chunked_array([arr.slice(2, 1), arr.slice(3)]))
    store.append(pa.chunked_array([], kind))
    store.append(arr.slice(0, 0))
    assert contents(store) == expected + expected[1:] + expected[2:]
    assert len(store) == 3 * n - 3
    assert store.gather(positions(n, 0, 0)).to_pylist() == [expected[1], expected[0], expected[0]]
    assert store.gather(positions()).type == output_type(kind)
    assert store.gather(np.array([1], np.int32)).to_pylist() == [expected[1]]


@STORED
def test_only_the_rows_at_positions_are_taken(kind: pa.DataType, values: list[Any]) -> None:
    rows = [values[0], None, *values]
    sliced = array([None, *rows], kind).slice(1)
    wanted = positions(len(rows) - 1, 1, 0)
    expected = sliced.cast(output_type(kind)).take(pa.array(wanted)).to_pylist()
    for arr in (sliced, pa.chunked_array([sliced.slice(0, 1), sliced.slice(1)])):
        store = ColumnStore(kind)
        store.append(arr, wanted)
        assert contents(store) == expected
        store.put(positions(2, 1, 0), arr, wanted)
        assert contents(store) == expected[::-1]
        taken = take(arr, wanted)
        assert (taken.type, taken.to_pylist()) == (output_type(kind), expected)


def test_output_types() -> None:
    assert output_type(pa.dictionary(pa.int8(), pa.large_string())) == pa.large_string()
    assert output_type(pa.dictionary(pa.int8(), pa.string_view())) == pa.string()
    assert output_type(pa.string_view()) == pa.string()
    assert output_type(pa.binary_view()) == pa.binary()
    assert output_type(pa.large_binary()) == pa.large_binary()
    assert output_type(pc.run_end_encode(pa.array([1])).type) == pa.int64()
    assert output_type(pa.uuid()) == pa.uuid()


def test_extensions_run_ends_and_nulls() -> None:
    raw = pa.array([b"0123456789abcdef", None], pa.binary(16))
    identifiers = pa.ExtensionArray.from_storage(pa.uuid(), raw)
    store = ColumnStore(pa.uuid())
    store.append(identifiers)
    assert store.gather(positions(1, 0)).equals(take(identifiers, positions(1, 0)))
    runs = pc.run_end_encode(pa.array(["a", "a", "b"]))
    store = ColumnStore(runs.type)
    store.append(runs, positions(2, 0))
    assert contents(store) == ["b", "a"]
    store = ColumnStore(pa.null())
    store.append(pa.nulls(3))
    store.put(positions(4), pa.nulls(1))
    store.compact(positions(0, 1, 4))
    assert contents(restored(pa.null(), store.state())) == [None] * 3


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.binary(0)]
)
def test_nested_types_are_refused_with_advice_where_values_are_compared(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="cast it") as raised:
        check_plain(kind)
    assert str(kind) in str(raised.value)


def test_another_type_is_refused_and_changes_nothing() -> None:
    store = ColumnStore(pa.int64())
    store.append(pa.array([1]))
    with pytest.raises(SchemaError, match="int32"):
        store.append(pa.array([1], pa.int32()))
    assert contents(store) == [1]


def test_bytes_under_a_null_are_not_kept() -> None:
    offsets = np.array([0, 3, 4], np.int32)
    buffers = [pa.py_buffer(part) for part in (b"\x02", offsets, b"abcd")]
    arr = pa.Array.from_buffers(pa.string(), 2, buffers)
    store = ColumnStore(pa.string())
    store.append(arr)
    assert contents(store) == [None, "d"]
    assert store.state()["heap"].tobytes() == b"d"


def test_nulls_cost_nothing_until_the_first_and_after_the_last() -> None:
    store = ColumnStore(pa.int64())
    store.append(pa.array([1, 2]))
    assert "valid" not in store.state()
    store.append(pa.array([None, 3]))
    assert store.state()["valid"].tolist() == [1, 1, 0, 1]
    store.put(positions(2), pa.array([9]))
    assert store.gather(positions(2, 3)).null_count == 0
    store.compact(positions(3, 0))
    assert "valid" not in store.state()
    # A null that is not among the positions taken does not count.
    store.append(pa.array([None, 5]), positions(1))
    assert "valid" not in store.state()


def test_slots_beyond_the_end_grow_the_store() -> None:
    store = ColumnStore(pa.string())
    store.put(positions(2, 0, 2), pa.array(["a", "b", "c"]))
    assert contents(store) == ["b", "", "c"]
    store.put(positions(), pa.array([], pa.string()))
    assert len(store) == 3


def test_reading_outside_is_an_error_rather_than_rubbish() -> None:
    for kind in (pa.string(), pa.int64()):
        store = ColumnStore(kind)
        store.append(pa.array([1, 2]).cast(kind))
        with pytest.raises(IndexError):
            store.gather(positions(2))


def test_writing_outside_is_an_error_rather_than_rubbish() -> None:
    for kind in (pa.string(), pa.int64()):
        store, arr = ColumnStore(kind), pa.array([1, 2]).cast(kind)
        store.append(arr)
        for slots, wanted in (((-1,), (0,)), ((0,), (-1,)), ((0,), (2,))):
            with pytest.raises(IndexError):
                store.put(positions(*slots), arr, positions(*wanted))
        with pytest.raises(ValueError, match="slots"):
            store.put(positions(0), arr)
        assert contents(store) == arr.to_pylist()


def test_overwritten_bytes_do_not_pile_up() -> None:
    store = ColumnStore(pa.string())
    slots = np.arange(100)
    for step in range(300):
        texts = [f"{step}-{slot}" + "x" * 20 for slot in slots]
        store.put(slots, pa.array(texts))
    assert contents(store) == texts
    assert store.nbytes < 32 * 1024
    store.compact(positions(7))
    assert contents(store) == [texts[7]]
    assert store.nbytes < 200


def test_appending_is_amortised() -> None:
    store = ColumnStore(pa.int64())
    one, moves, size = pa.array([1]), 0, 0
    for _ in range(1000):
        store.append(one)
        moves += store.nbytes != size
        size = store.nbytes
    assert moves < 15


@STORED
def test_a_state_is_a_copy_and_comes_back(kind: pa.DataType, values: list[Any]) -> None:
    store = ColumnStore(kind)
    store.append(array([*values, None], kind))
    expected = contents(store)
    state = store.state()
    for part in state.values():
        part.flags.writeable = False
    store.put(positions(0), array([None], kind))
    copy = restored(kind, state)
    assert contents(copy) == expected
    copy.append(array(values, kind))
    copy.put(positions(0), array(values[-1:], kind))
    assert contents(copy)[len(expected) :] == expected[:-1]
    assert contents(restored(kind, state)) == expected


@st.composite
def histories(draw: st.DrawFn) -> tuple[pa.DataType, list[tuple[str, list[Any], list[int]]]]:
    """A type and steps: an operation, rows of the type, and numbers that become positions."""
    kind, values = draw(KINDS)
    rows = st.lists(st.sampled_from([*values, None]), max_size=8)
    numbers = st.lists(st.integers(0, 30), max_size=8)
    step = st.tuples(st.sampled_from(["append", "some", "put", "compact", "state"]), rows, numbers)
    return kind, draw(st.lists(step, max_size=10))


@given(histories())
@settings(max_examples=80)
def test_the_store_agrees_with_a_list(
    history: tuple[pa.DataType, list[tuple[str, list[Any], list[int]]]],
) -> None:
    kind, steps = history
    store, model = ColumnStore(kind), list[Any]()
    for verb, rows, numbers in steps:
        arr = array([None, *rows], kind).slice(1)
        values = arr.cast(output_type(kind)).to_pylist()
        if verb == "append":
            store.append(arr)
            model += values
        elif verb == "some" and rows:
            wanted = [number % len(rows) for number in numbers]
            store.append(arr, positions(*wanted))
            model += [values[position] for position in wanted]
        elif verb == "put":
            slots = [number % (len(model) + 1) for number in numbers[: len(rows)]]
            store.put(positions(*slots), arr.slice(0, len(slots)))
            for slot, value in zip(slots, values, strict=False):
                model[slot : slot + 1] = [value]
        elif verb == "compact" and model:
            kept = [number % len(model) for number in numbers]
            store.compact(positions(*kept))
            model = [model[slot] for slot in kept]
        elif verb == "state":
            store = restored(kind, store.state())
        assert contents(store) == model
