"""One process per mutant: import the changed module before anything else does, run its tests."""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from mutation.changes import Change, changed
from mutation.targets import Target

TESTS = Path(__file__).parent.parent
SOURCE = TESTS.parent / "src"
CASES = 120
"""Default number of random queries, of the covering algorithms, compared with the oracle."""
cases = CASES
"""How many random queries this run uses."""

SURVIVED, KILLED, TIMEOUT = "survived", "killed", "timeout"


def prepare() -> None:
    """Load the modules that every mutant needs and none changes, so that forks share them."""
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    import hypothesis  # noqa: F401
    import numba  # noqa: F401
    import pandas as pd  # noqa: F401
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401
    import pytest  # noqa: F401

    assert not any(name.partition(".")[0] == "skyband" for name in sys.modules)


def path_of(module: str) -> Path:
    path = SOURCE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def try_one(
    target: Target, change: Change | None, seconds: float, full: bool = True
) -> tuple[str, float]:
    """The fate of a mutant (None: the unchanged module), and the CPU time it took.

    More than ``seconds`` of CPU time counts as an endless loop.
    """
    child = os.fork()
    if child == 0:
        _child(target, change, seconds, full)
    _, status, used = os.wait4(child, 0)
    took = used.ru_utime + used.ru_stime
    if os.WIFSIGNALED(status):
        return TIMEOUT if os.WTERMSIG(status) == signal.SIGPROF else KILLED, took
    return SURVIVED if os.WEXITSTATUS(status) == 0 else KILLED, took


def baseline(target: Target, full: bool = True) -> float:
    """CPU seconds that the tests of a target take without a change; they must pass."""
    result, took = try_one(target, None, 1800, full)
    if result != SURVIVED:
        raise RuntimeError(f"the tests of {target.module} fail without any change: {result}")
    return took


def _child(target: Target, change: Change | None, seconds: float, full: bool) -> None:
    """Run the tests and exit; the exit code says whether the change was noticed."""
    code = 1
    try:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, whatever it is doing
        signal.setitimer(signal.ITIMER_PROF, seconds)
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        if change is not None:
            path = path_of(target.module)
            sys.meta_path.insert(0, Mutated(target.module, path, changed(path, change)))
        _cover(target, full)
        code = 0
    except BaseException:  # noqa: BLE001  any exception means that it was noticed
        pass
    finally:
        os._exit(code)


def _cover(target: Target, full: bool) -> None:
    """Compare answers with the oracle, then run the module's own tests."""
    import numpy as np

    import fuzz
    from fuzz import queries

    queries.CHOICES = dict(target.algorithms)
    with np.errstate(all="ignore"):
        for number in range(cases if full else CASES // 2):
            list(fuzz.run("answers", f"mutant-{number}"))
        _longer(target)
        if full and target.tests:
            _pytest(target.tests)


def _longer(target: Target) -> None:
    """Streams of a few hundred rows, in which synopses grow, shrink and merge."""
    import oracle
    from skyband import registry
    from support import conformance

    for kind, names in target.algorithms.items():
        for name in names:
            if not registry.load(kind, name).exact:
                continue
            few = conformance.SETTINGS[kind][: 2 if len(target.algorithms) > 2 else None]
            for number, settings in enumerate(few):
                chosen = settings | {
                    "algorithm": name,
                    "options": conformance.OPTIONS.get(name, {}),
                }
                patterns = ("uniform", "falling", "crowded")
                windows = (oracle.TimeWindow(30, 7, lateness=5), oracle.CountWindow(40, 9))
                window = windows[number % 2]
                if conformance.fits(chosen, window):
                    pattern = patterns[number % 3]
                    stream = conformance.long_stream(kind, chosen, window, pattern)
                    conformance.compare(kind, window, chosen, stream, restarts=number == 0)


def _pytest(tests: Sequence[str]) -> None:
    import pytest
    from hypothesis import Phase, settings

    settings.register_profile("mutants", deadline=None, derandomize=True, database=None,
                              max_examples=15, phases=(Phase.explicit, Phase.generate))  # fmt: skip
    for test in tests:
        name, *words = test.split()
        given = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=mutants"]
        # Integer overflow raises warnings when kernels run uncompiled.
        given += ["--assert=plain", "-W", "ignore:overflow encountered:RuntimeWarning"]
        quick = ["-m", "not slow and not spark", *words]
        with contextlib.chdir(TESTS.parent):
            if pytest.main([str(TESTS / name), *given, *quick]) not in (0, 5):
                raise AssertionError(test)


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An importer that provides one module in its changed form."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.path = name, path
        self.code: CodeType = compile(tree, str(path), "exec")

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, module.__dict__)
