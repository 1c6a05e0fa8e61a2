"""All changes of a single place: comparisons, operators, constants and truth values."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitAnd,),
}
SKIPPED = ("_check", "stats", "nbytes", "__repr__")
"""Functions that only tests and statistics call; they are not changed."""


@dataclass(frozen=True)
class Change:
    """A change of one place in a module."""

    function: str
    line: int
    before: str
    after: str
    number: int
    """Distinguishes changes with the same text in one function."""
    place: int
    """Which node of the tree, in the order of ``ast.walk``."""
    choice: int
    last_line: int
    outermost: str
    """The outermost function around the change, which may be the function itself."""
    function_lines: tuple[int, int]

    @property
    def name(self) -> str:
        """A name that stays the same as long as the function is not edited."""
        return f"{self.function}: {self.before} -> {self.after} #{self.number}"


def changes_of(path: Path) -> list[Change]:
    """All changes of a module, in the order of its lines."""
    tree = ast.parse(path.read_text())
    owners = _owners(tree)
    functions = _functions(tree)
    found: list[Change] = []
    seen: dict[tuple[str, str, str], int] = {}
    for place, node in enumerate(ast.walk(tree)):
        owner = owners.get(id(node))
        if owner is None or owner.rpartition(".")[2] in SKIPPED:
            continue
        for choice, (before, after) in enumerate(_alternatives(node)):
            key = (owner, before, after)
            seen[key] = seen.get(key, 0) + 1
            line, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
            outermost = next(name for name in functions if f"{owner}.".startswith(f"{name}."))
            around = functions[outermost]
            lines = (around.lineno, around.end_lineno or around.lineno)
            found.append(
                Change(owner, line, before, after, seen[key], place, choice, last, outermost, lines)
            )
    return sorted(found, key=lambda change: (change.line, change.place, change.choice))


def changed(path: Path, change: Change) -> ast.Module:
    """The syntax tree of the module with one change made."""
    tree = ast.parse(path.read_text())
    for place, node in enumerate(ast.walk(tree)):
        if place == change.place:
            _apply(node, change.choice)
            break
    return ast.fix_missing_locations(tree)


def function_of(tree: ast.Module, name: str) -> ast.FunctionDef:
    """A function that is not inside another one, by its qualified name."""
    return _functions(tree)[name]


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """The functions that are not inside another one, by their qualified names."""
    found: dict[str, ast.FunctionDef] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef):
                found[f"{prefix}{node.name}"] = node
            elif isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")

    visit(tree.body, "")
    return found


def _owners(tree: ast.Module) -> dict[int, str]:
    """The enclosing function of each node; nodes outside functions are not included."""
    owners: dict[int, str] = {}

    def visit(node: ast.AST, owner: str | None, prefix: str) -> None:
        for child in _children(node):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                name = f"{prefix}{child.name}"
                visit(child, name if isinstance(child, ast.FunctionDef) else owner, f"{name}.")
            else:
                if owner is not None:
                    owners[id(child)] = owner
                visit(child, owner, prefix)

    visit(tree, None, "")
    return owners


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Child nodes that may be changed: no annotations, decorators, docstrings, errors, asserts."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and not (
                text or isinstance(child, (ast.Raise, ast.Assert, ast.JoinedStr))
            ):
                yield child


def _alternatives(node: ast.AST) -> list[tuple[str, str]]:
    """For each possible change of a node: its text before and after."""
    found = []
    for choice in range(_count(node)):
        other = copy.deepcopy(node)
        _apply(other, choice)
        found.append((_text(node), _text(other)))
    return found


def _text(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0][:60]


def _count(node: ast.AST) -> int:
    if isinstance(node, ast.Compare):
        return sum(len(COMPARISONS.get(type(op), ())) for op in node.ops)
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        return len(OPERATORS.get(type(node.op), ()))
    if isinstance(node, ast.Constant):
        return 1 if isinstance(node.value, (int, float)) else 0  # truth values are integers
    return 1 if isinstance(node, ast.BoolOp) or _is_not(node) or _is_minus(node) else 0


def _apply(node: Any, choice: int) -> None:
    """Make one of a node's changes in place."""
    if isinstance(node, ast.Compare):
        others = [
            (at, other) for at, op in enumerate(node.ops) for other in COMPARISONS.get(type(op), ())
        ]
        at, other = others[choice]
        node.ops[at] = other()
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        node.op = OPERATORS[type(node.op)][choice]()
    elif isinstance(node, ast.Constant):
        truth = isinstance(node.value, bool)
        node.value = (not node.value) if truth else node.value + 1  # type: ignore[operator]
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif _is_not(node):
        node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
    else:
        node.op = ast.UAdd()


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _is_minus(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
