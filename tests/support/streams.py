"""Small streams for tests: seeded generators for volume, hypothesis strategies for odd cases.

Both give a `Stream`: a pyarrow table and the same rows as dicts with timestamps in integer
microseconds, as the oracle needs them. Both are cut into batches at the same places.

    ts  id  g  item  weight  score  p  price  volume  kind        stream, streams
    ts  object  g  stream  value                                  reports, report_streams
    ts  key  price | risk                                         two_sides, sides

Rows may be out of order by at most `lateness`, so that none of them is late for a window with that
lateness, wherever the batches are cut.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import oracle
from support.stream_rows import (
    ID_TYPES,
    MICROSECONDS,
    Stream,
    from_rows,
    in_arrival_order,
    rows_of,
)

__all__ = ["ID_TYPES", "MICROSECONDS", "Stream", "from_rows", "in_arrival_order", "rows_of"]

PATTERNS = ("uniform", "sine", "falling", "rising", "stepped", "crowded", "constant")
"""How scores develop along a stream; "crowded" has few distinct values, so many ties."""

SCORE_TYPES = {"int": pa.int64(), "float": pa.float64(), "infinite": pa.float64()}

# Sums and products of a few of these are exact in floating point, so that ties stay ties.
PROBABILITIES = (0.25, 0.5, 0.75, 1.0)


def columns_of(
    time_type: pa.DataType, id_type: pa.DataType, score_type: str
) -> dict[str, pa.DataType]:
    return {
        "ts": time_type,
        "id": id_type,
        "g": pa.string(),
        "item": pa.string(),
        "weight": pa.int64(),
        "score": SCORE_TYPES[score_type],
        "p": pa.float64(),
        "price": pa.int64(),
        "volume": pa.float64(),
        "kind": pa.string(),
    }


def report_columns(id_type: pa.DataType) -> dict[str, pa.DataType]:
    texts = {"g": pa.string(), "stream": pa.string()}
    return {"ts": pa.int64(), "object": id_type, **texts, "value": pa.float64()}


# ---------------------------------------------------------------------------------------------
# Seeded generators


def scores(pattern: str, n: int, rng: random.Random, score_type: str = "float") -> list[Any]:
    """Scores that follow the pattern, in about [0, 100]; half of "infinite" are infinite."""
    run: dict[str, Callable[[int], float]] = {
        "uniform": lambda i: rng.uniform(0, 100),
        "sine": lambda i: 50 + 50 * math.sin(i / 10) + rng.uniform(-5, 5),
        "falling": lambda i: 100 - 100 * i / n + rng.uniform(-1, 1),
        "rising": lambda i: 100 * i / n + rng.uniform(-1, 1),
        "stepped": lambda i: 10.0 * (i * 10 // n),
        "crowded": lambda i: float(rng.randrange(4)),
        "constant": lambda i: 7.0,
    }
    values = [run[pattern](i) for i in range(n)]
    if score_type == "int":
        return [round(value) for value in values]
    if score_type == "infinite":
        return [rng.choice((value, value, math.inf, -math.inf)) for value in values]
    return values


def times(n: int, rng: random.Random, *, start: int = 0, step: int = 3, gap: int = 0) -> list[int]:
    """Ascending times, many of them equal, at most `step` apart except for an occasional `gap`."""
    now = start
    result = []
    for _ in range(n):
        now += rng.choice((0, 0, rng.randint(0, step)))
        if gap and rng.random() < 4 / n:
            now += gap
        result.append(now)
    return result


def random_cuts(n: int, rng: random.Random, batches: int) -> list[int]:
    return sorted(rng.randint(0, n) for _ in range(batches - 1))


def stream(
    seed: int,
    n: int,
    *,
    pattern: str = "uniform",
    score_type: str = "float",
    id_type: str = "string",
    ids: int | None = None,
    groups: int = 2,
    time_type: pa.DataType | None = None,
    unit: int = 1,
    start: int = 0,
    step: int = 3,
    gap: int = 0,
    lateness: int = 0,
    batches: int = 1,
) -> Stream:
    """One table with the columns of every kind of query except FusedTopK.

    `ids` is the number of distinct ids (None: one per row). Times are multiplied by `unit`
    (1_000_000 makes them seconds of a timestamp), and so are `start`, `step`, `gap`, `lateness`.
    """
    rng = random.Random(seed)
    arrow_id, make_id = ID_TYPES[id_type]
    numbers = list(range(n)) if ids is None else [rng.randrange(ids) for _ in range(n)]
    if ids is None:
        rng.shuffle(numbers)
    values = scores(pattern, n, rng, score_type)
    rows = [
        {
            "ts": time * unit,
            "id": make_id(number),
            "g": f"g{rng.randrange(groups)}",
            "item": f"item{min(int(rng.expovariate(0.5)), 20)}",
            "weight": rng.randint(1, 5),
            "score": value,
            "p": rng.choice(PROBABILITIES),
            "price": rng.randrange(10),
            "volume": rng.uniform(0, 1),
            "kind": rng.choice("ab"),
        }
        for time, number, value in zip(
            times(n, rng, start=start, step=step, gap=gap), numbers, values, strict=True
        )
    ]
    delays = [rng.randint(0, lateness) * unit for _ in rows]
    schema = columns_of(time_type or pa.int64(), arrow_id, score_type)
    return from_rows(in_arrival_order(rows, delays), schema, random_cuts(n, rng, batches))


def reports(
    seed: int,
    n: int,
    *,
    size: int,
    streams: Sequence[str] = ("a", "b", "c"),
    recurrences: int = 1,
    objects: int = 10,
    id_type: str = "string",
    bounds: tuple[float, float] = (0.0, 1.0),
    step: int = 3,
    lateness: int = 0,
    count: bool = False,
    groups: int = 1,
    batches: int = 1,
) -> Stream:
    """Reports of objects on several streams, in one table.

    No window of `size` (in time, or with `count` in arrivals of a group) has more than
    `recurrences` reports of one object in one stream: a report too many gets a new object.
    """
    rng = random.Random(seed)
    arrow_id, make_id = ID_TYPES[id_type]
    in_order = [{"ts": time} for time in times(n, rng, step=step)]
    arrived = in_arrival_order(in_order, [rng.randint(0, lateness) for _ in in_order])
    told: dict[tuple[str, int, str], list[int]] = {}
    arrivals: dict[str, int] = {}
    fresh = objects
    rows = []
    for row in arrived:
        group = f"g{rng.randrange(groups)}"
        arrivals[group] = arrivals.get(group, 0) + 1
        place = arrivals[group] if count else row["ts"]
        number, name = rng.randrange(objects), rng.choice(streams)
        near = [n for n in told.get((group, number, name), []) if abs(n - place) < size]
        if len(near) >= recurrences:
            number, fresh = fresh, fresh + 1
        told.setdefault((group, number, name), []).append(place)
        value = rng.choice((rng.uniform(*bounds), rng.choice(bounds), sum(bounds) / 2))
        made = {"object": make_id(number), "g": group, "stream": name, "value": value}
        rows.append({**row, **made})
    schema = report_columns(arrow_id)
    return from_rows(rows, schema, random_cuts(n, rng, batches))


def two_sides(
    seed: int, n: int, *, keys: int = 4, step: int = 3, lateness: int = 0, batches: int = 1
) -> dict[str, Stream]:
    """Trades and risks over the same stocks, for a join; "ts" is on both sides."""
    rng = random.Random(seed)
    sides = {}
    for side, column in (("trades", "price"), ("risks", "risk")):
        rows = [
            {"ts": time, "stock": f"s{rng.randrange(keys)}", column: rng.randrange(8)}
            for time in times(n, rng, step=step)
        ]
        arrived = in_arrival_order(rows, [rng.randint(0, lateness) for _ in rows])
        schema = {"ts": pa.int64(), "stock": pa.string(), column: pa.int64()}
        sides[side] = from_rows(arrived, schema, random_cuts(n, rng, batches))
    return sides


# ---------------------------------------------------------------------------------------------
# Hypothesis: few rows from small domains, so that ties are common and examples shrink

# The step from one time to the next: mostly none, sometimes far more than a window.
time_steps = st.one_of(st.just(0), st.integers(0, 3), st.sampled_from((0, 1, 7, 40)))

tied_scores: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-2, 3),
    "float": st.sampled_from((-1.5, -0.0, 0.0, 0.5, 2.0, 1e300)),
    "infinite": st.sampled_from((-math.inf, 0.0, 1.0, math.inf)),
}


@st.composite
def time_windows(draw: st.DrawFn, max_lateness: int = 6) -> oracle.TimeWindow:
    """Sliding, tumbling and hopping, slide dividing size or not, with and without an offset."""
    return oracle.TimeWindow(
        size=draw(st.integers(1, 12)),
        slide=draw(st.none() | st.integers(1, 12)),
        lateness=draw(st.integers(0, max_lateness)),
        offset=draw(st.integers(-3, 3)),
    )


@st.composite
def count_windows(draw: st.DrawFn) -> oracle.CountWindow:
    return oracle.CountWindow(draw(st.integers(1, 10)), draw(st.none() | st.integers(1, 10)))


@st.composite
def _placed(
    draw: st.DrawFn, columns: dict[str, st.SearchStrategy[Any]], max_rows: int, lateness: int
) -> tuple[list[oracle.Row], list[int]]:
    """Rows with these columns at ascending times, in order of arrival, and the batch boundaries."""
    part = st.tuples(time_steps, st.integers(0, lateness), st.fixed_dictionaries(columns))
    now = draw(st.integers(-10, 10))
    rows: list[oracle.Row] = []
    delays = []
    least = draw(st.sampled_from((0, max_rows // 2)))  # lists without a least size are short
    for step, delay, row in draw(st.lists(part, min_size=least, max_size=max_rows)):
        now += step
        rows.append({"ts": now, **row})
        delays.append(delay)
    arrived = in_arrival_order(rows, delays)
    cuts = draw(st.lists(st.integers(0, len(rows)), max_size=4))
    return arrived, sorted(cuts)


@st.composite
def streams(draw: st.DrawFn, *, max_rows: int = 12, lateness: int = 0) -> Stream:
    """Like `stream`, from small domains: any score and id type, groups without nulls."""
    score_type = draw(st.sampled_from(sorted(SCORE_TYPES)))
    arrow_id, make_id = ID_TYPES[draw(st.sampled_from(sorted(ID_TYPES)))]
    columns = {
        "id": st.integers(0, 5).map(make_id),
        "g": st.sampled_from("xyz"),
        "item": st.sampled_from("abcd"),
        "weight": st.integers(1, 4),
        "score": tied_scores[score_type],
        "p": st.sampled_from(PROBABILITIES),
        "price": st.integers(0, 3),
        "volume": st.integers(0, 3).map(float),
        "kind": st.sampled_from("ab"),
    }
    rows, cuts = draw(_placed(columns, max_rows, lateness))
    time_type = draw(st.sampled_from((pa.int64(), MICROSECONDS, pa.timestamp("us"))))
    schema = columns_of(time_type, arrow_id, score_type)
    return from_rows(rows, schema, cuts)


@st.composite
def report_streams(
    draw: st.DrawFn,
    *,
    size: int,
    names: Sequence[str] = ("a", "b"),
    recurrences: int = 1,
    max_rows: int = 12,
    lateness: int = 0,
    count: bool = False,
    grouped: bool = False,
) -> Stream:
    """Like `reports`: values in [0, 1]; reports too many for a window of `size` are left out."""
    arrow_id, make_id = ID_TYPES[draw(st.sampled_from(sorted(ID_TYPES)))]
    columns = {
        "object": st.integers(0, 4).map(make_id),
        "g": st.sampled_from("xy"),
        "stream": st.sampled_from(names),
        "value": st.sampled_from((0.0, 0.25, 0.5, 1.0)),
    }
    rows, cuts = draw(_placed(columns, max_rows, lateness))
    kept: list[oracle.Row] = []
    places: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        group = row["g"] if grouped else ""
        arrivals = sum(not grouped or other["g"] == group for other in kept)
        place = arrivals if count else row["ts"]
        earlier = places.setdefault((group, row["object"], row["stream"]), [])
        if sum(abs(other - place) < size for other in earlier) < recurrences:
            earlier.append(place)
            kept.append(row)
    return from_rows(kept, report_columns(arrow_id), [min(cut, len(kept)) for cut in cuts])


@st.composite
def sides(draw: st.DrawFn, *, max_rows: int = 8, lateness: int = 0) -> dict[str, Stream]:
    """Like `two_sides`, from small domains."""
    result = {}
    for side, column in (("trades", "price"), ("risks", "risk")):
        columns = {"stock": st.sampled_from("uvw"), column: st.integers(0, 3)}
        rows, cuts = draw(_placed(columns, max_rows, lateness))
        schema = {"ts": pa.int64(), "stock": pa.string(), column: pa.int64()}
        result[side] = from_rows(rows, schema, cuts)
    return result
