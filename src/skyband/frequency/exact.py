"""``exact``: the count of every item of the window."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.frequency.lists import PaneLists
from skyband.kernels.counting import count_runs
from skyband.runs import Part, Runs
from skyband.synopsis import Rows

__all__ = ["Exact"]


class Exact(PaneLists):
    """The true count of every item that occurs in the window.

    Cost: O(1) a row to count it in its pane, O(1) for each distinct item of a pane when it comes
    and when it leaves, and one pass over the window's distinct items for each answer. State: an
    entry for each distinct item of each live pane. Guarantee: the definition itself; errors are 0.
    Floating weights are only ever added, so an expired giant leaves no trace in what stays.

    >>> import pyarrow as pa, skyband as sb
    >>> words = pa.table({"word": ["to", "be", "or", "not", "to", "be", "to"]})
    >>> query = sb.HeavyHitters(k=2, item="word", window=sb.CountWindow(7), algorithm="exact")
    >>> sb.rank(words, query).select(["word", "count"]).to_pylist()
    [{'word': 'to', 'count': 3}, {'word': 'be', 'count': 2}]
    """

    shortens = True

    def summarise(self, rows: Rows) -> Runs:
        hashes = self.hashed(rows)
        weights, total = self.weighed(rows)
        first, counts, offsets = count_runs(hashes, weights, rows.offsets)
        columns: dict[str, Any] = {"hash": hashes[first], "count": counts}
        columns |= {f"item:{name}": rows.take(name, first) for name in self.items}
        return rows.runs({"items": Part(offsets, columns)}, total)

    def combine(self, runs: Runs) -> Runs:
        fresh = np.flatnonzero(~runs.repeats)
        part = runs.parts["items"]
        offsets = np.append(part.offsets[fresh], len(part))
        first, counts, offsets = count_runs(part["hash"], _read_only(part["count"]), offsets)
        columns = {
            name: column[first] if isinstance(column, np.ndarray) else column.take(first)
            for name, column in part.columns.items()
            if name != "count"
        }
        scalars = {n: np.add.reduceat(values, fresh) for n, values in runs.scalars.items()}
        merged = Part(offsets, columns | {"count": counts})
        return Runs(runs.stamp[fresh], runs.group[fresh], {"items": merged}, scalars)


def _read_only(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    view = values.view()
    view.flags.writeable = False  # always, so that kernels are compiled for one kind only
    return view
