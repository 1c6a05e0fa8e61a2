"""The queries that a page shows, and the columns that they read and answer with."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from skyband.embedded.monitor import Monitor
from skyband.engine.session import ONLY
from skyband.query import Query

__all__ = ["Board", "Schemas"]

Schemas = Mapping[str, pa.Schema]
"""The columns of each source; the name of a single source is ``""``."""


class Board:
    """Queries over the same sources."""

    def __init__(self, queries: Mapping[str, Query], schemas: Schemas, on_bad: str) -> None:
        self.queries = dict(queries)
        self.schemas = dict(schemas)
        self.on_bad = on_bad

    def columns(self, name: str) -> pa.Schema:
        """The columns of a query's answers."""
        monitor = Monitor(self.queries[name], self.on_bad)
        session = monitor.session
        for source, schema in self.schemas.items():
            if source == ONLY or source in self.queries[name].sources:
                session.bind(source, schema)
        session.several = ONLY not in self.schemas
        session.start()
        return session.schema(None)
