"""What a synopsis checks of the summaries in a snapshot, which may have been forged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.rows import Rows
from skyband.contract.runs import Runs, Types
from skyband.data.flat_state import require

__all__ = ["SavedRuns"]

_NO_PANE = np.iinfo(np.int64).min


class SavedRuns:
    """The part of a synopsis that reads summaries from a snapshot."""

    bounds_of_saved: tuple[int, int] | None = None
    """While a snapshot is restored: all codes of groups, and all sealed panes, are below these."""

    def summary_types(self: Any) -> Types:
        """The types of all columns that a summary may have, as that of no rows shows them."""
        found: dict[str, dict[str, Any]] = {}
        none = np.zeros(0, np.int64)
        for source, schema in self.schemas.items():
            batch = pa.RecordBatch.from_pylist([], schema=schema)
            runs = none, none.astype(np.int32), np.zeros(1, np.int64)
            summary = self.summarise(Rows(source, batch, *runs, None, none, none))
            for part, columns in [*summary.types.items(), *self.combine(summary).types.items()]:
                found.setdefault(part, {}).update(columns)
        return found

    def saved_runs(self: Any, runs: Runs, sealed: bool = True) -> Runs:
        """Summaries from a snapshot, if this query may have made them; raises EngineError if not.

        An algorithm whose summaries hold indices checks their range, too.
        """
        if self.bounds_of_saved is not None:
            groups = self.bounds_of_saved[0] if self.query.groups else 1
            require(runs.group.max(initial=-1) < groups, "a group that is not there")
            self.check_sealed(runs.stamp[: len(runs) * sealed])
        return runs.typed(self.summary_types(), whole=not sealed)

    def check_sealed(self, panes: Ints) -> None:
        """Refuse a snapshot whose state has rows of panes that are still to come."""
        if self.bounds_of_saved is not None and len(panes):
            known = max(self.bounds_of_saved[1], _NO_PANE + 1)
            require(panes.max() < known, "a pane that is not sealed")
