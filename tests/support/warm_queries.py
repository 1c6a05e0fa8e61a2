"""Answers small queries when it is imported, which loads their kernels for forked processes."""

from __future__ import annotations

import pyarrow as pa

import skyband as sb
from support.local_jobs import QUERIES, query_of

_ROWS = pa.table({"ts": [0, 10, 400], "flow": [1, 2, 1], "bytes": [5, 6, 7]})
_TEXT = _ROWS.set_column(1, "flow", pa.array(["a", "b", "a"]))

for _name in QUERIES:
    for _rows in (_ROWS, _TEXT):
        _monitor = sb.Monitor(query_of(_name), threads=1)
        _monitor.push(_rows)
        _monitor.flush()
