"""The pages of errata: every entry says how serious it is, and has an example that runs."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from lab.experiments.verdicts import PAPERS

FOLDER = Path(__file__).parents[2] / "docs" / "reproduction"
KINDS = ("wrong", "assumption", "unclear", "slip")
_ENTRY = re.compile(r"^\*\*[^*]+\*\* \(([^;]+); \*(\w+)\*\)", re.MULTILINE)


def text_of(paper: str) -> str:
    return (FOLDER / f"errata_{paper}.md").read_text(encoding="utf-8")


def without_examples(text: str) -> list[str]:
    """The titles of entries that no example follows on their page."""
    pieces = re.split(r"^```(?:python)?\n", text, flags=re.MULTILINE)
    after_the_last = pieces[-1]
    return re.findall(r"^\*\*([^*]+)\*\*", after_the_last, flags=re.MULTILINE)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_entry_has_an_example_and_is_counted(paper: str) -> None:
    text = text_of(paper)
    kinds = [kind for _, kind in _ENTRY.findall(text)]
    assert len(kinds) >= 4
    assert set(kinds) <= set(KINDS)
    assert without_examples(text) == []
    counts = " | ".join(str(kinds.count(kind)) for kind in KINDS)
    listed = (FOLDER / "errata.md").read_text(encoding="utf-8")
    assert f"](errata_{paper}.md) | {counts} |" in listed


def test_an_entry_without_an_example_is_found() -> None:
    assert without_examples("A\n\n**One** (x; *wrong*).\n\n```python\n>>> 1\n1\n\n```\n") == []
    assert without_examples("```python\n>>> 1\n1\n\n```\n\n**Two** (x; *slip*).\n") == ["Two"]


@pytest.mark.parametrize("paper", PAPERS)
def test_the_examples_run(paper: str) -> None:
    assert failures(text_of(paper)) == 0


def test_an_example_that_is_off_is_found() -> None:
    assert failures(text_of("pabf").replace("127 3.6%", "127 3.7%")) == 1


def failures(text: str) -> int:
    examples = doctest.DocTestParser().get_doctest(text, {}, "errata", None, 0)
    found = doctest.DocTestRunner().run(examples, out=lambda line: None)
    assert found.attempted > 7
    return found.failed
