"""The files around the code: decision records, workflows, hooks, templates, the citation."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
DECISIONS = ROOT / "docs" / "internals" / "decisions"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML_FILES = sorted(
    [*ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]
)

pytestmark = pytest.mark.skipif(
    not (ROOT / ".github").is_dir(), reason="only a checkout has these files"
)


def records() -> list[Path]:
    return sorted(DECISIONS.glob("[0-9]*.md"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


FOLDERS = sorted(path.parent for path in (ROOT / "src" / "skyband").rglob("*/__init__.py"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_folder_says_what_it_holds_and_imports(folder: Path) -> None:
    module = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    lines = (ast.get_docstring(module) or "").splitlines()
    assert len(lines) > 2
    assert any(line.startswith(("Imports ", "May be imported ")) for line in lines)


def test_decisions_are_numbered_without_gaps() -> None:
    assert [int(path.name[:4]) for path in records()] == list(range(len(records())))
    for path in records():
        assert path.read_text(encoding="utf-8").startswith(f"# {path.name[:4]}. ")


def test_the_index_lists_every_decision() -> None:
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \|$", index, re.MULTILINE)
    titles = [
        path.read_text(encoding="utf-8").splitlines()[0][len("# 0000. ") :] for path in records()
    ]
    wanted = [
        (path.name[:4], path.name, title) for path, title in zip(records(), titles, strict=True)
    ]
    assert listed == wanted[1:]  # without the template


def test_references_to_decisions_name_one_that_exists() -> None:
    numbers = {path.name[:4] for path in records()}
    names = {path.name for path in records()}
    texts = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    found = 0
    for path in texts:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"\b(\d{4}-[a-z-]+\.md)", text):
            assert name in names, f"{path}: {name}"
        mentions = re.findall(r"decisions?(?:/| | record )(\d{4})\b", text)
        assert numbers.issuperset(mentions), f"{path}: {mentions}"
        found += len(mentions)
    assert found > 10


def test_a_page_has_at_most_1800_words() -> None:
    """Changes, measured tables and reports on papers are not read from end to end."""
    words = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").split())
        for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    }
    reports = "|".join(path.stem for path in ROOT.glob("docs/reproduction/verdicts/*.json"))
    records = re.compile(rf"CHANGELOG.md|docs/(benchmarks/tables|reproduction/({reports}))[.]md")
    long = {name: n for name, n in words.items() if n > 1_800 and not records.fullmatch(name)}
    assert long == {}
    assert len(words) > 60


def test_the_page_on_upgrading_has_the_versions_of_the_code() -> None:
    page = (ROOT / "docs" / "upgrading.md").read_text(encoding="utf-8")
    stated = [int(n) for n in re.findall(r"^\| [^|]+ \| (\d+) \|", page, re.MULTILINE)]
    files = ("embedded/snapshots.py", "spark/plan.py", "jobs/local/checkpoint.py")
    code = [(ROOT / "src" / "skyband" / name).read_text(encoding="utf-8") for name in files]
    versions = [re.search(r"^\w*VERSION = (\d+)$", text, re.MULTILINE) for text in code]
    assert stated == [int(found[1]) for found in versions if found]
    assert len(stated) == len(files)


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_yaml_can_be_read(path: Path) -> None:
    assert isinstance(read(path), dict)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_targets_that_exist(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    run = [
        step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step
    ]
    asked = {word for line in run for word in re.findall(r"\bmake ([a-z-]+)", line)}
    assert asked
    assert asked <= targets


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    """A tag can be moved to other code; the comment tells people and dependabot its name."""
    uses = re.findall(r"^.*\buses:.*$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert uses
    pinned = re.compile(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
    assert [line for line in uses if not pinned.search(line)] == []


def test_make_reads_every_folder_that_has_tests_on_spark() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    told = re.search(r"^SPARK +:= .*? ((?:tests/\w+ ?)+)$", makefile, re.MULTILINE)
    assert told
    marked = [
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"\bpytest[.]mark[.]spark\b", path.read_text(encoding="utf-8"))
    ]
    assert {"/".join(path.parts[:2]) for path in marked} == set(told[1].split())


def ci(folder: Path, make: str, limit: int = 1000) -> subprocess.CompletedProcess[str]:
    """Run ``.ci/run`` with a shell script in place of make."""
    (folder / "make").write_text(f"#!/bin/sh\n{make}\n")
    (folder / "make").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "SKYBAND_CI_SECONDS": str(limit)}
    command = [str(ROOT / ".ci" / "run")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", ["setup-test", "check", "test"])
def test_ci_fails_when_a_step_fails(tmp_path: Path, target: str) -> None:
    done = ci(tmp_path, f'echo "$1" >> {tmp_path}/run; [ "$1" != {target} ]')
    assert done.returncode
    assert "all passed" not in done.stdout
    assert target in (tmp_path / "run").read_text().split()


@pytest.mark.parametrize(("limit", "code"), [(1000, 0), (-1, 1)])
def test_ci_fails_when_it_takes_too_long(tmp_path: Path, limit: int, code: int) -> None:
    done = ci(tmp_path, "", limit)  # each step passes at once
    assert done.returncode == code
    assert re.search(r"all passed in \d+ s\n(    \d+ s  make [a-z-]+\n)+$", done.stdout)
    assert ("at most -1 s are allowed" in done.stderr) == bool(code)


def test_python_keeps_what_it_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every process compiles all modules that it imports; Spark's workers do, too."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    shows = f"{sys.executable} -c 'import sys; print(sys.dont_write_bytecode)'"
    assert set(re.findall(r"^(?:True|False)$", ci(tmp_path, shows).stdout, re.MULTILINE)) == {
        "False"
    }
    (tmp_path / "shows.mk").write_text(f"include Makefile\nshows:\n\t@{shows}\n")
    command = ["make", "--no-print-directory", "--file", str(tmp_path / "shows.mk"), "shows"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_hooks_run_what_make_check_runs() -> None:
    hooks = [
        hook for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]
    ]
    entries = " ".join(hook.get("entry", "") for hook in hooks)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    check = re.search(r"^check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert check
    for command in re.findall(r"\$\(BIN\)/(\S+(?: check| format)?)", check[1]):
        assert f".venv/bin/{command}" in entries


def test_the_citation_is_of_this_version_and_the_five_papers() -> None:
    citation = read(ROOT / "CITATION.cff")
    assert citation["version"] == PROJECT["version"] == importlib.metadata.version("skyband")
    assert citation["license"] == PROJECT["license"]
    assert len(citation["references"]) == 5


def test_lowest_versions_are_those_of_the_project() -> None:
    """Every dependency is pinned to its minimum; a dependency without a minimum is refused."""
    command = [sys.executable, ".ci/lowest.py", *sorted(PROJECT["optional-dependencies"])]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    pins = dict(line.split("==") for line in made.splitlines())
    for requirement in PROJECT["dependencies"]:
        name, version = requirement.split(">=")
        assert pins[name] == version
    assert pins["psycopg"] == "3.2.1"
    assert "skyband" not in pins


def test_a_dependency_without_a_minimum_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["numpy"]\n')
    command = [sys.executable, str(ROOT / ".ci" / "lowest.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "'numpy' has no lowest version" in done.stderr
