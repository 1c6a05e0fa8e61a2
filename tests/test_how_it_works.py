"""The walk of a batch in docs/internals names functions that exist, and counts them right."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from support import spark_simulator
from support.rooms import changes, rooms_of, walked

PAGE = Path(__file__).resolve().parents[1] / "docs" / "internals" / "walk.md"
WALK = PAGE.read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`", WALK)))


def test_the_walk_names_its_steps() -> None:
    assert len(NAMES) > 20
    assert "engine.fold.Fold.begin" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_function_of_the_walk_exists(name: str) -> None:
    if name.startswith("spark."):
        pytest.importorskip("pyspark")
    assert resolves(f"skyband.{name}")


def test_a_name_that_does_not_exist_is_found_out() -> None:
    assert not resolves("skyband.engine.fold.Fold.begins")


def resolves(name: str) -> bool:
    parts = name.split(".")
    for upto in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:upto]))
        except ModuleNotFoundError:
            continue
        for part in parts[upto:]:
            found = getattr(found, part, None)
        return found is not None
    return False


# Changes of room ----------------------------------------------------------------------------------

BATCHES = [
    pa.table({"ts": [t, t + 1, t + 4], "id": [*"abc"], "score": [3.0, 9.0, 5.0]})
    for t in (1, 11, 21, 31, 41)
]
WINDOW = sb.TimeWindow(20, slide=10)


def stated(walk: str) -> tuple[int, int]:
    """The changes of room and of file that the page states for a walk."""
    text = " ".join(WALK.split())
    found = re.search(rf"- {walk}[^0-9]*(\d+) changes.*?(\d+) changes of file", text)
    assert found is not None
    return int(found[1]), int(found[2])


def test_a_push_to_watch_changes_rooms_no_more_often_than_the_page_says() -> None:
    query = sb.TopK(k=2, score="score", id="id", time="ts", window=WINDOW)
    answers = sb.watch(iter(BATCHES), query)
    for _ in range(2):
        next(answers)
    files = walked(lambda: next(answers).table)
    rooms = rooms_of(files)
    assert {"embedded", "engine", "topk", "answers"} <= set(rooms)
    most_rooms, most_files = stated("`watch` with `TopK`")
    assert 0 < changes(rooms) <= most_rooms
    assert 0 < changes(files) <= most_files


def test_a_batch_on_spark_changes_rooms_no_more_often_than_the_page_says() -> None:
    query = sb.HeavyHitters(k=2, item="id", time="ts", window=WINDOW)
    job = spark_simulator.Job(spark_simulator.plan_of(query, {"": BATCHES[0]}))
    *early, last = BATCHES
    for batch in early:
        job.push({"": batch})
    files = walked(lambda: job.push({"": last}))
    rooms = rooms_of(files)
    assert {"spark", "engine", "frequency", "answers"} <= set(rooms)
    most_rooms, most_files = stated("Spark with `HeavyHitters`")
    assert 0 < changes(rooms) <= most_rooms
    assert 0 < changes(files) <= most_files
