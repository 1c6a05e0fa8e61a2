"""Every registered algorithm is in the shared suites, and every kind of query has settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import test_conformance
import test_every_step

from skyband import registry
from support import conformance, suites

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


@pytest.mark.parametrize(
    ("module", "name"),
    [pytest.param(m, n, id=n) for m, names in SUITES.items() for n in names],
)
def test_every_algorithm_is_in(module: Any, name: str) -> None:
    assert suites.pairs_of(getattr(module, name)) == suites.registered()


def test_every_kind_has_settings() -> None:
    assert set(conformance.SETTINGS) == set(registry.kinds())
    assert all(conformance.SETTINGS.values())


def test_a_suite_that_leaves_one_out_is_seen() -> None:
    few = [case for case in suites.cases() if case.values[1] != "ss"]
    mark = pytest.mark.parametrize(("kind", "algorithm", "number"), few).mark
    missing = suites.registered() - suites.pairs_of(SimpleNamespace(pytestmark=[mark]))
    assert missing == {("HeavyHitters", "ss")}
