"""Items of every type and of several columns, and weights of every size."""

from __future__ import annotations

import datetime as dt
import decimal
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband import registry

ALGORITHMS = registry.algorithms("HeavyHitters")
DAY = dt.date(2026, 1, 1)
ITEMS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [3, -7, 100]),
    "uint64": (pa.uint64(), [2**64 - 1, 0, 5]),
    "float": (pa.float64(), [2.5, -0.5, 1e300]),
    "string": (pa.string(), ["a long string of letters, 1", "a long string of letters, 0", ""]),
    "large string": (pa.large_string(), ["b", "", "ä"]),
    "binary": (pa.binary(), [b"\x00", b"", b"\xff\xff"]),
    "fixed binary": (pa.binary(3), [b"abc", b"abd", b"zzz"]),
    "date": (pa.date32(), [DAY, DAY - dt.timedelta(days=40_000), DAY + dt.timedelta(days=1)]),
    "timestamp": (pa.timestamp("ms"), [dt.datetime(2026, 1, d) for d in (3, 1, 2)]),
    "decimal": (pa.decimal128(6, 2), [decimal.Decimal(s) for s in ("1.50", "-2.25", "9.00")]),
    "bool": (pa.bool_(), [True, False, True]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["x", "y", "z"]),
}
NUMBERS = [0, 1, 2, 1, 0, 2, 2, 1, 0, 1, 2, 2, 0, 0, 1, 1]


def expected(values: list[Any], k: int) -> list[tuple[Any, int]]:
    counts = Counter(values)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


@pytest.mark.nojit
@pytest.mark.parametrize("kind", ITEMS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_items_of_every_type(algorithm: str, kind: str) -> None:
    arrow, values = ITEMS[kind]
    rows = [values[n] for n in NUMBERS]
    query = sb.HeavyHitters(
        k=2, item="item", window=sb.CountWindow(8, slide=4), algorithm=algorithm
    )
    # If the type is a dictionary, each batch has a different one.
    monitor = sb.Monitor(query)
    answers = []
    for start in range(0, 16, 5):
        answers += monitor.push(pa.table({"item": pa.array(rows[start : start + 5], arrow)}))
        monitor = sb.Monitor.restore(monitor.snapshot())
    assert [answer.end for answer in answers] == [4, 8, 12, 16]
    for answer in answers:
        live = rows[max(0, answer.end - 8) : answer.end]
        got = list(
            zip(answer.table["item"].to_pylist(), answer.table["count"].to_pylist(), strict=True)
        )
        if answer.exact or algorithm != "fsw-f":
            assert got == expected(live, 2)
        plain = arrow.value_type if pa.types.is_dictionary(arrow) else arrow
        assert answer.table.schema.field("item").type == plain


@pytest.mark.nojit
@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "fsw-f"])
def test_several_columns_make_one_item(algorithm: str) -> None:
    source = ["a", "a", "b", "b", "a", "a", "ab", "b"]
    target = ["b", "c", "a", "a", "c", "b", "", "b"]
    table = pa.table({"src": source, "dst": target})
    query = sb.HeavyHitters(k=3, item=("src", "dst"), window=sb.CountWindow(8), algorithm=algorithm)
    found = sb.rank(table, query)
    assert found.column_names[2:] == ["rank", "src", "dst", "count", "error"]
    pairs = list(zip(found["src"].to_pylist(), found["dst"].to_pylist(), strict=True))
    want = expected(list(zip(source, target, strict=True)), 3)
    assert list(zip(pairs, found["count"].to_pylist(), strict=True)) == want


@pytest.mark.nojit
@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "fsw-f"])
def test_a_giant_leaves_no_trace_when_it_expires(algorithm: str) -> None:
    weights = [1e300, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    table = pa.table({"item": ["a"] * 8, "w": weights})
    query = sb.HeavyHitters(
        k=1, item="item", weight="w", window=sb.CountWindow(4, slide=2), algorithm=algorithm
    )
    found = sb.rank(table, query)["count"].to_pylist()
    assert found[1:] == pytest.approx([1e300, 0.2 + 0.3 + 0.4 + 0.5, 0.4 + 0.5 + 0.6 + 0.7])


@pytest.mark.nojit
@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "fsw-f"])
def test_items_without_weight_are_items(algorithm: str) -> None:
    table = pa.table({"item": ["b", "a", "b"], "w": [0, 0, 0]})
    query = sb.HeavyHitters(
        k=3, item="item", weight="w", window=sb.CountWindow(3), algorithm=algorithm
    )
    found = sb.rank(table, query)
    assert found["item"].to_pylist() == ["a", "b"]
    assert found["count"].to_pylist() == [0, 0]


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("weight", "kind"),
    [(-1, pa.int64()), (float("nan"), pa.float64()), (float("inf"), pa.float64()),
     (None, pa.int64()), (2**63, pa.uint64())],
)  # fmt: skip
def test_bad_weights_are_refused(weight: Any, kind: pa.DataType) -> None:
    table = pa.table({"item": ["a", "b"], "w": pa.array([1, weight], kind)})
    query = sb.HeavyHitters(k=1, item="item", weight="w", window=sb.CountWindow(1))
    with pytest.raises(sb.DataError, match="column 'w', row 1"):
        sb.rank(table, query)
    with pytest.warns(sb.SkybandWarning):
        assert sb.rank(table, query, on_bad="skip")["item"].to_pylist() == ["a"]


@pytest.mark.nojit
def test_what_is_refused() -> None:
    window = sb.CountWindow(10)
    with pytest.raises(sb.QueryError, match="at least k"):
        sb.HeavyHitters(k=5, item="item", window=window, capacity=4)
    with pytest.raises(sb.QueryError, match="weight"):
        sb.HeavyHitters(k=5, item="item", weight="w", window=window, algorithm="fsw-f")
    many = sb.HeavyHitters(
        k=1, item="item", window=sb.CountWindow(10_001, slide=1), algorithm="fsw"
    )
    with pytest.raises(sb.QueryError, match="algorithm='exact'"):
        sb.Monitor(many)
    nested = pa.table({"item": [[1], [2]]})
    with pytest.raises(sb.SchemaError, match="item"):
        sb.rank(nested, sb.HeavyHitters(k=1, item="item", window=window))


@pytest.mark.nojit
def test_who_names_no_algorithm() -> None:
    window = sb.CountWindow(10)

    def chosen(**sizes: Any) -> str:
        return registry.choose(sb.HeavyHitters(k=2, item="item", window=window, **sizes))

    assert chosen() == "exact"
    assert chosen(capacity=100) == "fsw"
    assert chosen(capacity=100, ratio=4) == "fsw-r"
    assert chosen(capacity=100, filter_bits=1000) == "fsw-f"
    assert chosen(capacity=100, weight="w") == "fsw"
    with pytest.raises(sb.QueryError, match="filter_bits= does nothing for fsw"):
        chosen(capacity=100, filter_bits=1000, weight="w")


def test_state_of_a_sketch_stays_small() -> None:
    """Capacity 2,000 and 60 panes: under 5 MB, whatever the number of distinct items."""
    rng = np.random.default_rng(1)
    window = sb.CountWindow(60_000, slide=1_000)
    query = sb.HeavyHitters(k=10, item="item", window=window, algorithm="fsw", capacity=2_000)
    monitor = sb.Monitor(query)
    for _ in range(8):
        monitor.push(pa.table({"item": rng.integers(0, 10**9, 20_000)}))
        assert monitor.stats()["state_bytes"] < 5_000_000
    assert monitor.stats()["retained"] <= 2_000


@pytest.mark.parametrize("algorithm", ["exact", "fsw", "fsp", "ss"])
def test_dictionaries_that_come_out_of_order(algorithm: str) -> None:
    rng = np.random.default_rng(5)
    sizes: dict[str, Any] = {"capacity": 50, "options": {"raw_rows": 64}}
    window = sb.TimeWindow(40, 10, lateness=30)
    query = sb.HeavyHitters(
        k=2, item="item", time="ts", window=window, algorithm=algorithm,
        **({} if algorithm == "exact" else sizes),
    )  # fmt: skip
    encoded, plain = sb.Monitor(query), sb.Monitor(query)
    for step in range(12):
        ts = pa.array(10 * step + rng.integers(0, 30, 100))
        item = pa.array([f"x{i}" for i in rng.integers(0, 30, 100)])
        got = encoded.push(pa.table({"ts": ts, "item": item.dictionary_encode()}))
        want = plain.push(pa.table({"ts": ts, "item": item}))
        assert [a.table.to_pylist() for a in got] == [a.table.to_pylist() for a in want]
