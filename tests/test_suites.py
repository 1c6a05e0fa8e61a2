"""Every registered algorithm is in the shared suites, and every kind of query has settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import conformance
import suites
import test_conformance
import test_every_step
import test_spark_parts
from skyband import registry

SUITES = {
    test_conformance: (
        "test_batches_do_not_matter",
        "test_snapshots_and_peeks_leave_no_trace",
        "test_shards_and_packed_summaries_answer_as_one",
        "test_state_is_bounded",
        "test_a_query_can_be_written_down",
    ),
    test_every_step: ("test_time_windows", "test_count_windows", "test_longer_streams"),
}


def pairs_of(test: Any) -> set[tuple[str, str]]:
    """The (kind, algorithm) pairs that a test runs with."""
    found = set()
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize" and tuple(mark.args[0])[:1] == ("kind",):
            found |= {tuple(getattr(each, "values", each)[:2]) for each in mark.args[1]}
    return found


@pytest.mark.parametrize(
    ("module", "name"),
    [pytest.param(m, n, id=n) for m, names in SUITES.items() for n in names],
)
def test_every_algorithm_is_in(module: Any, name: str) -> None:
    assert pairs_of(getattr(module, name)) == suites.registered()


def test_every_algorithm_runs_on_the_parts_of_spark() -> None:
    """Exact and approximate algorithms have separate tests there."""
    found = [pairs_of(test) for name, test in vars(test_spark_parts).items() if name[:5] == "test_"]
    assert set().union(*found) == suites.registered()


def test_every_kind_has_settings() -> None:
    assert set(conformance.SETTINGS) == set(registry.kinds())
    assert all(conformance.SETTINGS.values())


def test_a_suite_that_leaves_one_out_is_seen() -> None:
    few = [case for case in suites.cases() if case.values[1] != "ss"]
    mark = pytest.mark.parametrize(("kind", "algorithm", "number"), few).mark
    missing = suites.registered() - pairs_of(SimpleNamespace(pytestmark=[mark]))
    assert missing == {("HeavyHitters", "ss")}
