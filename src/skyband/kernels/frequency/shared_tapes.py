"""Windows of groups that count their own arrivals, counted from the lists of each group.

The lists of a group lie one after the other, so each window is a stretch of entries. Those of a
group that end together lie within each other, and are added up once, from the newest to the oldest:

    entries      ├──────────────── a ──────────────┼───── b ─────┤
    windows             ├────────────────┤              ├────────┤
                                  ├──────┤
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Codes, Ints, Mask
from skyband.kernels.core.patient import kernel
from skyband.kernels.core.room import with_room
from skyband.kernels.frequency.shared_groups import (
    HALF,
    LEAST_BUFFER,
    SHIFT,
    Found,
    Order,
    Room,
    read,
    read_packed,
)


class Asked(NamedTuple):
    """Stretches of entries, by group, end and size."""

    low: Ints
    high: Ints
    fresh: Mask  # whether it does not end together with the one before
    k: Ints


@kernel
def count_tapes(
    code: Codes, value: Ints, order_key: Ints, asked: Asked, order: Order, number: Codes
) -> tuple[Codes, Ints, Ints]:
    """The best items of stretches of entries and their sums, and where those of each end.

    ``number`` has -1 for each code, before and after. Items are numbered as they come up.
    """
    low, high, fresh, most = asked
    longest, k = 0, 1
    for window in range(len(low)):
        longest, k = max(longest, high[window] - low[window]), max(k, most[window])
    item, key = np.empty(longest, np.int32), np.empty(longest, np.int64)
    sums = np.empty(longest, np.int64)
    room = Room(
        np.arange(longest).astype(np.int32),
        sums,
        np.empty(longest + 8, np.int64),
        np.empty(longest, np.int64),
        np.empty(max(4 * k, LEAST_BUFFER, longest), np.int64),
    )
    out_code, out_sums = np.empty(1024, np.int32), np.empty(1024, np.int64)
    ends, none = np.zeros(len(low), np.int64), np.empty(0, np.int64)
    shift = SHIFT if order.packs else 0
    n = size = at = 0
    for window in range(len(low)):
        if fresh[window]:
            for i in range(size):
                number[item[i]] = -1
            size, at = 0, high[window]
        for i in range(low[window], at):
            c = code[i]
            own = number[c]
            if own < 0:
                own = number[c] = size
                item[own], key[own] = c, order_key[c]
                sums[own] = HALF - (key[own] - order.least) if order.packs else 0
                size += 1
            sums[own] += value[i] << shift
        at = min(at, low[window])
        if size:
            out_code = with_room(out_code, n, n + size)
            out_sums = with_room(out_sums, n, n + size)
            found = Found(out_code, out_sums, none, item, none, none, none, none)
            if order.packs:
                n += read_packed(size, most[window], item, room, found, n)
            else:
                n += read(size, most[window], item, key, order.decided, room, found, n)
        ends[window] = n
    for i in range(size):
        number[item[i]] = -1
    return out_code[:n], out_sums[:n], ends


@kernel
def count_pairs(code: Codes, low: Ints, high: Ints, number: Codes) -> int:
    """How many different codes stretches of entries have, all together.

    ``number`` has -1 for each code, before and after.
    """
    pairs = 0
    for window in range(len(low)):
        for i in range(low[window], high[window]):
            pairs += number[code[i]] < 0
            number[code[i]] = 0
        for i in range(low[window], high[window]):
            number[code[i]] = -1
    return pairs
