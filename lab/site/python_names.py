"""The reference of the Python interface: a heading and a directive per public name."""

from __future__ import annotations

import importlib

__all__ = ["SECTIONS", "public_names", "python_page"]

SECTIONS: dict[str, tuple[str, ...]] = {
    "Queries": ("TopK", "HeavyHitters", "UncertainTopK", "FusedTopK", "Skyline", "SkylineJoin"),
    "Windows": ("TimeWindow", "CountWindow", "DecayWindow", "LandmarkWindow"),
    "Answering": ("rank", "watch", "sql", "live", "explain", "Monitor"),
    "Answers": ("Answer", "Position"),
    "Errors": ("SkybandError", "QueryError", "SchemaError", "DataError", "EngineError"),
}
"""Where the names of ``skyband`` stand; a name that is not listed stands under "More"."""

_MODULES = {
    "skyband.spark": "On Spark",
    "skyband.plot": "Pictures",
    "skyband.jobs": "Jobs",
}


def public_names(module: str) -> tuple[str, ...]:
    """The names that a module exports."""
    return tuple(importlib.import_module(module).__all__)


def python_page() -> str:
    """The page, as Markdown with mkdocstrings' directives."""
    lines = [
        "# Python",
        "",
        "This page lists every public name of Skyband with its docstring. The names in the first"
        " sections come with `import skyband as sb`; the others belong to the module that is named"
        " above them.",
        "",
    ]
    rest = [n for n in public_names("skyband") if not any(n in each for each in SECTIONS.values())]
    for title, names in {**SECTIONS, "More": tuple(rest)}.items():
        known = [name for name in names if name in public_names("skyband")]
        lines += [f"## {title}", "", *_directives("skyband", known)]
    for module, title in _MODULES.items():
        lines += [f"## {title}", "", f"`{module}`", "", *_directives(module, public_names(module))]
    return "\n".join(lines) + "\n"


def _directives(module: str, names: list[str] | tuple[str, ...]) -> list[str]:
    plain = {*SECTIONS["Queries"], *SECTIONS["Windows"], "Query"}  # their docstrings say it all
    lines: list[str] = []
    for name in names:
        bare = ["    options:", "      members: false"] if name in plain else []
        lines += [f"::: {module}.{name}", *bare, ""]
    return lines
