"""A stream as files of several formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

import skyband as sb
from support import streams

STREAM = streams.stream(5, 400, time_type=pa.timestamp("us"), unit=1_000_000, id_type="string")
TABLE = STREAM.table.select(["ts", "id", "score"])
WINDOW = sb.TimeWindow("60 s", slide="20 s")
QUERY = sb.TopK(k=3, score="score", id="id", time="ts", window=WINDOW)
WANT = sb.rank(TABLE, QUERY).to_pylist()
SHUFFLED = TABLE.take(pa.array(np.random.default_rng(7).permutation(TABLE.num_rows)))


def write(table: pa.Table, path: Path, rows: int = 40) -> Path:
    """Write a table in the format that the path's ending names, in pieces of some rows."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows)
    elif path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".arrow":
        pyarrow.feather.write_feather(table, path, chunksize=rows)
    elif path.suffix == ".arrows":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    else:
        lines = table.set_column(0, "ts", table["ts"].cast("timestamp[s]")).to_pandas()
        lines["ts"] = lines["ts"].dt.strftime("%Y-%m-%d %H:%M:%S")
        lines.to_json(path, orient="records", lines=True, double_precision=15)
    return path
