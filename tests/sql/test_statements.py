"""Statements, the queries that they become, and where others are refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb

OVER = "OVER (PARTITION BY window_start, window_end ORDER BY {} DESC)"
NUMBER = f"ROW_NUMBER() {OVER}"
BEST = f"QUALIFY {NUMBER.format('bytes')} <= 2"
FLOWS = pa.table(
    {
        "ts": [0, 1, 2, 3, 11],
        "host": ["a", "b", "b", "c", "a"],
        "service": ["web", "dns", "web", "web", "dns"],
        "bytes": [5, 1, 2, 9, 4],
    }
)


def ten(**given: Any) -> sb.TopK:
    plain: dict[str, Any] = {"score": "bytes", "time": "ts", "window": sb.TimeWindow(10), "k": 2}
    return sb.TopK(**(plain | given))


def hitters(**given: Any) -> sb.HeavyHitters:
    plain: dict[str, Any] = {"item": "host", "time": "ts", "window": sb.TimeWindow(10), "k": 2}
    return sb.HeavyHitters(**(plain | given))


GROUPED = "FROM TUMBLE(flows, ts, 10) GROUP BY window_start, window_end, host"
SLIDING = sb.TimeWindow("10 minutes", slide="1 minute")
BECOMES = {
    f"SELECT window_end, bytes FROM TUMBLE(TABLE flows, DESCRIPTOR(ts), 10) {BEST}": ten(),
    f"SELECT window_end, bytes FROM TABLE(TUMBLE(TABLE flows, DESCRIPTOR(ts), 10)) {BEST};": ten(),
    f"select host, bytes, ts from tumble('flows', ts, 10) {BEST}": ten(keep=("host",)),
    f"SELECT w.host FROM TUMBLE(flows, ts, 10) AS w {BEST}": ten(keep=("host",)),
    f"SELECT host FROM HOP(TABLE flows, DESCRIPTOR(ts), INTERVAL '1' MINUTE, "
    f"INTERVAL '10' MINUTES) {BEST}": ten(keep=("host",), window=SLIDING),
    f"SELECT host FROM HOP(flows, ts, INTERVAL '1 minute', INTERVAL '10 minutes') {BEST}": ten(
        keep=("host",), window=SLIDING
    ),
    f"SELECT host FROM HOP(SIZE => INTERVAL 10 MINUTES, SLIDE => INTERVAL 1 MINUTE, "
    f"DATA => TABLE flows, TIMECOL => DESCRIPTOR(ts)) {BEST}": ten(keep=("host",), window=SLIDING),
    f"SELECT host FROM HOP(flows, ts, size := 10, slide := 5, lateness => 3) {BEST}": ten(
        keep=("host",), window=sb.TimeWindow(10, slide=5, lateness=3)
    ),
    f"SELECT host FROM TUMBLE(flows, ts, 10, 3) {BEST}": ten(
        keep=("host",), window=sb.TimeWindow(10, offset=3)
    ),
    # Windows start at multiples of the slide.
    f"SELECT host FROM HOP(flows, ts, 3, 8) {BEST}": ten(
        keep=("host",), window=sb.TimeWindow(8, slide=3, offset=2)
    ),
    f"SELECT host FROM LANDMARK(flows, ts, 10) {BEST}": ten(
        keep=("host",), window=sb.LandmarkWindow(slide=10)
    ),
    "SELECT host, service FROM TUMBLE(flows, ts, 10) QUALIFY ROW_NUMBER() OVER (PARTITION BY "
    "window_start, window_end, service ORDER BY bytes) = 1": ten(
        k=1, keep=("host",), by="service", largest=False
    ),
    "SELECT host, rownum FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end, window_start "
    "ORDER BY bytes DESC, ts DESC) AS rownum FROM TUMBLE(flows, ts, 10)) WHERE 3 > rownum": ten(
        keep=("host",)
    ),
    f"SELECT bits, {NUMBER.format('bits')} AS n FROM (SELECT bytes * 8 AS bits, * FROM "
    "TUMBLE(flows, ts, 10)) QUALIFY n < 3": ten(score="bytes * 8"),
    f"SELECT bytes * 8 AS bits FROM TUMBLE(flows, ts, 10) QUALIFY {NUMBER.format('bits')} < 3": (
        ten(score="bytes * 8")
    ),
    f'SELECT `a b`, "or" FROM TUMBLE(t, ts, 10) WHERE `a b` > "or" QUALIFY '
    f"{NUMBER.format('`a b`')} <= 2": ten(score="a b", where="`a b` > `or`", keep=("or",)),
    f"SELECT bytes FROM TUMBLE(flows, ts, 10) WHERE bytes / 2 BETWEEN 1 AND -x AND NOT (host IN "
    f"('a', 'b''c') OR host IS NOT NULL) AND ok = TRUE {BEST}": ten(
        where="(bytes / 2 >= 1 and bytes / 2 <= -x) and not (host in ('a', 'b''c') or "
        "not host is null) and ok = true"
    ),
    f"SELECT host, COUNT(*) {GROUPED} QUALIFY {NUMBER.format('COUNT(*)')} <= 2": hitters(),
    f"SELECT host, COUNT(*) {GROUPED} QUALIFY RANK() {OVER.format('COUNT(*)')} <= 2": hitters(
        ties="all"
    ),
    f"SELECT host, SUM(bytes), COUNT(*) n {GROUPED} QUALIFY {NUMBER.format('SUM(bytes)')} < 3": (
        hitters(weight="bytes", aggregate="sum")
    ),
    f"SELECT host, AVG(bytes / n) AS mean {GROUPED} QUALIFY {NUMBER.format('mean')} <= 2": hitters(
        weight="bytes / n", aggregate="mean"
    ),
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, host ORDER "
    "BY top, port) AS n FROM (SELECT window_start, window_end, host, port, MAX(bytes) AS top FROM "
    "TUMBLE(flows, ts, 10) WHERE bytes > 1 GROUP BY window_start, window_end, port, host)) "
    "WHERE n <= 2": hitters(
        item="port", by="host", weight="bytes", aggregate="max", largest=False, where="bytes > 1"
    ),
    "SELECT host, SUM(bytes) FROM LANDMARK(flows, ts, 10) GROUP BY window_start, window_end, host, "
    f"port QUALIFY {NUMBER.format('SUM(bytes)')} <= 2": hitters(
        item=("host", "port"), weight="bytes", window=sb.LandmarkWindow(slide=10)
    ),
    "SELECT price, volume FROM TUMBLE(t, ts, 10) SKYLINE OF price MIN, volume * 2 MAX, kind DIFF": (
        sb.Skyline(
            prefer={"price": "min", "volume * 2": "max", "kind": "diff"},
            time="ts",
            window=sb.TimeWindow(10),
        )
    ),
}


@pytest.mark.parametrize("text", BECOMES)
def test_a_statement_becomes_a_query(text: str) -> None:
    query = sb.sql.query(text)
    window = query.window
    assert (query, window.panes) == (BECOMES[text], BECOMES[text].window.panes) or (
        query.spec() | {"window": None} == BECOMES[text].spec() | {"window": None}
        and window.panes == BECOMES[text].window.panes
    )


def rows(text: str, table: Any = FLOWS) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in sb.sql(text, flows=table).to_pylist()]


def test_answers_have_the_columns_of_select_in_their_order() -> None:
    best = rows(f"SELECT bytes AS b, window_end, host FROM TUMBLE(flows, ts, 10) {BEST}")
    assert best == [(9, 10, "c"), (5, 10, "a"), (4, 20, "a")]
    found = sb.sql(f"SELECT * FROM TUMBLE(flows, ts, 10) {BEST}", flows=FLOWS)
    assert found.column_names == [*FLOWS.column_names, "window_start", "window_end"]
    assert found["service"].to_pylist() == ["web", "web", "dns"]
    numbered = f"SELECT *, {NUMBER.format('bytes')} AS n FROM TUMBLE(flows, ts, 10)"
    found = sb.sql(f"SELECT * FROM ({numbered}) WHERE n <= 2", flows=FLOWS)
    assert found.column_names == [*FLOWS.column_names, "window_start", "window_end", "n"]
    assert found["n"].to_pylist() == [1, 2, 1]


def test_groups_are_ranked_by_what_order_by_says() -> None:
    counted = f"SELECT host, COUNT(*) AS n {GROUPED} QUALIFY {NUMBER.format('n')} <= 1"
    assert rows(counted) == [("b", 2), ("a", 1)]
    summed = (
        f"SELECT SUM(bytes) AS s, host, COUNT(*) AS n {GROUPED} QUALIFY {NUMBER.format('s')} < 2"
    )
    assert rows(summed) == [(9, "c", 1), (4, "a", 1)]
    mean = f"SELECT host, AVG(bytes) AS s {GROUPED} QUALIFY {NUMBER.format('s')} <= 2"
    assert rows(mean) == [("c", 9.0), ("a", 5.0), ("a", 4.0)]


def test_without_a_window_a_table_is_ranked_as_a_whole() -> None:
    text = (
        "SELECT * FROM flows QUALIFY ROW_NUMBER() OVER (PARTITION BY host ORDER BY bytes DESC) = 1"
    )
    assert rows(text) == [(0, "a", "web", 5), (2, "b", "web", 2), (3, "c", "web", 9)]
    text = (
        "SELECT host, SUM(bytes) AS s FROM flows GROUP BY host QUALIFY RANK() OVER (ORDER BY s) < 2"
    )
    assert rows(text) == [("b", 3)]
    assert rows(text.replace("BY s", "BY s DESC")) == [("a", 9), ("c", 9)]
    with pytest.raises(sb.QueryError, match="write DESC"):
        rows(text.replace("SUM(bytes)", "COUNT(*)"))
    assert rows("SELECT host FROM flows SKYLINE OF bytes MAX, ts MIN") == [("a",), ("c",)]


def test_a_rank_shows_all_that_tie_however_many() -> None:
    table = pa.table({"ts": [0] * 50, "host": ["a"] * 50, "bytes": [3] * 49 + [4]})
    text = "SELECT bytes FROM TUMBLE(flows, ts, 10) QUALIFY RANK() " + OVER.format("bytes")
    assert rows(f"{text} <= 2", table) == [(4,), *[(3,)] * 49]
    assert rows(f"{text} <= 1", table) == [(4,)]


@pytest.mark.parametrize("kind", ["batches", "path", "reader"])
def test_a_source_is_anything_that_rank_takes(kind: str, tmp_path: Path) -> None:
    pq.write_table(FLOWS, tmp_path / "flows.parquet")
    source: Any = {
        "batches": (pa.table(batch.to_pydict()) for batch in FLOWS.to_batches(max_chunksize=2)),
        "path": tmp_path / "flows.parquet",
        "reader": pa.RecordBatchReader.from_batches(FLOWS.schema, FLOWS.to_batches()),
    }[kind]
    assert rows(f"SELECT * FROM TUMBLE(flows, ts, 10) {BEST}", source)[0][:4] == (3, "c", "web", 9)


def test_an_empty_source_gives_the_columns() -> None:
    for text in (f"SELECT *, host AS h FROM TUMBLE(flows, ts, 10) {BEST}",):
        found = sb.sql(text, flows=FLOWS.slice(0, 0))
        assert found.column_names == [*FLOWS.column_names, "window_start", "window_end", "h"]


TUMBLE = "SELECT host FROM TUMBLE(flows, ts, 10)"
REFUSED = {
    # text: place, what is said
    "": "give one SELECT statement",
    "SELECT 1; SELECT 2": "give one SELECT statement, not 2",
    "SELEC 1": "line 1, column 7, at '1': Invalid expression",
    "SELECT 'a": "has no end",
    "DELETE FROM flows": "only SELECT is supported",
    "SELECT 1 AS a": "line 1, column 8, at '1 AS a': give columns and, after FROM",
    "SELECT * FROM flows": "nothing is ranked; add QUALIFY",
    f"{TUMBLE}\n{BEST}\n LIMIT 5": "line 3, column 2, at 'LIMIT 5': LIMIT is not supported",
    f"{TUMBLE}\n{BEST} ORDER BY host": "answers are ordered by window_end",
    f"{GROUPED and ''}SELECT host, COUNT(*) {GROUPED} HAVING COUNT(*) > 1 QUALIFY 1": "HAVING",
    f"SELECT DISTINCT host FROM TUMBLE(flows, ts, 10) {BEST}": "DISTINCT is not supported",
    f"WITH a AS (SELECT 1) SELECT host FROM TUMBLE(a, ts, 10) {BEST}": "column 1, at 'WITH",
    f"SELECT host FROM a JOIN b USING (x) {BEST}": "column 20, at 'JOIN",
    f"SELECT host FROM TUMBLE(a, ts, 10), b {BEST}": "a ranking reads one table",
    f"SELECT host FROM a TABLESAMPLE (10) {BEST}": "leave it out",
    f"SELECT * EXCLUDE (host) FROM TUMBLE(flows, ts, 10) {BEST}": "leave it out",
    f"SELECT host FROM CUMULATE(flows, ts, 1, 10) {BEST}": "there is no window function CUMULATE",
    f"SELECT host FROM HOP(flows, ts, 10) {BEST}": "HOP lacks SIZE",
    f"SELECT host FROM HOP(flows, ts, 10, 1) {BEST}": "the slide first and then the size",
    f"SELECT host FROM TUMBLE(flows, ts, 10, 1, 2) {BEST}": "column 43, at '2)",
    f"SELECT host FROM TUMBLE(flows, ts, SLIDE => 2) {BEST}": "takes no such argument",
    f"SELECT host FROM TUMBLE(flows, ts, INTERVAL '1' MONTH) {BEST}": "give days",
    f"SELECT host FROM TUMBLE(flows, ts, '1 minute') {BEST}": "INTERVAL '10' MINUTES",
    f"SELECT host FROM TUMBLE((SELECT 1), ts, 10) {BEST}": "a name is expected here",
    f"SELECT host FROM db.flows {BEST}": "leave it out",
    f"SELECT x.host FROM TUMBLE(flows, ts, 10) {BEST}": "there is no table 'x' here",
    f"SELECT host AS a, ts AS a FROM TUMBLE(flows, ts, 10) {BEST}": "two columns 'a'",
    f"{TUMBLE} QUALIFY ROW_NUMBER() OVER (ORDER BY bytes) < 3": "must have window_start and",
    f"{TUMBLE} QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end) < 3": "needs O",
    f"{TUMBLE} QUALIFY DENSE_RANK() {OVER.format('x')} < 3": "rank by ROW_NUMBER() or RANK()",
    f"{TUMBLE} QUALIFY {NUMBER.format('x')} > 3": "compare the rank alone",
    f"{TUMBLE} QUALIFY {NUMBER.format('x')} <= 0": "compare the rank alone",
    f"{TUMBLE} QUALIFY {NUMBER.format('x')} = 2": "compare the rank alone",
    f"{TUMBLE} QUALIFY {NUMBER.format('x')} <= 2.5": "compare the rank alone",
    f"{TUMBLE} QUALIFY {NUMBER.format('x')} <= 2 AND host = 'a'": "put the rest into WHERE before",
    f"{TUMBLE} QUALIFY bytes < 3": "this is not a rank",
    f"{TUMBLE} QUALIFY {NUMBER.format('1')} < 3": "a constant cannot rank rows",
    f"{TUMBLE} QUALIFY {NUMBER.format('window_end')} < 3": "ORDER BY takes a value of the rows",
    f"{TUMBLE} QUALIFY {NUMBER.format('x DESC NULLS LAST --')}\n) < 3": "IS NOT NULL",
    f"{TUMBLE} QUALIFY {NUMBER.format('x, y')} < 3": "the later row, or the smaller group",
    f"{TUMBLE} QUALIFY RANK() {OVER.format('x, ts')} < 3": "ORDER BY takes one value",
    f"{TUMBLE} QUALIFY {NUMBER.format('COUNT(*)')} < 3": "an aggregate needs GROUP BY window_start",
    f"SELECT host, {NUMBER.format('x')} AS n FROM TUMBLE(flows, ts, 10)": "nothing is ranked",
    f"SELECT x + 1 AS y FROM TUMBLE(flows, ts, 10) {BEST}": "column 17, at 'y FROM",
    f"{TUMBLE} WHERE host LIKE 'a%' {BEST}": "at \"host LIKE 'a%' QUALIFY",
    f"{TUMBLE} WHERE CAST(ts AS INT) > 3 {BEST}": "CAST is not supported here; allowed are columns",
    f"{TUMBLE} WHERE bytes {BEST}": None,
    f"{TUMBLE} WHERE bytes + 1 {BEST}": "a value stands in place of a condition",
    f"{TUMBLE} WHERE 1 = 1 {BEST}": "it needs a column",
    f"{TUMBLE} WHERE LOG(x) > 1 {BEST}": "LN (the natural logarithm)",
    f"{TUMBLE} WHERE f(x) > 1 {BEST}": "f is not supported here",
    f"{TUMBLE} WHERE x IN (SELECT 1) {BEST}": "IN is not supported here",
    f"{TUMBLE} WHERE window_end > 3 {BEST}": "'window_end' is not a column of the table",
    f"SELECT host, bytes {GROUPED} QUALIFY {NUMBER.format('COUNT(*)')} < 3": "no column 'bytes'",
    f"SELECT * {GROUPED} QUALIFY {NUMBER.format('COUNT(*)')} < 3": "name the columns",
    f"SELECT SUM(x) {GROUPED} QUALIFY {NUMBER.format('COUNT(*)')} < 3": "not ranked by this",
    f"SELECT COUNT(DISTINCT x) {GROUPED} QUALIFY {NUMBER.format('COUNT(*)')} < 3": "write COUNT(*)",
    f"SELECT SUM(x) FILTER (WHERE y > 1) AS s {GROUPED} QUALIFY {NUMBER.format('s')} < 3": "FILTER",
    f"SELECT MEDIAN(x) AS s {GROUPED} QUALIFY {NUMBER.format('s')} < 3": "MEDIAN is not supported",
    f"SELECT host {GROUPED} QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER "
    "BY COUNT(*)) < 3": "the smallest counts cannot be ranked",
    f"SELECT host {GROUPED} QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end, host "
    "ORDER BY COUNT(*) DESC) < 3": "GROUP BY needs one more column",
    "SELECT host FROM TUMBLE(flows, ts, 10) GROUP BY host QUALIFY 1": "must have window_start",
    f"SELECT n FROM (SELECT host, COUNT(*) AS n {GROUPED}) WHERE n > 3": "before GROUP BY",
    f"SELECT host FROM (SELECT host {GROUPED}) GROUP BY host": "only one GROUP BY",
    f"SELECT host FROM (SELECT host, bytes FROM TUMBLE(flows, ts, 10) {BEST}) WHERE bytes > 3": (
        "before GROUP BY and ranking"
    ),
    f"SELECT ts FROM (SELECT host FROM TUMBLE(flows, ts, 10) {BEST})": "no column 'ts' here",
    f"SELECT host, , ts FROM TUMBLE(flows, ts, 10) {BEST}": "column 12, at ', , ts FROM",
    f"SELECT FROM TUMBLE(flows, ts, 10) {BEST}": "give columns and, after FROM",
    f"{TUMBLE} QUALIFY {NUMBER.format('x ASC')} < 3": "reads as",
    f"SELECT host, FROM TUMBLE(flows, ts, 10) {BEST}": "this reads as SELECT host FROM",
    f"SELECT * host FROM TUMBLE(flows, ts, 10) {BEST}": "name the columns",
    f"{TUMBLE} WHERE bytes BETWEEN 1 2 {BEST}": "BETWEEN 1 AND 2",
    f"{TUMBLE} QUALIFY ROW_NUMBER(3) {OVER.format('x')} < 3": "rank by ROW_NUMBER() or RANK()",
    f"{TUMBLE} SKYLINE OF price": "each with MIN, MAX or DIFF",
    f"{TUMBLE} SKYLINE OF price MIN,": "each with MIN, MAX or DIFF",
    f"{TUMBLE} SKYLINE OF": "each with MIN, MAX or DIFF",
    f"{TUMBLE} {BEST} SKYLINE OF price MIN": "a skyline takes no ranking and no GROUP BY",
}


@pytest.mark.parametrize("text", [text for text, said in REFUSED.items() if said])
def test_what_is_refused_says_where_and_what_is_possible(text: str) -> None:
    with pytest.raises(sb.QueryError) as refusal:
        sb.sql.query(text)
    assert str(REFUSED[text]) in str(refusal.value)


def test_a_column_that_the_table_lacks_is_named() -> None:
    with pytest.raises(sb.SchemaError, match=r"line 1, column 8, .*: there is no column 'user'"):
        sb.sql(f"SELECT user FROM TUMBLE(flows, ts, 10) {BEST}", flows=FLOWS)


def test_the_columns_of_a_window_are_its_own() -> None:
    table = FLOWS.append_column("window_end", FLOWS["ts"])
    with pytest.raises(sb.QueryError, match="already"):
        sb.sql(f"{TUMBLE} {BEST}", flows=table)


def test_without_the_parser_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(sb.EngineError, match=r"pip install 'skyband\[sql\]'"):
        sb.sql.query(f"{TUMBLE} {BEST}")


def test_the_table_of_a_statement_has_to_be_given() -> None:
    with pytest.raises(sb.SchemaError, match=r"reads the table 'flows'; give flows="):
        sb.sql(f"{TUMBLE} {BEST}", other=FLOWS)
    with pytest.raises(sb.QueryError, match="a statement is a string"):
        sb.sql(3)  # type: ignore[arg-type]
