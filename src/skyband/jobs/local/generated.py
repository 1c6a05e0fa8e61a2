"""A generated stream as a source of a local job."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from skyband.data.time_axis import MOMENT
from skyband.jobs.job import Section
from skyband.jobs.local.chosen import Chosen
from skyband.jobs.local.source import LocalSource, Place

__all__ = ["Rate"]


class Rate(LocalSource):
    """Rows with a ``timestamp`` and a ``value`` that counts up, at a steady rate.

    A place is the moment at which the stream began, and the next value.
    """

    first = None
    schema = pa.schema([("timestamp", MOMENT), ("value", pa.int64())])

    def __init__(self, where: str, section: Section) -> None:
        self.where = where
        self.rate = section["rows_per_second"] or 1
        self.rows_per_batch = section["rows_per_batch"]
        self.chosen = Chosen(where, section["columns"])

    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The rows that are due by now, or the next ``rows_per_batch`` rows."""
        now = time.time_ns() // 1_000
        began, value = (now, 0) if place is None else place
        upto = value + (self.rows_per_batch or 0) or (now - began) * self.rate // 1_000_000
        if last and place is not None:
            return None
        if upto <= value and place is not None:
            return None
        end = (began, max(upto, value + 1))
        return self.again((began, value), end), end

    def again(self, begin: Place, end: Place) -> pa.Table:
        """The rows between two values."""
        began, first = end[0], 0 if begin is None else begin[1]
        values = np.arange(first, end[1], dtype=np.int64)
        times = began + values * 1_000_000 // self.rate
        rows = pa.table([times, values], schema=self.schema)
        return self.chosen.of(rows)
