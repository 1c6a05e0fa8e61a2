"""README: short, and true as far as it can be run; its Python example is a doctest."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from skyband.jobs import parse_job

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"

pytestmark = pytest.mark.skipif(not (ROOT / "Makefile").is_file(), reason="only in a checkout")


def text() -> str:
    return README.read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```", text(), re.MULTILINE | re.DOTALL)
    assert len(found) == 1
    return str(found[0])


def test_it_is_short_and_opens_with_a_sentence_and_a_picture() -> None:
    assert len(text().splitlines()) < 150
    title, sentence, picture = text().split("\n\n")[:3]
    assert title == "# Skyband"
    assert sentence.startswith("Skyband answers ranking queries continuously")
    found = re.fullmatch(r"!\[.+\]\((.+)\)", picture)
    assert found
    assert (ROOT / found[1]).is_file()


def test_every_target_it_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"\bmake ([a-z-]+)", text())
    assert named[:2] == ["demo", "test"]
    assert {"board", "spark-demo", "docs"} <= set(named) <= targets


def test_its_job_can_run(tmp_path: Path) -> None:
    job = parse_job(tomllib.loads(block("toml")), tmp_path)
    assert list(job.queries) == ["busiest"]


def test_its_examples_are_about_ten_lines() -> None:
    assert len(block("py").splitlines()) <= 12
    assert len(re.findall(r"^(>>>|\.\.\.) ", block("python"), re.MULTILINE)) <= 10


def test_every_file_it_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)", text())
    assert len(links) > 20
    for link in links:
        assert (ROOT / link).is_file(), link
