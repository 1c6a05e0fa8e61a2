"""The benchmarks and experiments of a checkout, which are found as text and imported by name."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from skyband.cli.app import checkout
from skyband.errors import EngineError

ALL = "all"


def chosen(folder: str, function: str, name: str) -> list[str]:
    """The name, or those of all modules of a folder."""
    return list(modules(folder, function)) if name == ALL else [name]


def modules(folder: str, function: str) -> dict[str, Path]:
    """The modules in a folder of ``lab`` that define ``function``, by name.

    They are searched as text, not imported, because some need libraries that may be missing.
    """
    found = sorted((checkout() / "lab" / folder).glob("*.py"))
    defined = f"\ndef {function}("
    return {p.stem: p for p in found if defined in "\n" + p.read_text(encoding="utf-8")}


def load(folder: str, function: str, name: str) -> ModuleType:
    """Import one of these modules."""
    known = modules(folder, function)
    if name not in known:
        kind = folder.removesuffix("s")
        listed = ", ".join(known) or "none"
        raise EngineError(f"there is no {kind} {name!r}; choose one of: {listed}")
    spec = spec_from_file_location(f"skyband_{folder}_{name}", known[name])
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module here
    spec.loader.exec_module(module)
    return module
