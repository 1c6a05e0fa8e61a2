"""Finds ``lab/``, the benchmarks and experiments of a checkout, which wheels do not contain."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import skyband
from skyband.errors import EngineError

__all__ = ["checkout", "load", "modules"]


def checkout() -> Path:
    """The root of the repository that contains the current folder, otherwise of this package's.

    Also makes ``lab`` importable.
    """
    here = Path.cwd()
    roots = (here, *here.parents, Path(skyband.__file__).resolve().parents[2])
    root = next((each for each in roots if _is_checkout(each)), None)
    if root is None:
        raise EngineError(
            "benchmarks and experiments are part of Skyband's repository, not of the installed "
            "package; clone the repository and run this inside it"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return root


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


def _is_checkout(root: Path) -> bool:
    return (root / "lab").is_dir() and (root / "src" / "skyband").is_dir()
