"""Columns as numpy arrays without a copy, and empty tables; neither needs pandas.

Importing it takes as long as a first answer, and a Ctrl-C while Arrow does so is lost.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skyband.data.columns import empty_table, to_numpy
from skyband.errors import SchemaError
from support.column_cases import CASES, IDS

pytestmark = pytest.mark.nojit


@pytest.mark.parametrize(("kind", "values"), CASES[:19], ids=IDS[:19])
def test_to_numpy_views_values(kind: pa.DataType, values: list[Any]) -> None:
    arr = pa.array([None, *values], kind)
    whole = to_numpy(arr)
    assert len(whole) == len(arr)
    assert not whole.flags.writeable
    for part in (arr.slice(1), pa.chunked_array([arr.slice(1)])):
        view = to_numpy(part)
        back = pa.array(view).cast(kind) if pa.types.is_boolean(kind) else None
        if back is None:
            back = pa.Array.from_buffers(kind, len(view), [None, pa.py_buffer(view)])
            assert np.shares_memory(view, whole)
        assert back.equals(arr.slice(1))
    several = pa.chunked_array([arr, arr])
    assert np.array_equal(to_numpy(several)[len(arr) + 1 :], whole[1:])
    assert len(to_numpy(pa.array([], kind))) == 0
    assert len(to_numpy(pa.chunked_array([], kind))) == 0


def test_to_numpy_uses_native_types() -> None:
    assert to_numpy(pa.array([1], pa.timestamp("ns"))).dtype == np.int64
    assert to_numpy(pa.array([1], pa.date32())).dtype == np.int32
    assert to_numpy(pa.array([1], pa.duration("s"))).dtype == np.int64
    assert to_numpy(pa.array([1], pa.time32("s"))).dtype == np.int32
    assert to_numpy(pa.array([True])).dtype == np.uint8


@pytest.mark.parametrize(
    "kind", [pa.decimal128(5), pa.string(), pa.list_(pa.int8()), pa.month_day_nano_interval()]
)
def test_to_numpy_refuses_what_is_no_number(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="cast it"):
        to_numpy(pa.nulls(1, kind))


def test_empty_tables_of_every_type() -> None:
    kinds = [
        *(pa.int8(), pa.float16(), pa.bool_(), pa.null(), pa.string_view(), pa.large_binary()),
        *(pa.decimal128(5, 2), pa.timestamp("ns", "UTC"), pa.binary(3), pa.list_(pa.int8())),
        *(pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int8()), pa.uuid()),
        *(pa.dictionary(pa.int8(), pa.string()), pa.run_end_encoded(pa.int32(), pa.string())),
    ]
    schema = pa.schema([(str(i), kind) for i, kind in enumerate(kinds)])
    assert empty_table(schema).schema == schema
    assert empty_table(schema).num_rows == 0


def test_an_answer_does_not_import_pandas(tmp_path: Path) -> None:
    code = (
        "import sys, pyarrow as pa, pyarrow.parquet as pq, numpy as np, skyband as sb\n"
        "import pyarrow.compute as pc\n"
        "from skyband.data.columns import mask_of\n"
        "column = pa.Array.from_buffers(pa.int64(), 9, [None, pa.py_buffer(np.arange(9))])\n"
        "pq.write_table(pa.Table.from_arrays([column], ['x']), sys.argv[1])\n"
        "window = sb.CountWindow(3)\n"
        "assert sb.rank(sys.argv[1], sb.TopK(k=1, score='x', window=window)).num_rows == 3\n"
        "assert sb.rank(sys.argv[1], sb.HeavyHitters(k=1, item='x', window=window)).num_rows == 3\n"
        "words = pa.Table.from_arrays([column.cast(pa.string())], ['x'])  # their counts tie\n"
        "assert sb.rank(words, sb.HeavyHitters(k=9, item='x', window=sb.CountWindow(9))).num_rows\n"
        "masks = (column.is_valid(), pc.greater(column, column))\n"
        "assert [int(mask_of(mask).sum()) for mask in masks] == [9, 0]\n"
        "assert 'pandas' not in sys.modules\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "x.parquet")]
    subprocess.run(command, check=True, timeout=100)
