"""The page of errata: every entry says how serious it is, and has an example that runs."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from lab.experiments.verdicts import PAPERS

PAGE = Path(__file__).parents[2] / "docs" / "reproduction" / "errata.md"
KINDS = ("wrong", "assumption", "unclear", "slip")


def sections(text: str) -> list[str]:
    return re.split(r"^## ", text, flags=re.MULTILINE)[1:]


def without_examples(section: str) -> list[str]:
    """The titles of entries that no example follows in their section."""
    pieces = re.split(r"^```(?:python)?\n", section, flags=re.MULTILINE)
    after_the_last = pieces[-1]
    return re.findall(r"^\*\*([^*]+)\*\*", after_the_last, flags=re.MULTILINE)


def test_every_entry_has_an_example() -> None:
    papers = sections(PAGE.read_text(encoding="utf-8"))
    assert len(papers) == len(PAPERS)
    for paper in papers:
        entries = re.findall(r"^\*\*[^*]+\*\* \(([^;]+); \*(\w+)\*\)", paper, flags=re.MULTILINE)
        assert len(entries) >= 4
        assert all(kind in KINDS for _, kind in entries)
        assert without_examples(paper) == []


def test_an_entry_without_an_example_is_found() -> None:
    assert without_examples("A\n\n**One** (x; *wrong*).\n\n```python\n>>> 1\n1\n\n```\n") == []
    assert without_examples("```python\n>>> 1\n1\n\n```\n\n**Two** (x; *slip*).\n") == ["Two"]


@pytest.mark.parametrize("wrong", [False, True])
def test_the_examples_run(wrong: bool, capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    if wrong:  # an example that is off is found
        text = text.replace("127 3.6%", "127 3.7%")
    examples = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    found = doctest.DocTestRunner().run(examples)
    capsys.readouterr()
    assert found.attempted > 80
    assert found.failed == int(wrong)
