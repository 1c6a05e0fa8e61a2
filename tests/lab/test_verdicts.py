"""The rule by which the papers' claims are judged: complete, and failing claims show as failing."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from lab.experiments.report import Report
from lab.experiments.seeds import Sample
from lab.experiments.verdicts import (
    FOLDER,
    MUCH,
    PAPERS,
    SAME,
    TRUE,
    Claim,
    Verdicts,
    about,
    above,
    at_least,
    at_most,
    overview,
)
from skyband.cli.app import checkout

CLAIMS = [
    Claim("time", "7.2", "takes 40 % of the time", main=True),
    Claim("sound", "Theorem 4", "is within epsilon"),
    Claim("aim", "issue", "is four times as fast", ours=True),
]


def judged(time: float = 0.3, sound: bool = True, aim: float = 5.0) -> Verdicts:
    verdicts = Verdicts("pabf", CLAIMS)
    verdicts.judge("time", {"A": 0.2, "B": time}, at_most(0.4, timed=True), why="B keeps 7 rows")
    verdicts.judge("sound", {"A": sound}, TRUE, why="off by 2")
    verdicts.judge("aim", {"A": aim}, at_least(4.0), unit="×", why="merging takes 80 %")
    return verdicts


def text_of(verdicts: Verdicts, path: Path) -> str:
    report = Report("x")
    verdicts.add_to(report)
    report.write(path / "x.md")
    return (path / "x.md").read_text()


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((0.1, 0.3), "holds"),
        ((0.1, 0.3, 0.41), "holds"),  # the last is too near to tell
        ((0.1, 0.41), "holds where it could be decided"),
        ((0.1, 0.41, 0.9), "holds in part"),
        ((0.1, 0.9), "holds in part"),
        ((0.8, 0.9), "does not hold"),
        ((0.41, 0.39), "undecided"),
        ((0.9, 0.41), "undecided"),
        ((0.9, 0.8, 0.41), "does not hold"),
    ],
)
def test_the_rule(values: tuple[float, ...], verdict: str) -> None:
    cases = dict(zip("ABC", values, strict=False))
    found = Verdicts("pabf", CLAIMS)
    assert found.judge("time", cases, at_most(0.4, timed=True), why="B keeps 7 rows") == verdict


def test_a_verdict_that_few_cases_bear_says_how_many(tmp_path: Path) -> None:
    shown = text_of(judged(time=0.41), tmp_path)
    assert "| **holds where it could be decided** (1 of 2) |" in shown
    assert "B keeps 7 rows" not in shown


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((0.30, 0.31, 0.32), "holds"),
        ((0.30, 0.39, 0.48), "undecided"),
        ((0.50, 0.51, 0.52), "does not hold"),
    ],
)
def test_a_mean_whose_interval_contains_the_bound_decides_nothing(
    values: tuple[float, ...], verdict: str
) -> None:
    found = Verdicts("pabf", CLAIMS)
    cases = {"A": Sample(values)}
    assert found.judge("time", cases, at_most(0.4), why="7 rows") == verdict


def test_our_own_variants_are_shown_and_decide_nothing(tmp_path: Path) -> None:
    verdicts = Verdicts("pabf", CLAIMS[:1])
    verdict = verdicts.judge(
        "time", {"A": 0.2}, at_most(0.4), why="7 rows", unit="×", apart={"preselected": 0.9}
    )
    assert verdict == "holds"
    assert "| takes 40 % of the time | at most 0.4 × | preselected | 0.9 × |" in text_of(
        verdicts, tmp_path
    )


def test_bounds_of_words() -> None:
    assert [about(20.0).meets(value) for value in (14.9, 15.0, 25.0, 25.1)] == [
        False, True, True, False,
    ]  # fmt: skip
    assert [SAME.meets(value) for value in (0.5, 0.7, 1.4, 1.6)] == [False, True, True, False]
    assert [MUCH.meets(value) for value in (1.9, 2.0)] == [False, True]
    assert [above(1.0).meets(value) for value in (1.0, 1.1)] == [False, True]
    assert [TRUE.meets(value) for value in (False, True)] == [False, True]
    assert at_most(1.0).meets(float("nan")) is None


def test_every_claim_needs_a_verdict_and_every_verdict_a_claim(tmp_path: Path) -> None:
    verdicts = Verdicts("pabf", CLAIMS)
    verdicts.judge("time", {"A": 0.2}, at_most(0.4), why="1 row")
    with pytest.raises(ValueError, match="without a verdict: sound, aim"):
        verdicts.add_to(Report("x"))
    with pytest.raises(ValueError, match="without a verdict"):
        verdicts.save(tmp_path)
    with pytest.raises(ValueError, match="lists no claim 'other'"):
        verdicts.judge("other", {"A": 0.2}, at_most(0.4), why="1 row")
    with pytest.raises(ValueError, match="judged twice"):
        verdicts.judge("time", {"A": 0.2}, at_most(0.4), why="1 row")
    with pytest.raises(ValueError, match="has no measurement"):
        verdicts.judge("sound", {"A": True}, TRUE, why="because it is slow")
    with pytest.raises(ValueError, match="no case"):
        verdicts.judge("sound", {}, TRUE, why="0 cases")
    with pytest.raises(ValueError, match="same key"):
        Verdicts("pabf", [*CLAIMS, CLAIMS[0]])


def test_a_failing_claim_shows_as_failing_and_says_why(tmp_path: Path) -> None:
    good = text_of(judged(), tmp_path)
    assert good.count("| **holds** |") == 3
    assert "B keeps 7 rows" not in good
    bad = text_of(judged(time=0.9, sound=False), tmp_path)
    assert "| takes 40 % of the time | 7.2 | at most 0.4 | 0.2 (A) to 0.9 (B)" in bad
    assert "*takes 40 % of the time* (7.2): holds in part. B keeps 7 rows" in bad
    assert "| is within epsilon | Theorem 4 | true | no | **does not hold** |" in bad


def test_the_overview_in_the_docs_is_that_of_the_kept_verdicts(tmp_path: Path) -> None:
    docs = checkout() / "docs" / "reproduction"
    for paper in PAPERS:
        if (docs / f"{paper}.md").exists():
            (tmp_path / f"{paper}.md").touch()
    if (docs / FOLDER).exists():
        shutil.copytree(docs / FOLDER, tmp_path / FOLDER)
    overview(tmp_path)
    assert (tmp_path / "README.md").read_text() == (docs / "README.md").read_text()


def test_the_overview_shows_the_main_claims_and_why_they_fail(tmp_path: Path) -> None:
    judged(time=0.9, aim=1.5).save(tmp_path)
    told = [Claim("more", "Fig. 11", "gains 25 %", main=True), Claim("b", "Fig. 5", "falls")]
    other = Verdicts("lsj", told)
    other.unmeasured("more", "SKYBAND_DATA is not set")
    other.judge("b", {"A": 0.5}, above(1.0), why="2 rows")
    other.save(tmp_path)
    overview(tmp_path)
    text = (tmp_path / "README.md").read_text()
    pabf = f"| {PAPERS['pabf'].name} | 1 | 0 | 1 | 0 | 0 | 0 |"
    assert pabf in text  # the aim of ours does not count
    assert "| takes 40 % of the time (7.2) | at most 0.4 | 0.55 (median; 1 of 2 meet it) |" in text
    assert "- *takes 40 % of the time*: B keeps 7 rows" in text
    assert "is within epsilon" not in text
    assert "is four times as fast" not in text
    assert "- *gains 25 %*: SKYBAND_DATA is not set" in text
    assert "falls" not in text
    assert text.count("not judged") == 3
    assert text.count("![") == 2


def test_the_overview_is_read_in_five_minutes() -> None:
    page = checkout() / "docs" / "reproduction" / "README.md"
    text = page.read_text(encoding="utf-8")
    assert len(text.split()) <= 1_800
    assert text.count("![") == len(PAPERS), "one picture per paper"


def test_every_picture_is_shown_and_there() -> None:
    folder = checkout() / "docs" / "reproduction"
    pages = "".join(path.read_text(encoding="utf-8") for path in checkout().glob("docs/**/*.md"))
    shown = set(re.findall(r"!\[[^]]*\]\((?:reproduction/)?([\w-]+\.png)\)", pages))
    there = {path.name for path in folder.glob("*.png")}
    assert there <= shown
    report = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.md"))
    assert set(re.findall(r"\(([\w-]+\.png)\)", report)) <= there
