"""When EAA sweeps its reports, and what it counts as retained."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.fused.eaa import Eaa

pytestmark = pytest.mark.nojit


def query(**more: Any) -> sb.FusedTopK:
    asked: dict[str, Any] = {
        "k": 1, "id": "o", "stream": "s", "value": "v", "streams": ("a", "b"), "bounds": (0, 20),
        "window": sb.CountWindow(50, slide=1), "algorithm": "eaa",
    }  # fmt: skip
    return sb.FusedTopK(**(asked | more))


def holding(reports: int, swept: int, slack: int) -> tuple[Eaa, list[str]]:
    """A synopsis with so many live reports that only notes when it would sweep."""
    eaa = Eaa(query(options={"slack": slack}))
    eaa.bind("", pa.schema({"o": pa.int64(), "s": pa.string(), "v": pa.float64()}))
    sweeps: list[str] = []
    eaa.sweep = lambda: sweeps.append("sweep")  # type: ignore[method-assign]
    eaa.log.begin, eaa.log.end = 3, 3 + reports
    eaa.swept = swept
    return eaa, sweeps


@pytest.mark.parametrize(
    ("reports", "swept", "slack", "room"),
    [
        (0, 0, 8, 8),  # nothing was swept yet: the slack is free
        (20, 10, 6, 6),  # up to twice the last count and the slack
        (23, 10, 6, 3),
        (24, 10, 6, 3),  # at least half of the slack, for reports expire meanwhile
        (99, 10, 6, 3),
        (99, 10, 7, 3),
        (99, 10, 1, 1),  # and at least one
        (99, 10, 0, 1),
    ],
)
def test_how_many_reports_are_taken_before_the_next_look(
    reports: int, swept: int, slack: int, room: int
) -> None:
    assert holding(reports, swept, slack)[0]._room() == room


@pytest.mark.parametrize(
    ("reports", "swept", "slack", "sweeps"),
    [(18, 10, 4, 0), (19, 10, 4, 1), (3, 0, 4, 0), (4, 0, 4, 1), (0, 0, 0, 0), (1, 0, 0, 1)],
)
def test_a_sweep_comes_at_three_quarters_of_the_room(
    reports: int, swept: int, slack: int, sweeps: int
) -> None:
    eaa, noted = holding(reports, swept, slack)
    eaa._drop()
    assert len(noted) == sweeps


def test_dominated_instances_are_not_retained() -> None:
    """Object 1 reports in both streams, which is one instance of two reports."""
    monitor = sb.Monitor(query(options={"slack": 0}, window=sb.CountWindow(51, slide=3)))
    rows = {"o": [1, 1, 2], "s": ["a", "b", "a"], "v": [20.0, 20.0, 0.0]}
    monitor.push(pa.table(rows))
    stats = monitor.stats()
    assert (stats["sweeps"], stats["dropped"]) == (1, 1)
    assert stats["retained"] == 1


@pytest.mark.parametrize("recurrences", [1, 2, "estimate"])
def test_an_object_that_may_report_again_is_kept(recurrences: Any) -> None:
    """Of objects that report once, only the best can win; a second report could change that."""
    asked = query(
        streams=("a",), recurrences=recurrences, returns=False, options={"slack": 0},
        window=sb.CountWindow(50, slide=1),
    )  # fmt: skip
    monitor = sb.Monitor(asked)
    for number in range(5):
        row = {"o": [number], "s": ["a"], "v": [5.0 + number]}
        (answer,) = monitor.push(pa.table(row))
        assert answer.table["o"].to_pylist() == [number]
    # The estimate is one report per object, as seen so far.
    assert monitor.stats()["retained"] == (5 if recurrences == 2 else 1)
