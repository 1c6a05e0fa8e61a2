"""The identity of a user's function: what it computes, not its name or its place in a file.

Two queries are the same only if their functions are. A function is identified by its code:
instructions, constants, names, defaults, and the values it reads from closures and globals. File
names, line numbers and the function's own name are ignored. The identity is the same in every
process of one Python version. A function that cannot be read in this way must be named by the user.
"""

from __future__ import annotations

import dis
import hashlib
import sys
from collections.abc import Callable, Mapping, Set
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from skyband.errors import QueryError

__all__ = ["NAME", "function_identity"]

NAME = "__skyband_name__"
"""The attribute in which users name a function whose code cannot be read."""

_BEHAVIOUR = 0x04 | 0x08 | 0x20 | 0x80 | 0x200
"""Code flags that affect behaviour: varargs, keywords, generators, coroutines."""


def function_identity(what: str, function: Callable[..., Any]) -> str:
    """A digest of what a function computes; ``what`` is the parameter it was passed as.

    >>> one, two = (function_identity("combine", f) for f in (lambda v: v + 1, lambda v: v + 2))
    >>> one == two
    False
    """
    named = getattr(function, NAME, None)
    if named is not None:
        if not isinstance(named, str) or not named:
            raise QueryError(f"{NAME} of {what}= must be a non-empty string, not {named!r}")
        found: Any = ("named", named)
    elif isinstance(function, (FunctionType, partial)):
        found = _Reader(what, _package(function)).value(function, "it")
    else:
        kind = type(function).__name__
        raise _refused(what, f"it is a {kind}, whose code cannot be read")
    return hashlib.sha256(repr(found).encode()).hexdigest()[:32]


def _refused(what: str, why: str) -> QueryError:
    return QueryError(
        f"{what}= cannot be distinguished from other functions: {why}. Use a function that reads "
        "only numbers, strings and modules, or give yours a name, and change the name whenever "
        f"the function changes: function.{NAME} = 'score-1'"
    )


class _Reader:
    """Reads a function and everything it refers to into nested tuples of plain values."""

    def __init__(self, what: str, package: str) -> None:
        self.what = what
        self.package = package
        """The function's package. Objects of other packages are identified by their full name."""
        self.reading: list[FunctionType] = []

    def value(self, value: Any, where: str) -> Any:
        """One value that a function refers to."""
        if value is None or value is ... or isinstance(value, (bool, int, str, bytes)):
            return type(value).__name__, repr(value)
        if isinstance(value, float):
            return "float", value.hex()
        if isinstance(value, complex):
            return "complex", value.real.hex(), value.imag.hex()
        if isinstance(value, (tuple, list)):
            return type(value).__name__, *(self.value(item, where) for item in value)
        if isinstance(value, Set):
            return "set", *sorted(repr(self.value(item, where)) for item in value)
        if isinstance(value, Mapping):
            pairs = ((self.value(k, where), self.value(v, where)) for k, v in value.items())
            return "mapping", *sorted(map(repr, pairs))
        if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
            data = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            return "array", value.dtype.str, np.shape(value), data
        if isinstance(value, CodeType):
            return self.code(value)
        if isinstance(value, ModuleType):
            return "module", value.__name__
        return self._callable(value, where)

    def _callable(self, value: Any, where: str) -> Any:
        if isinstance(getattr(value, NAME, None), str):
            return "named", getattr(value, NAME)
        if isinstance(value, partial):
            parts = (value.func, value.args, value.keywords)
            return "partial", *(self.value(part, where) for part in parts)
        library = _library_name(value, self.package)
        if isinstance(value, FunctionType):
            try:
                return self._function(value)
            except QueryError:
                if library is None:
                    raise
        if library is None:
            kind = type(value).__name__
            raise _refused(self.what, f"{where} refers to an object of type {kind}")
        return "library", library

    def _function(self, function: FunctionType) -> Any:
        if function in self.reading:
            return "again", self.reading.index(function)
        self.reading.append(function)
        try:
            cells = [_content(cell) for cell in function.__closure__ or ()]
            names = function.__code__.co_freevars
            around = [self.value(v, f"{n!r}") for n, v in zip(names, cells, strict=True)]
            known = function.__globals__
            read = sorted(_global_names(function.__code__))
            around += [(n, self.value(known[n], f"{n!r}")) for n in read if n in known]
            defaults = self.value(function.__defaults__, "a default")
            keywords = self.value(function.__kwdefaults__, "a default")
            return "function", self.code(function.__code__), around, defaults, keywords
        finally:
            self.reading.pop()

    def code(self, code: CodeType) -> Any:
        """Code without its place in a file."""
        shape = (
            code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount,
            code.co_flags & _BEHAVIOUR, len(code.co_freevars), len(code.co_cellvars),
        )  # fmt: skip
        constants = self.value(code.co_consts, "a constant")
        return "code", shape, code.co_code, code.co_exceptiontable, code.co_names, constants


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return ("empty cell",)


def _global_names(code: CodeType) -> set[str]:
    """Names that code, with the functions inside it, reads from its module."""
    found = {
        step.argval
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _global_names(constant)
    return found


def _package(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__module__", None) or "").partition(".")[0]


def _library_name(value: Any, package: str) -> str | None:
    """The full name of an object from a package other than ``package``; None if it has none."""
    module = getattr(value, "__module__", None) or type(value).__module__
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    place: Any = sys.modules.get(module)
    for part in name.split("."):
        place = getattr(place, part, None)
    own = module.partition(".")[0] == package and isinstance(value, (FunctionType, type))
    return None if own or place is not value else f"{module}.{name}"
