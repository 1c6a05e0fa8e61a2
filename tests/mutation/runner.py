"""One process per mutant: put the changed code into the loaded module, run the checks.

Everything is loaded once, and each mutant is a fork of that process in which one function has got
other code. So a mutant costs the checks up to the first that notices it and nothing else.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from mutation.changes import Change, changed, function_of
from mutation.targets import TARGETS, Target

TESTS = Path(__file__).parent.parent
SOURCE = TESTS.parent / "src"
CASES = 30
"""Default number of random queries, of the covering algorithms, compared with the oracle."""
IDLE = 20
"""Seconds that a mutant may wait for something, beyond what other work on the machine explains."""
MEMORY = 4 << 30
"""Bytes that a mutant may allocate beyond what is loaded."""

SURVIVED, KILLED, TIMEOUT, UNSEEN = "survived", "killed", "timeout", "unseen"
"""Unseen: no check runs the changed function, so that the mutant survives without a run."""
ALIVE = (SURVIVED, UNSEEN)


def load() -> None:
    """Load all modules, uncompiled."""
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    for target in TARGETS:
        importlib.import_module(target.module)


def with_tests(targets: Sequence[Target], body: Callable[[list[Any]], int]) -> int:
    """Load everything, let pytest collect the targets' tests, and call ``body`` with them."""
    load()
    import pytest
    from hypothesis import Phase, settings

    settings.register_profile("mutants", deadline=None, derandomize=True, database=None,
                              max_examples=30, phases=(Phase.explicit, Phase.generate))  # fmt: skip
    result = [1]

    class Collected:
        def pytest_runtestloop(self, session: Any) -> bool:
            result[0] = body(session.items)
            return True

    files = dict.fromkeys(str(TESTS / path) for target in targets for path, _ in target.own_tests)
    given = ["-q", "-s", "-p", "no:cacheprovider", "--hypothesis-profile=mutants"]
    # Integer overflow raises warnings when kernels run uncompiled.
    given += ["--assert=plain", "-W", "ignore:overflow encountered:RuntimeWarning"]
    given += ["-m", "not slow and not spark and not cluster", "--no-summary"]
    none = [str(TESTS / "mutation" / "targets.py")]  # pytest must not collect all tests
    with contextlib.chdir(TESTS.parent):
        code = pytest.main([*(files or none), *given], plugins=[Collected()])
    if code not in (0, 5):
        raise RuntimeError(f"pytest could not collect the tests: exit code {code}")
    return result[0] if files else body([])


def path_of(module: str) -> Path:
    path = SOURCE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


class Bench:
    """A module with the checks that cover it."""

    def __init__(self, target: Target, items: list[Any] | None, cases: int) -> None:
        """Without ``items``, the tests of pytest, only random queries run."""
        from mutation import checks

        self.target, self.path = target, path_of(target.module)
        found = checks.queries_of(target, cases)
        self.checks = found[:cases]
        if items is not None:
            self.checks = found + checks.tests_of(target, items)
        loaded = str(importlib.import_module(target.module).__file__)
        for check in self.checks:
            try:
                check.measure(loaded)
            except BaseException as problem:
                raise RuntimeError(
                    f"{check.name} fails without any change of {target.module}"
                ) from problem

    @property
    def seconds(self) -> float:
        """CPU seconds that all checks take together."""
        return sum(check.seconds for check in self.checks)

    def covering(self, change: Change) -> list[Any]:
        """The checks that run the changed line, or else the changed function, quick ones first."""
        for first, last in ((change.line, change.last_line), change.function_lines):
            lines = frozenset(range(first, last + 1))
            found = [check for check in self.checks if check.lines & lines]
            if found:
                return sorted(found, key=lambda check: -check.promise)
        return []

    def fate(self, change: Change) -> tuple[str, str]:
        """What became of a mutant, and the name of the check that noticed it."""
        chosen = self.covering(change)
        if not chosen:
            return UNSEEN, ""
        inlet, outlet = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(inlet)
            _child(self.target, change, chosen, outlet)
        os.close(outlet)
        _, status = os.waitpid(child, 0)
        with os.fdopen(inlet, "rb") as numbers:
            begun = numbers.read()
        last = struct.unpack("i", begun[-4:])[0] if begun else 0
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            return SURVIVED, ""
        chosen[last].kills += 1
        late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM)
        return TIMEOUT if late else KILLED, chosen[last].name


def _child(target: Target, change: Change, checks: list[Any], outlet: int) -> None:
    """Run the checks and exit; the exit code says whether the change was noticed."""
    code = 1
    try:
        for alarm in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(alarm, signal.SIG_DFL)  # ends the process, whatever it is doing
        with contextlib.suppress(OSError):  # only Linux has this file
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        put(target, change)
        for number, check in enumerate(checks):
            os.write(outlet, struct.pack("i", number))
            signal.setitimer(signal.ITIMER_PROF, check.limit)
            signal.setitimer(signal.ITIMER_REAL, 10 * check.limit + IDLE)  # it may wait for ever
            check.again()
        code = 0
    except BaseException:  # noqa: BLE001  any exception means that it was noticed
        pass
    finally:
        os._exit(code)


def put(target: Target, change: Change) -> None:
    """Give the loaded function the code of the mutant."""
    path = path_of(target.module)
    tree = changed(path, change)
    module = sys.modules[target.module]
    function = _loaded(module, change.outermost)
    function.__code__ = _code(compile(tree, str(path), "exec"), change.outermost)
    given = function_of(tree, change.outermost).args
    if given.defaults:
        function.__defaults__ = tuple(_value(node, module) for node in given.defaults)
    if given.kw_defaults:
        names = [each.arg for each in given.kwonlyargs]
        values = zip(names, given.kw_defaults, strict=True)
        function.__kwdefaults__ = {n: _value(v, module) for n, v in values if v is not None}


def _value(node: ast.expr, module: Any) -> Any:
    return eval(compile(ast.Expression(node), "default", "eval"), dict(vars(module)))


def _loaded(module: Any, name: str) -> FunctionType:
    """The function that runs under a qualified name: below decorators and properties."""
    found: Any = module
    for part in name.split("."):
        found = vars(found)[part]
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        for way in ("__wrapped__", "fget", "func", "__func__"):
            if getattr(found, way, None) is not None:
                found = getattr(found, way)
                break
        else:
            raise TypeError(f"{name} is not a function")
    return found


def _code(code: CodeType, name: str) -> CodeType:
    for part in name.split("."):
        inner = [c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == part]
        code = inner[0]
    return code
