"""The site: its pages made from code, the links between pages, and the check of what was built."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path

import pytest
import yaml

pytest.importorskip("typer")

from lab.site.check import broken_links
from lab.site.command_line import command_line_page, commands
from lab.site.fences import fenced
from lab.site.job_file import PAGES, job_file_page, job_queries_page
from lab.site.python_names import python_page
from lab.site.stage import links_of, made_pages, stage
from skyband.jobs import allowed_keys as keys

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.skipif(
    not (ROOT / "mkdocs.yml").is_file(), reason="only a checkout has the site's settings"
)


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("site")
    stage(ROOT, to)
    return to


@pytest.mark.parametrize("module", ["skyband", "skyband.spark", "skyband.plot", "skyband.jobs"])
def test_the_reference_has_every_public_name(module: str) -> None:
    shown = set(re.findall(r"^::: ([\w.]+)$", python_page(), re.MULTILINE))
    assert shown >= {f"{module}.{name}" for name in importlib.import_module(module).__all__}


def test_public_names_can_be_found_without_running_code() -> None:
    griffe = pytest.importorskip("griffe")
    package = griffe.load("skyband", search_paths=[ROOT / "src"])
    for name in re.findall(r"^::: skyband[.]([\w.]+)$", python_page(), re.MULTILINE):
        assert package[name] is not None


def test_the_reference_has_every_command_and_option() -> None:
    page = command_line_page()
    for name, command in commands().items():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert section, name
        for each in command.params:
            for flag in [*each.opts, *each.secondary_opts]:
                shown = f"`{flag}" if flag.startswith("-") else "`"
                assert shown in section, f"{name} {flag}"
    assert "| `--on-bad raise\\|skip` | Stop at bad or late rows" in page
    assert "`--k" in page


def test_the_reference_has_every_key_of_a_job_file() -> None:
    page = job_file_page()
    for word, kinds in (("source", keys.SOURCES), ("sink", keys.SINKS)):
        for kind, known in kinds.items():
            section = page.partition(f"### {word} {kind}\n")[2].partition("\n#")[0]
            rows = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
            assert rows == {*known.needed, *known.optional}
    for known in (keys.JOB, keys.TRIGGER, keys.METRICS):
        for name in (*known.needed, *known.optional):
            assert f"| `{name}` |" in page
    assert "| `checkpoint` | text | yes |" in page
    again = "python -m lab.site.job_file"
    for name, made in PAGES.items():
        kept = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
        assert kept == made(), f"it is out of date: {again}"
    assert "## TopK\n" in job_queries_page()


def test_every_page_has_its_place_in_the_navigation(staged: Path) -> None:
    settings = yaml.safe_load((staged / "mkdocs.yml").read_text(encoding="utf-8"))
    titles = [next(iter(each)) for each in settings["nav"]]
    wanted = [
        "Start",
        "How-to",
        "Reference",
        "Explanation",
        "The papers",
        "Benchmarks",
        "Changelog",
    ]
    assert [title for title in titles if title in wanted] == wanted
    text = str(settings["nav"])
    for path in (staged / "docs").rglob("*.md"):
        assert f"'{path.relative_to(staged / 'docs').as_posix()}'" in text


def test_a_page_that_is_listed_has_to_exist(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"):
        (tmp_path / name).write_text("# x\n")
    (tmp_path / "mkdocs.yml").write_text("nav: [index.md, lost.md, How-to: [], Reference: []]\n")
    with pytest.raises(SystemExit, match="do not exist: lost"):
        stage(tmp_path, tmp_path / "build")


def test_every_link_between_pages_leads_somewhere(staged: Path) -> None:
    pages = staged / "docs"
    found = 0
    for path in pages.rglob("*.md"):
        for link in links_of(path.read_text(encoding="utf-8")):
            target = link[2].partition("#")[0]
            if target and not re.match(r"[a-z]+:", target):
                file = Path(os.path.normpath(path.parent / target))
                assert file.is_file(), f"{path.relative_to(pages)}: {link[2]}"
                found += 1
    assert found > 100
    assert set(made_pages()) <= {p.relative_to(pages).as_posix() for p in pages.rglob("*.md")}


def test_a_link_to_a_folder_leads_to_a_page_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("[folder](../examples/some) [x](../x.py)\n")
    (tmp_path / "examples" / "some").mkdir(parents=True)
    (tmp_path / "examples" / "some" / "a.py").write_text("print(1)\n")
    (tmp_path / "x.py").write_text("print(2)\n")
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"):
        (tmp_path / name).write_text("# x\n")
    python = "{handlers: {python: {options: {}}}}"
    settings = f"nav: [How-to: [], Reference: []]\nplugins: [mkdocstrings: {python}]\n"
    (tmp_path / "mkdocs.yml").write_text(settings)
    stage(tmp_path, tmp_path / "build")
    pages = tmp_path / "build" / "docs"
    assert (pages / "page.md").read_text() == "[folder](files/some.md) [x](files/x.py)\n"
    assert "```py\nprint(1)\n```" in (pages / "files" / "some.md").read_text()
    assert "print(2)" in (pages / "files" / "x.py").read_text()


def test_links_in_code_are_no_links() -> None:
    text = "[a](b.md) and ![c](d.png)\n\n```\n[e](f.md)\n```\n\n[0, 4) then [g](h.md#i)\n"
    assert [found[2] for found in links_of(text)] == ["b.md", "d.png", "h.md#i"]


def test_what_is_broken_in_a_built_site_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#here">b</a><a href="b.html#gone">b</a>'
        '<a href="#top">up</a><a href="lost.html">x</a><img src="lost.png">'
        '<a href="https://example.org/">away</a>'
    )
    (tmp_path / "b.html").write_text('<p id="here">::: skyband.Nothing</p>')
    assert broken_links(tmp_path) == [
        "a.html: b.html#gone has no such anchor",
        "a.html: lost.html leads nowhere",
        "a.html: lost.png leads nowhere",
        "b.html: a name of the Python reference was not found",
    ]


def test_doctests_are_fenced() -> None:
    text = "One.\n\n    >>> 1\n    1\n    >>> 2\n    2\n\nTwo."
    assert fenced(text) == (
        "One.\n\n    ```pycon\n    >>> 1\n    1\n    >>> 2\n    2\n    ```\n\nTwo."
    )
