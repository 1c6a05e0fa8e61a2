"""Collects the pages of the site: those of docs/, those of the root, and those made from code."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from lab.site.command_line import command_line_page
from lab.site.job_file import PAGES
from lab.site.python_names import python_page

__all__ = ["ROOT_PAGES", "links_of", "made_pages", "stage"]

ROOT_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "security.md",
}
"""Pages at the root of the repository, and where they stand in the site."""

_LINK = re.compile(r"(!?\[[^\[\]]*\]\()([^)\s]+)(\))")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_COPIED = (".md", ".png", ".svg", ".json")
_LISTED = (".py", ".toml", ".cff", ".json")
"""Files that a page may link to; they are copied to the folder ``files``."""
_SECTIONS = {
    "tutorials": ("Tutorials",),
    "recipes": ("How-to", "Recipes"),
    "internals": ("Explanation", "Internals"),
    "reproduction": ("The papers",),
    "reference": ("Reference",),
    "files": ("How-to",),
    "": ("How-to",),
}
"""In which section of the navigation a page stands if mkdocs.yml does not list it."""


def made_pages() -> dict[str, Callable[[], str]]:
    """Pages that are made from code, by their place in the site."""
    return {
        "reference/python.md": python_page,
        "reference/command_line.md": command_line_page,
        **{f"reference/{name}": page for name, page in PAGES.items()},
    }


def stage(root: Path, to: Path) -> Path:
    """Write the pages to ``to/docs`` and the settings to ``to/mkdocs.yml``; return their path."""
    pages = to / "docs"
    shutil.rmtree(pages, ignore_errors=True)
    sources: dict[str, Path] = {}
    for path in sorted((root / "docs").rglob("*")):
        if path.suffix in _COPIED:
            sources[path.relative_to(root / "docs").as_posix()] = path
    for name, place in ROOT_PAGES.items():
        if place not in sources:  # docs/index.md, where there is one, is the first page
            sources[place] = root / name
    for place, path in sources.items():
        target = pages / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
            target.write_text(_relinked(text, path, place, root, pages), encoding="utf-8")
        else:
            shutil.copyfile(path, target)
    for place, make in made_pages().items():
        (pages / place).parent.mkdir(parents=True, exist_ok=True)
        (pages / place).write_text(make(), encoding="utf-8")
    return _settings(root, to, pages)


def links_of(text: str) -> Iterator[re.Match[str]]:
    """The links and pictures of a page, those in code left out."""
    fences = [found.span() for found in _FENCE.finditer(text)]
    for found in _LINK.finditer(text):
        if not any(low <= found.start() < high for low, high in fences):
            yield found


def _relinked(text: str, path: Path, place: str, root: Path, pages: Path) -> str:
    """The text of a page with its links as they are in the site."""
    moved = []
    for found in links_of(text):
        target, _, anchor = found[2].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            continue
        file = Path(os.path.normpath(path.parent / target))
        new = _place_of(file, root, pages)
        if new is not None:
            here = PurePosixPath(place).parent
            link = os.path.relpath(new, here).replace(os.sep, "/")
            moved.append((found.start(2), found.end(2), link + (f"#{anchor}" if anchor else "")))
    for low, high, link in reversed(moved):
        text = text[:low] + link + text[high:]
    return text


def _place_of(file: Path, root: Path, pages: Path) -> str | None:
    """Where a file of the repository stands in the site; None leaves the link for the check."""
    if file == root / "docs" / "reproduction" or file == root / "docs":
        return "reproduction/errata.md" if file.name == "reproduction" else "index.md"
    inside = file.is_relative_to(root / "docs")
    name = file.relative_to(root / "docs" if inside else root).as_posix()
    if inside:
        return name
    if name in ROOT_PAGES:
        return ROOT_PAGES[name]
    if file.is_dir():
        return _listing(file, pages)
    if file.is_file() and (file.suffix in _LISTED or not file.suffix):
        target = pages / "files" / (file.name + ("" if file.suffix else ".txt"))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        return f"files/{target.name}"
    return None


def _listing(folder: Path, pages: Path) -> str:
    """A page with the files of a folder of the repository, for links to the folder."""
    lines = [f"# {folder.name}"]
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            text = path.read_text(encoding="utf-8").rstrip()
            name = path.relative_to(folder).as_posix()
            lines += ["", f"## {name}", "", f"```{path.suffix[1:]}", text, "```"]
    target = pages / "files" / f"{folder.name}.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"files/{target.name}"


def _settings(root: Path, to: Path, pages: Path) -> Path:
    """mkdocs.yml with every page in its navigation, next to the staged pages."""
    settings = yaml.safe_load((root / "mkdocs.yml").read_text(encoding="utf-8"))
    nav = settings["nav"]
    listed = set(_pages_in(nav))
    for path in sorted(pages.rglob("*.md")):
        name = path.relative_to(pages).as_posix()
        if name not in listed:
            folder = name.partition("/")[0] if "/" in name else ""
            _section(nav, _SECTIONS.get(folder, _SECTIONS[""])).append(name)
    missing = [name for name in listed if not (pages / name).is_file()]
    if missing:
        raise SystemExit(f"mkdocs.yml lists pages that do not exist: {', '.join(sorted(missing))}")
    settings |= {"docs_dir": "docs", "site_dir": "site"}
    python = next(each["mkdocstrings"] for each in settings["plugins"] if "mkdocstrings" in each)
    python = python["handlers"]["python"]
    python["paths"] = [str(root / "src")]
    python["options"]["extensions"] = [str(root / "lab" / "site" / "fences.py")]
    path = to / "mkdocs.yml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return path


def _pages_in(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for each in nav.values() if isinstance(nav, dict) else nav:
            yield from _pages_in(each)


def _section(nav: list[Any], titles: tuple[str, ...]) -> list[Any]:
    for title in titles:
        nav = next(each[title] for each in nav if isinstance(each, dict) and title in each)
    return nav
