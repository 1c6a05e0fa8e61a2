"""Real data: Parquet files in the folder given by the environment variable SKYBAND_DATA."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.errors import EngineError

__all__ = ["data_folder", "real"]

VARIABLE = "SKYBAND_DATA"


def data_folder() -> Path | None:
    """The folder with the data sets, if one is given."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else None


def real(name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """One data set, or some of its columns."""
    folder = data_folder()
    path = None if folder is None else folder / f"{name}.parquet"
    if path is None or not path.exists():
        raise EngineError(
            f"data set {name!r} not found: set {VARIABLE} to a folder that contains {name}.parquet"
        )
    return pq.read_table(path, columns=None if columns is None else list(columns))
