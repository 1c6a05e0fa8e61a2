"""Uncertain streams: the paper's synthetic ones, and two real ones if their data is there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.datasets.real import real

__all__ = ["METHODS", "fires", "icebergs", "icebergs_repeated", "random_order", "worst_order"]

METHODS = {
    "R/V": 0.8,
    "VIS": 0.7,
    "RAD": 0.6,
    "SAT-LOW": 0.5,
    "SAT-MED": 0.4,
    "SAT-HIGH": 0.3,
    "EST": 0.4,
}
"""How far each method of sighting icebergs can be trusted, according to the paper (section 6)."""


def random_order(rows: int, seed: int = 1) -> pa.Table:
    """The paper's synthetic stream: distinct scores in random order, uniform probabilities.

    >>> table = random_order(4)
    >>> table.column_names, sorted(table["score"].to_pylist())
    (['id', 'score', 'p'], [1, 2, 3, 4])
    """
    rng = np.random.default_rng(seed)
    columns = {
        "id": np.arange(rows),
        "score": rng.permutation(rows) + 1,
        "p": 1.0 - rng.random(rows),
    }
    return pa.table(columns)


def worst_order(rows: int) -> pa.Table:
    """Falling scores and probabilities: every row is in some answer, so all must be kept.

    >>> worst_order(3)["score"].to_pylist()
    [3, 2, 1]
    """
    falling = np.arange(rows, 0, -1)
    return pa.table({"id": np.arange(rows), "score": falling, "p": falling / rows})


def icebergs() -> pa.Table:
    """Sightings by the International Ice Patrol: ``ts``, ``id``, ``score``, ``p``.

    ``p`` follows from the method of sighting. The paper scores by days drifted, which the data of
    these seasons lacks; days since the iceberg's first sighting take its place.
    """
    table = real("iip_icebergs_2014_2021", ["ts", "season", "berg_number", "method"])
    moments = table["ts"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    berg = table["season"].to_numpy().astype(np.int64) * 1_000_000 + table["berg_number"].to_numpy()
    order = np.lexsort((moments, berg))
    first = np.ones(len(order), np.bool_)
    first[1:] = berg[order][1:] != berg[order][:-1]
    starts = np.flatnonzero(first)
    born = np.empty(len(order), np.int64)
    lengths = np.diff(np.append(starts, len(order)))
    born[order] = np.repeat(moments[order][starts], lengths)
    methods = table["method"].combine_chunks().dictionary_decode().to_pylist()
    return pa.table(
        {
            "ts": table["ts"].cast(pa.timestamp("us")),
            "id": berg,
            "score": (moments - born) / 86_400e6,
            "p": [METHODS[method] for method in methods],
        }
    )


def icebergs_repeated(rows: int, seed: int = 1) -> pa.Table:
    """The paper's long stream of sightings: records drawn at random with replacement."""
    table = icebergs()
    drawn = np.random.default_rng(seed).integers(0, table.num_rows, rows)
    return table.take(pa.array(drawn))


def fires() -> pa.Table:
    """Fires seen by MODIS over North America, in the order in which a crawler first saw them.

    ``ts`` is out of order by hours; ``p`` is the confidence as a fraction of 1 (0 for some rows,
    which makes them bad rows); ``score`` is the radiative power. Confidence is not a calibrated
    probability.
    """
    table = real("fires_modis_na2026", ["ts", "first_seen", "lat", "lon", "frp_mw", "confidence"])
    table = table.sort_by([("first_seen", "ascending"), ("ts", "ascending")])
    return pa.table(
        {
            "ts": table["ts"],
            "first_seen": table["first_seen"],
            "id": pc.binary_join_element_wise(
                table["lat"].cast(pa.string()), table["lon"].cast(pa.string()), ","
            ),
            "score": table["frp_mw"],
            "p": pc.divide(table["confidence"].cast(pa.float64()), 100.0),
        }
    )
