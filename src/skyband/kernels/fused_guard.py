"""A table from (object, stream) to the panes of its last m reports: open addressing, linear probing.

``turn[slot]`` is -1 where a slot is free, else the column of ``panes[slot]`` that the next report
overwrites, which is the oldest of the m.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.kernels.hashing import mix
from skyband.kernels.jit import jit

__all__ = ["guard_keys", "judge", "live_slots", "remember"]

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Table = tuple[Hashes, Codes, Ints]

_NEVER = np.iinfo(np.int64).min
_ONE = np.uint64(1)


@jit
def guard_keys(hashes: Hashes, stream: Codes) -> Hashes:
    """One key for an object and a stream."""
    keys = np.empty(len(hashes), np.uint64)
    for row in range(len(hashes)):
        keys[row] = mix(hashes[row] + np.uint64(stream[row] + 1))
    return keys


@jit
def _slot(key: np.uint64, keys: Hashes, turn: Codes) -> int:
    """The slot of a key, or the free one where it would go."""
    wrap = np.uint64(len(keys)) - _ONE
    at = key & wrap
    while turn[at] >= 0 and keys[at] != key:
        at = (at + _ONE) & wrap
    return np.int64(at)


@jit
def judge(fresh: Hashes, pane: Ints, oldest: Ints, table: Table, local: Table) -> Mask:
    """Rows that are one report too many, the table left as it is.

    ``oldest`` is the first pane that some window covers together with the row's own; ``local`` is an
    empty table with room for all rows.
    """
    keys, turn, panes = table
    my_keys, my_turn, my_panes = local
    most = panes.shape[1]
    bad = np.zeros(len(fresh), np.bool_)
    for row in range(len(fresh)):
        at = _slot(fresh[row], my_keys, my_turn)
        if my_turn[at] < 0:
            my_keys[at] = fresh[row]
            known = _slot(fresh[row], keys, turn)
            my_turn[at] = max(turn[known], 0)
            for i in range(most):
                my_panes[at, i] = panes[known, i] if turn[known] >= 0 else _NEVER
        column = my_turn[at]
        if my_panes[at, column] >= oldest[row]:
            bad[row] = True
        else:
            my_panes[at, column] = pane[row]
            my_turn[at] = (column + 1) % most
    return bad


@jit
def remember(fresh: Hashes, pane: Ints, table: Table) -> int:
    """Note reports in a table that has room for them; how many keys are new."""
    keys, turn, panes = table
    most = panes.shape[1]
    count = 0
    for row in range(len(fresh)):
        at = _slot(fresh[row], keys, turn)
        if turn[at] < 0:
            keys[at] = fresh[row]
            turn[at] = 0
            for i in range(most):
                panes[at, i] = _NEVER
            count += 1
        panes[at, turn[at]] = pane[row]
        turn[at] = (turn[at] + 1) % most
    return count


@jit
def live_slots(table: Table, oldest: int, wider: Table) -> int:
    """Move the keys with a report of pane ``oldest`` or later into an empty table; how many."""
    keys, turn, panes = table
    new_keys, new_turn, new_panes = wider
    most = panes.shape[1]
    count = 0
    for slot in range(len(keys)):
        if turn[slot] < 0:
            continue
        newest = (turn[slot] + most - 1) % most
        if panes[slot, newest] < oldest:
            continue
        at = _slot(keys[slot], new_keys, new_turn)
        new_keys[at] = keys[slot]
        new_turn[at] = turn[slot]
        new_panes[at] = panes[slot]
        count += 1
    return count
