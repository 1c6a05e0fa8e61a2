"""Figures in prose are cells of measured tables, and a command keeps them so."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from lab.bench.figures import (
    figures_of,
    loose_figures,
    pages_with_figures,
    tables_in,
    write_figures,
)

ROOT = Path(__file__).parent.parent.parent
AGAIN = "bring them up to date: python -m lab.bench.figures"

pytestmark = pytest.mark.skipif(
    not (ROOT / "docs" / "figures.toml").is_file(), reason="only a checkout has the pages"
)


@pytest.mark.parametrize(
    "path", pages_with_figures(ROOT), ids=lambda p: p.relative_to(ROOT).as_posix()
)
def test_figures_in_prose_are_those_of_the_tables(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    measured = figures_of(ROOT)
    for name, shown in re.findall(r"<!--=([\w.-]+)-->(.*?)<!--/-->", text):
        assert name in measured, f"{path.name}: docs/figures.toml does not name {name}"
        assert shown == measured[name], f"{path.name}: {name}; {AGAIN}"
    assert not loose_figures(text), "name these figures in docs/figures.toml, and mark them"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "benchmarks").mkdir(parents=True)
    (tmp_path / "docs" / "figures.toml").write_text(
        '[speed]\nunder = "a / b"\nrow = { case = "x" }\ncolumn = "M rows/s"\n'
    )
    (tmp_path / "docs" / "benchmarks" / "tables.md").write_text(
        "## a\n\n### b\n\n| case | M rows/s |\n|---|---:|\n| x | 12 |\n| y | 7 |\n"
    )
    (tmp_path / "README.md").write_text("It takes <!--=speed-->11<!--/--> M rows/s.\n")
    return tmp_path


def test_a_new_measurement_reaches_the_prose(checkout: Path) -> None:
    readme = checkout / "README.md"
    assert write_figures(checkout) == [readme]
    assert readme.read_text() == "It takes <!--=speed-->12<!--/--> M rows/s.\n"
    assert write_figures(checkout) == []


def test_a_figure_that_is_no_longer_measured_is_a_dash(checkout: Path) -> None:
    table = checkout / "docs" / "benchmarks" / "tables.md"
    table.write_text(table.read_text().replace("| x |", "| z |"))
    write_figures(checkout)
    assert "<!--=speed-->–<!--/-->" in (checkout / "README.md").read_text()
    assert figures_of(checkout) == {"speed": "–"}


def test_bench_brings_the_figures_up_to_date(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    from lab.bench import command

    shutil.copytree(ROOT / "lab", checkout / "lab", ignore=shutil.ignore_patterns("__pycache__"))
    (checkout / "src" / "skyband").mkdir(parents=True)
    (checkout / "lab" / "benchmarks" / "a.py").write_text(
        "def run(scale, progress):\n    return [{'group': 'b', 'case': 'x', 'M rows/s': 99}]\n"
    )
    monkeypatch.chdir(checkout)
    monkeypatch.setattr(command, "busy", lambda: None)
    table = checkout / "docs" / "benchmarks" / "tables.md"
    table.write_text("# Benchmarks\n")
    command.measure("a", 1.0, table)
    assert "<!--=speed-->99<!--/-->" in (checkout / "README.md").read_text()


def test_numbers_with_a_speed_need_a_mark() -> None:
    text = "a 12 M rows/s, 3.5 × as much, 2 times as fast, 600 to 700 million rows per second"
    found = ["12 M rows/s", "3.5 ×", "2 times as fast", "600 to 700 million rows per second"]
    assert loose_figures(text) == found
    assert not loose_figures("10 minutes, k = 10, 2 cores, version 4.3, 100,000 groups, 64 MB")
    assert not loose_figures("```\n12 M rows/s\n```\n\n`5 ×` <!--=a-->7<!--/--> M rows/s")
    assert not loose_figures("An estimate: 7 M rows/s.")


def test_tables_are_read_with_their_headings() -> None:
    text = "# t\n## a\n| x |\n|---|\n| 1 |\n\n### b\n\n| y | z |\n|---|---:|\n| 2 |  |\n"
    text += "## c\n| y |\n|--|\n"
    assert list(tables_in(text)) == [
        ("a", [{"x": "1"}]),
        ("a / b", [{"y": "2", "z": ""}]),
        ("c", []),
    ]
