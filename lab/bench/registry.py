"""Finding the repository's benchmarks; they are not part of the installed package."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import skyband
from skyband.errors import EngineError

__all__ = ["benchmarks", "checkout", "load"]


def checkout() -> Path | None:
    """The root of the repository: of the folder one stands in, else of this installation."""
    here = Path.cwd()
    roots = (here, *here.parents, Path(skyband.__file__).resolve().parents[2])
    return next((root for root in roots if _is_checkout(root)), None)


def benchmarks() -> dict[str, Path]:
    """The benchmarks of the repository, by name."""
    root = checkout()
    if root is None:
        raise EngineError(
            "benchmarks live in Skyband's repository, not in the installed package; "
            "clone it and run this from within"
        )
    found = sorted((root / "benchmarks").glob("*.py"))
    return {path.stem: path for path in found if not path.stem.startswith("_")}


def load(name: str) -> ModuleType:
    """A benchmark's module."""
    known = benchmarks()
    if name not in known:
        raise EngineError(f"there is no benchmark {name!r}; choose one of {', '.join(known)}, all")
    spec = spec_from_file_location(f"skyband_benchmark_{name}", known[name])
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def _is_checkout(root: Path) -> bool:
    return (root / "benchmarks").is_dir() and (root / "src" / "skyband").is_dir()
