"""Checks a built site: every link, picture and anchor has to lead somewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["broken_links"]


class _Page(HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name in ("id", "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and tag != "link":
                self.links.append(value)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def broken_links(site: Path) -> list[str]:
    """What is wrong with the pages of a site, one line each."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
        pages[path.resolve()] = page
    found = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        where = path.relative_to(site.resolve()).as_posix()
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                found.append(f"{where}: {link} leads nowhere")
            elif _anchor_is_lost(unquote(parts.fragment), pages.get(target)):
                found.append(f"{where}: {link} has no such anchor")
        if any(line.lstrip().startswith(":::") for line in page.text):
            found.append(f"{where}: a name of the Python reference was not found")
    return found


def _anchor_is_lost(anchor: str, page: _Page | None) -> bool:
    """Whether a page lacks an anchor; those with two underscores belong to the theme."""
    if not anchor or page is None or anchor.startswith("__"):
        return False
    return anchor not in page.anchors
