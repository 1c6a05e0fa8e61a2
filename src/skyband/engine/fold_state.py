"""A fold as plain values and flat arrays, and back; what comes back may have been forged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.arrays import Array, Saved, State
from skyband.data.flat_state import Form, admitted, require, whole
from skyband.data.ipc import sound_table, table_to_array
from skyband.data.packing import prefixed, under
from skyband.engine.clocks import NEVER

if TYPE_CHECKING:
    from skyband.engine.fold import Fold

__all__ = ["restore_fold", "saved_fold"]

_CODES = ("group", "owner", "gap_group")
"""The names under which states save codes of groups."""
_PANES = ("pane", "held", "born", "seen", "started", "gap_stamp")
"""The names under which they save panes."""


def saved_fold(fold: Fold) -> tuple[dict[str, Any], State]:
    """Plain values and flat arrays."""
    headers, arrays = fold.open.flat()
    arrays |= prefixed("synopsis/", fold.synopsis.snapshot())
    arrays |= prefixed("groups/", fold.groups.state())
    arrays |= {"counts": fold.count.counts, "newest": fold.live.newest}
    arrays |= {"total_keys": fold.totals.keys, "totals": fold.totals.weights}
    arrays["short"] = fold.short
    for i, table in enumerate(fold.before.values()):
        arrays[f"before{i}"] = table_to_array(table)
    header: dict[str, Any] = {
        "clock": fold.time.state(),
        "windows_out": fold.windows_out,
        "known_groups": fold.live.known,
        "open": headers,
        "before": list(fold.before),
    }
    return header, arrays


def restore_fold(fold: Fold, header: Mapping[str, Any], arrays: Saved) -> None:
    """Restore a snapshot of the same query, bound to the same columns."""
    fold.time.restore(header["clock"])
    if fold.groups.names:
        fold.groups.restore(under(arrays, "groups/"))
    like: dict[str, Any] = {"counts": fold.count.counts, "newest": fold.live.newest}
    like |= {"total_keys": fold.totals.keys, "totals": fold.totals.weights}
    if arrays["totals"].dtype == np.float64:
        like["totals"] = fold.totals.weights.astype(np.float64)
    total = Form("totals", ascends=True)
    forms = {"counts": Form("counts", 0), "total_keys": total, "totals": Form("totals")}
    saved = admitted(arrays, like, forms)
    require(len(saved["counts"]) > 0, "no arrivals are known")
    fold.count.counts, fold.live.newest = saved["counts"], saved["newest"]
    if fold.counting and fold.groups.names:
        short = arrays.get("short", fold.panes.pane_of(fold.count.counts))
        fold.short = admitted({"short": short}, {"short": fold.short}, {})["short"]
    fold.totals.keys, fold.totals.weights = saved["total_keys"], saved["totals"]
    fold.windows_out = whole(header["windows_out"])
    fold.live.known = whole(header["known_groups"])
    _restore_synopsis(fold, under(arrays, "synopsis/"))
    fold.open.restore(header["open"], arrays)
    for runs in [*fold.open.pieces, *([] if fold.open.blank is None else [fold.open.blank])]:
        fold.synopsis.saved_runs(runs, sealed=False)
        require((runs.stamp >= _first_open(fold, runs.group)).all(), "an open pane that is sealed")
    fold.synopsis.bounds_of_saved = None
    require(set(header["before"]) <= set(range(fold.groups.bound)), "a group that is not there")
    fold.before = {g: sound_table(arrays[f"before{i}"]) for i, g in enumerate(header["before"])}


def _first_open(fold: Fold, groups: Array) -> Any:
    """The first pane of each of these groups that still takes rows."""
    if not fold.counting:
        return fold.time.sealed
    counts = np.append(fold.count.counts, np.zeros(fold.groups.bound, np.int64))
    return fold.panes.pane_of(counts[groups])


def _restore_synopsis(fold: Fold, arrays: Saved) -> None:
    """Restore the state over sealed panes; all codes and panes in it must be known."""
    bound = fold.groups.bound
    panes = int(np.max(_first_open(fold, np.arange(bound)), initial=NEVER + 1))
    if not fold.counting:
        require(fold.totals.keys.max(initial=NEVER) < panes, "panes that are still to come")
    fold.synopsis.bounds_of_saved = bound, panes
    for name, array in arrays.items():
        kind = name.rpartition("/")[2]
        if kind in _CODES and array.dtype == np.int32:
            require(array.max(initial=-1) < bound, "a group that is not there")
        elif kind in _PANES and array.dtype == np.int64:
            fold.synopsis.check_sealed(array.ravel())
    fold.synopsis.restore(arrays)
