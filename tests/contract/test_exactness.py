"""An answer says that it is exact only if that is proven; items of weight 0 count as items."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from skyband import registry
from support import conformance, promises, streams, suites

SKETCHES = [
    name
    for name in registry.algorithms("HeavyHitters")
    if not suites.is_exact("HeavyHitters", name) and "weight" not in suites.REFUSED.get(name, ())
]
"""Approximate algorithms that accept weights."""

SCHEMA = {"ts": pa.int64(), "item": pa.string(), "g": pa.string(), "weight": pa.int64()}


def made(items: str, weights: list[int], times: list[int], cuts: list[int]) -> streams.Stream:
    rows = [
        {"ts": time, "item": item, "g": "x", "weight": weight}
        for item, weight, time in zip(items, weights, times, strict=True)
    ]
    return streams.from_rows(rows, SCHEMA, cuts)


def asked(algorithm: str, capacity: int, **more: Any) -> dict[str, Any]:
    sizes = {"capacity": capacity} | ({} if algorithm == "ss" else {"cells": 2 * capacity})
    chosen = {"k": 2, "item": "item", "weight": "weight", "time": "ts", "algorithm": algorithm}
    return chosen | sizes | more


@pytest.mark.parametrize("algorithm", SKETCHES)
@pytest.mark.parametrize("window", [oracle.CountWindow(3), oracle.TimeWindow(10)])
def test_items_of_weight_0_that_were_evicted(algorithm: str, window: Any) -> None:
    stream = made("abc", [0, 0, 0], [1, 2, 3], [])
    for capacity, proven in ((2, False), (3, True)):
        query = sb.HeavyHitters(
            window=conformance.window_of(window, stream.table), **asked(algorithm, capacity)
        )
        (answer,) = sb.watch(stream.table, query)
        assert answer.exact == proven
        if proven:
            assert answer.table["item"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize("algorithm", SKETCHES)
def test_items_of_weight_0_cut_off_a_long_pane(algorithm: str) -> None:
    stream = made("zyxwvuabcd", [0] * 10, [1] * 10, [])
    options = {"raw_rows": 4}
    window = sb.TimeWindow(10)
    query = sb.HeavyHitters(window=window, **asked(algorithm, 3, options=options))
    (answer,) = sb.watch(stream.table, query)
    assert not answer.exact


@pytest.mark.parametrize("algorithm", SKETCHES)
def test_what_was_left_out_no_longer_matters_once_its_pane_has_gone(algorithm: str) -> None:
    stream = made("abcde", [0, 0, 0, 0, 5], [0, 0, 0, 11, 12], [3, 4])
    query = sb.HeavyHitters(window=sb.TimeWindow(10, slide=5), **asked(algorithm, 2))
    said = {answer.end: answer.exact for answer in sb.watch(stream.table, query)}
    assert said == {5: False, 10: False, 15: True}


@pytest.mark.parametrize("algorithm", promises.MAY_SHOW_NOTHING)
@pytest.mark.parametrize("by", [(), ("g",)])
def test_a_list_that_was_full_may_be_empty_later(algorithm: str, by: tuple[str, ...]) -> None:
    stream = made("bbccaz", [1] * 6, [0, 0, 0, 0, 3, 9], [])
    chosen = asked(algorithm, 2, by=by)
    if algorithm == "fsw-f":
        del chosen["weight"]
    query = sb.HeavyHitters(window=sb.TimeWindow(6, slide=3), **chosen)
    answer = {answer.end: answer for answer in sb.watch(stream.table, query)}[9]
    assert (answer.table.num_rows, answer.total, answer.exact) == (0, 1, False)
    assert answer.bounds["mu"] >= 1


@pytest.mark.parametrize("algorithm", SKETCHES)
def test_an_item_of_weight_0_that_meets_a_full_list(algorithm: str) -> None:
    stream = made("aaabcaa", [0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1, 3], [])
    window = oracle.TimeWindow(4, 3)
    conformance.compare("HeavyHitters", window, asked(algorithm, 2), stream, False, True)


@st.composite
def light_streams(draw: st.DrawFn, lateness: int) -> streams.Stream:
    """Few items, most of them of weight 0."""
    row = st.fixed_dictionaries({
        "item": st.sampled_from("abcdef"),
        "g": st.sampled_from("xy"),
        "weight": st.sampled_from((0, 0, 0, 1, 3)),
    })  # fmt: skip
    now, rows, delays = 0, [], []
    for step, delay, values in draw(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, lateness), row), max_size=16)
    ):
        now += step
        rows.append({"ts": now, **values})
        delays.append(delay)
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    return streams.from_rows(streams.in_arrival_order(rows, delays), SCHEMA, cuts)


@pytest.mark.nojit
@pytest.mark.parametrize("algorithm", SKETCHES)
@given(data=st.data())
@settings(max_examples=40)
def test_exact_answers_are_the_definitions_own(algorithm: str, data: st.DataObject) -> None:
    window = data.draw(streams.time_windows(3) | streams.count_windows())
    stream = data.draw(light_streams(getattr(window, "lateness", 0)))
    options = {"raw_rows": data.draw(st.sampled_from((2, 5, 100)))}
    by = data.draw(st.sampled_from(((), ("g",))))
    chosen = asked(algorithm, data.draw(st.integers(2, 4)), options=options, by=by)
    restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
    conformance.compare("HeavyHitters", window, chosen, stream, restarts, peeks)
