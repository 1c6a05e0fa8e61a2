"""A table from (object, stream) to the panes of its last m reports, with linear probing.

A key of 0 marks a free slot. The panes of a slot ascend: a report pushes the oldest of them out.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Codes, Hashes, Ints, Mask
from skyband.kernels.borrow import copy_rows
from skyband.kernels.hashing import mix, plain_mix
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel, kernel_of

Table = tuple[Hashes, Ints]

_NEVER = np.iinfo(np.int64).min
_FREE, _ONE, _HALF = np.uint64(0), np.uint64(1), np.uint64(32)
_APART = np.uint64(0xC2B2AE3D27D4EB4F)  # odd: no collisions across streams


def _guarded(hashes: Hashes, stream: Codes) -> Hashes:
    apart = (stream.astype(np.int64) + 1).astype(np.uint64) * _APART
    keys: Hashes = np.maximum(plain_mix(hashes + apart), _ONE)
    return keys


@kernel_of(stand_in=_guarded)
def guard_keys(hashes: Hashes, stream: Codes) -> Hashes:
    """One key for an object and a stream."""
    keys = np.empty(len(hashes), np.uint64)
    for row in range(len(hashes)):
        keys[row] = max(mix(hashes[row] + np.uint64(stream[row] + 1) * _APART), _ONE)
    return keys


@jit
def _slot(key: np.uint64, keys: Hashes) -> int:
    """The slot of a key, or the free one where it would go; the table has any size below 2^32."""
    at = int(np.int64(((key >> _HALF) * np.uint64(len(keys))) >> _HALF))
    while keys[at] != _FREE and keys[at] != key:
        at += 1
        if at == len(keys):
            at = 0
    return at


@kernel
def remember(
    fresh: Hashes, pane: Ints, oldest: Ints, table: Table, bad: Mask, first: int, last: int
) -> int:
    """Add the reports ``[first, last)`` to a table with room for them; how many keys are new.

    ``oldest`` is the first pane that some window covers together with the row's own. A report that
    is one too many is marked bad and not added.
    """
    keys, panes = table
    most = panes.shape[1]
    count = 0
    for row in range(first, last):
        at = _slot(fresh[row], keys)
        if keys[at] == _FREE:
            keys[at] = fresh[row]
            for i in range(most):
                panes[at, i] = _NEVER
            count += 1
        if panes[at, 0] >= oldest[row]:
            bad[row] = True
            continue
        for i in range(1, most):
            panes[at, i - 1] = panes[at, i]
        panes[at, most - 1] = pane[row]
    return count


@kernel
def live_slots(table: Table, oldest: int, wider: Table) -> int:
    """Move the keys with a report of pane ``oldest`` or later into an empty table; how many."""
    keys, panes = table
    new_keys, new_panes = wider
    most = panes.shape[1]
    count = 0
    for slot in range(len(keys)):
        if keys[slot] != _FREE and panes[slot, most - 1] >= oldest:
            at = _slot(keys[slot], new_keys)
            new_keys[at] = keys[slot]
            copy_rows(new_panes[at], panes[slot], most)
            count += 1
    return count
