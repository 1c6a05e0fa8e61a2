"""Every registered query and algorithm on Spark, against the embedded engine on the same batches.

Exact algorithms give equal tables; approximate ones keep the bounds that their answers carry
(``approximate``). Starting a stateful query takes Spark seconds, and so does each state operator of
a batch. So the short form, which runs one setting of each algorithm, asks a board of all that read
the same stream and have as many shards. ``make slow`` runs all settings, side by side in one Spark
query, each with its own operator and output column. ``tests/spark/test_spark_parts.py`` compares
far more streams, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import oracle
import skyband as sb
from skyband import registry
from support import approximate, conformance, sending, spark_cases, spark_session

pytestmark = pytest.mark.spark
WINDOW = oracle.TimeWindow(30, 10, lateness=3)  # some rows of the streams are later than that
SIDE_BY_SIDE = 8


@dataclass(frozen=True)
class Case:
    """An algorithm with one of the settings of its query."""

    kind: str
    name: str
    number: int

    @property
    def settings(self) -> dict[str, Any]:
        chosen = spark_cases.settings_of(self.kind, self.name, self.number)
        return chosen | approximate.EXTRA.get(self.name, {})

    @property
    def shards(self) -> int | None:
        return 2 if self.number % 2 else None

    @property
    def exact(self) -> bool:
        return bool(registry.load(self.kind, self.name).exact)

    def query(self, stream: sending.Sent) -> sb.Query | None:
        """The query; None if it refuses the combination."""
        try:
            return spark_cases.query_of(self.kind, WINDOW, self.settings, stream)
        except sb.QueryError:
            return None

    @property
    def stream_key(self) -> tuple[Any, ...]:
        """What determines the stream: cases with equal keys read the same rows."""
        chosen = self.settings
        if self.kind != "FusedTopK":
            return (self.kind,)
        names = ("recurrences", "stream")
        return (self.kind, *(repr(chosen.get(name)) for name in names), bool(chosen.get("by")))


def all_cases() -> list[Case]:
    return [
        Case(kind, name, number)
        for kind in registry.kinds()
        for name in registry.algorithms(kind)
        for number in range(len(conformance.SETTINGS[kind]))
    ]


def by_stream(cases: Sequence[Case]) -> dict[tuple[Any, ...], list[Case]]:
    found: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        found.setdefault(case.stream_key, []).append(case)
    return found


def possible(case: Case) -> bool:
    return (
        case.query(conformance.long_stream(case.kind, case.settings, WINDOW, "uniform")) is not None
    )


def short_form() -> list[Case]:
    """One setting per algorithm, a different one each time; one stream per kind of query."""
    found = []
    for kind in registry.kinds():
        cases = [case for case in all_cases() if case.kind == kind]
        first = next(iter(by_stream(cases).values()))
        for place, name in enumerate(registry.algorithms(kind)):
            mine = [case for case in first if case.name == name and possible(case)]
            assert mine, f"{kind} {name} has no setting that runs on Spark"
            found.append(mine[place % len(mine)])
    return found


def runs() -> Iterator[Any]:
    short = short_form()
    rest = [case for case in all_cases() if case not in short and possible(case)]
    for cases, marks, most in ((short, [], len(short)), (rest, [pytest.mark.slow], SIDE_BY_SIDE)):
        for key, alike in by_stream(cases).items():
            for start in range(0, len(alike), most):
                some = alike[start : start + most]
                name = f"{key[0]}-{'+'.join(f'{case.name}:{case.number}' for case in some)}"
                yield pytest.param(some, id=name, marks=marks)


def test_no_algorithm_is_left_out() -> None:
    short = {(case.kind, case.name) for case in short_form()}
    assert short == {(kind, n) for kind in registry.kinds() for n in registry.algorithms(kind)}


@pytest.mark.parametrize("cases", list(runs()))
def test_streaming(spark: Any, tmp_path: Path, cases: list[Case]) -> None:
    from skyband.spark import rank

    # A user's function is pickled by value, as from a notebook.
    import_module("pyspark.cloudpickle").register_pickle_by_value(conformance)
    kind = cases[0].kind
    stream = conformance.long_stream(kind, cases[0].settings, WINDOW, "uniform")
    short = set(cases) <= set(short_form())
    sent = spark_cases.pushes_of(stream, cases[0].settings)
    # The first half of a join has no answer yet, so that no row would be late.
    pushes = with_late_rows(merged(sent, 2 if short and kind != "SkylineJoin" else 3))
    sources: dict[str, list[pa.Table]] = {}
    for push in pushes:
        for source, table in by_source(push).items():
            sources.setdefault(source, []).append(table)
    frames = {
        source: spark_session.stream_of(spark, tmp_path / f"in-{source}", tables)
        for source, tables in sources.items()
    }
    given = frames if set(frames) != {""} else frames[""]
    queries = [case.query(stream) for case in cases]
    if short:
        got, progress = on_boards(given, cases, queries, tmp_path)
    else:
        answers = []
        for case, query in zip(cases, queries, strict=True):
            assert query is not None
            answers.append(rank(given, query, shards=case.shards, bounds=True))
        got, progress = spark_session.collect_all(answers, tmp_path)
    late = 0
    for case, query, mine in zip(cases, queries, got, strict=True):
        assert query is not None
        want, stats = spark_session.embedded(query, pushes)
        late += stats["rows_late"]
        assert mine.num_rows > 5, case.name
        if case.exact:
            assert set(mine["exact"].to_pylist()) == {True}
            bounds = {"cut"} if getattr(query, "ties", "") == "all" else set()
            assert all(set(dict(each)) == bounds for each in mine["bounds"].to_pylist())
            shown = mine.drop_columns(["exact", "bounds"])
            problem = oracle.difference(
                spark_cases.ranked(shown, query), spark_cases.ranked(want, query), oracle.SUMS[kind]
            )
            assert problem is None, f"{case.name}: {problem}"
        else:
            approximate.check(kind, query, mine, pushes)
    assert late > 0
    assert rows_late(progress) == late


def on_boards(
    given: Any, cases: list[Case], queries: Sequence[Any], folder: Path
) -> tuple[list[pa.Table], list[Any]]:
    """The answers of all cases, from one board for each number of shards."""
    from skyband.spark import rank
    from skyband.spark.finishing import schema_from_text, typed_rows

    boards: dict[int | None, dict[str, sb.Query]] = {}
    for case, query in zip(cases, queries, strict=True):
        boards.setdefault(case.shards, {})[case.name] = query
    answers = [rank(given, board, shards=n, bounds=True) for n, board in boards.items()]
    tables, progress = spark_session.collect_all(answers, folder)
    found = {}
    for answer, table, board in zip(answers, tables, boards.values(), strict=True):
        for name in board:
            schema = schema_from_text(answer.schema["answer"].metadata[name])
            own = table.filter(pa.compute.equal(table["query"], name)).combine_chunks()
            found[name] = pa.Table.from_batches(typed_rows(schema)(iter(own.to_batches())), schema)
    return [found[case.name] for case in cases], progress


def rows_late(progress: Sequence[Any]) -> int:
    from skyband.spark.metrics import read_progress

    return int(sum((read_progress(each) or {}).get("rows_late", 0) for each in progress))


def by_source(push: Any) -> dict[str, pa.Table]:
    return dict(push) if isinstance(push, Mapping) else {"": push}


def merged(pushes: list[Any], parts: int) -> list[Any]:
    """Merge many pushes into two or three, so that a test needs few micro-batches."""
    found = []
    for part in range(parts):
        some = pushes[part * len(pushes) // parts : (part + 1) * len(pushes) // parts]
        together: dict[str, list[pa.Table]] = {}
        for push in some:
            for source, table in by_source(push).items():
                together.setdefault(source, []).append(table)
        tables = {source: pa.concat_tables(many) for source, many in together.items()}
        found.append(tables)
    # A batch takes one file of every source, so a source without rows needs an empty file.
    empty = {source: table.slice(0, 0) for tables in found for source, table in tables.items()}
    return [empty | tables if set(empty) != {""} else tables[""] for tables in found]


def with_late_rows(pushes: list[Any]) -> list[Any]:
    """Move the first rows of each source to the end, long after their windows were answered."""
    first, last = by_source(pushes[0]), by_source(pushes[-1])
    late = {source: table.slice(0, 5) for source, table in first.items()}
    rest = {source: table.slice(5) for source, table in first.items()}
    last = {source: pa.concat_tables([table, late[source]]) for source, table in last.items()}
    changed = [rest, *map(by_source, pushes[1:-1]), last]
    return [push if set(push) != {""} else push[""] for push in changed]
