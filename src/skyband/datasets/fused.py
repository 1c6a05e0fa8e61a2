"""Streams that report objects apart from one another, with a tunable correlation of appearance.

The generator of the fused paper's section 6: every stream reports an object at most once; with the
probability ``correlation`` a new report is of an object that another stream reported recently, else
of a new object. Values are uniform in [0, 1].
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

__all__ = ["correlated_reports"]


def correlated_reports(
    rows: int,
    *,
    streams: int = 2,
    correlation: float = 0.5,
    recent: int = 1000,
    seed: int = 0,
) -> pa.Table:
    """Reports of objects on several streams: ``seq``, ``object``, ``stream``, ``value``.

    ``recent`` is the number of last reports of a stream from which the others pick. Streams are
    named ``s0``, ``s1``, ...

    >>> correlated_reports(4, seed=3).column_names
    ['seq', 'object', 'stream', 'value']
    """
    rng = np.random.default_rng(seed)
    stream = rng.integers(0, streams, rows)
    values = rng.random(rows)
    picks = rng.random(rows) < correlation
    others = rng.integers(1, max(streams, 2), rows)
    places = rng.integers(0, recent, rows)
    last = [[-1] * recent for _ in range(streams)]
    counts = [0] * streams
    where: dict[int, int] = {}
    """Of objects reported recently, a bit a stream that has reported it."""
    objects = np.empty(rows, np.int64)
    fresh = 0
    for row, (s, pick, other, place) in enumerate(
        zip(stream.tolist(), picks.tolist(), others.tolist(), places.tolist(), strict=True)
    ):
        item = -1
        if pick and streams > 1:
            item = last[(s + other) % streams][place]
            if item >= 0 and where[item] >> s & 1:
                item = -1
        if item < 0:
            item, fresh = fresh, fresh + 1
        objects[row] = item
        where[item] = where.get(item, 0) | 1 << s
        last[s][counts[s] % recent] = item
        counts[s] += 1
    # Objects come in no particular order of their ids.
    names = rng.permutation(fresh)
    return pa.table({
        "seq": np.arange(rows),
        "object": names[objects],
        "stream": pa.DictionaryArray.from_arrays(
            pa.array(stream.astype(np.int32)), [f"s{i}" for i in range(streams)]
        ),
        "value": values,
    })  # fmt: skip
