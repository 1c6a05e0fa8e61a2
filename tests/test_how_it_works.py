"""The walk of a row in docs/how_it_works.md names functions that exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how_it_works.md"
WALK = PAGE.read_text(encoding="utf-8").partition("## The walk of a row")[2].partition("\n## ")[0]
NAMES = sorted(set(re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`", WALK)))


def test_the_walk_names_its_steps() -> None:
    assert len(NAMES) > 20
    assert "engine.session.Session.push" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_function_of_the_walk_exists(name: str) -> None:
    if name.startswith("spark."):
        pytest.importorskip("pyspark")
    assert resolves(f"skyband.{name}")


def test_a_name_that_does_not_exist_is_found_out() -> None:
    assert not resolves("skyband.engine.session.Session.pushes")


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
