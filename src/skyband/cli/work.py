"""The project's own measurements: ``bench`` and ``reproduce``. Their code is in ``lab/``."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

import skyband
from skyband.errors import EngineError

# Finds ``lab/``, the benchmarks and experiments of a checkout, which wheels do not contain -------


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


_ALL = "all"
Scale = Annotated[float, typer.Option(help="Fraction of the full size; 0.01 is quick.", min=0)]


def bench(
    name: Annotated[str, typer.Argument(help="A benchmark, or all.")] = _ALL,
    scale: Scale = 1.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Markdown file to write to.", show_default="docs/benchmarks/tables.md"),
    ] = None,
) -> None:
    """Measure Skyband against other tools in one run; the results are ratios."""
    root = checkout()
    from lab.bench.command import measure
    from skyband.kernels.patient import hurry

    hurry()
    names = list(modules("benchmarks", "run")) if name == _ALL else [name]
    measure(names, scale, out or root / "docs" / "benchmarks" / "tables.md")


def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment, or all.")] = _ALL,
    scale: Annotated[
        float | None,
        typer.Option(
            help="Fraction of the paper's sizes; 0.01 is quick.",
            min=0,
            show_default="a few minutes' work",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Sizes at which all five take under ten minutes.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="The paper's own sizes (scale 1).")] = False,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("docs/reproduction"),
) -> None:
    """Reproduce the tables and figures of a paper, with a verdict on its claims."""
    if quick + full + (scale is not None) > 1:
        raise typer.BadParameter("give one of --scale, --quick and --full")
    checkout()
    from lab.bench import command
    from skyband.kernels.patient import hurry

    hurry()
    names = list(modules("experiments", "reproduce")) if name == _ALL else [name]
    command.reproduce(names, 1.0 if full else scale, out, quick=quick)
