"""Functions stay short enough to be read in one go. A file is as long as its story."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(path for folder in ("src", "lab", "tests") for path in (ROOT / folder).rglob("*.py"))
MOST_LINES_OF_A_FUNCTION = 80
MOST_LINES_OF_A_KERNEL = 120
REASON = "# Over 80 lines: "
"""A comment above a longer function starts like this and says why it is not split."""


def long_functions(source: str) -> Iterator[str]:
    """The names of functions that are too long and have no reason above them."""
    lines = source.splitlines()
    if len(lines) <= MOST_LINES_OF_A_FUNCTION:
        return
    left: list[ast.stmt] = list(ast.parse(source).body)
    for node in left:
        if isinstance(node, ast.ClassDef):
            left += node.body
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        above = first - 2
        while above > 0 and lines[above].lstrip().startswith("#"):
            above -= 1
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        excused = any(line.lstrip().startswith(REASON) for line in lines[above : first - 1])
        kernel = any("kernel" in ast.unparse(each) for each in node.decorator_list)
        most = MOST_LINES_OF_A_KERNEL if kernel else MOST_LINES_OF_A_FUNCTION
        if length > most and not excused:
            yield f"{node.name} ({length} lines)"


def test_no_function_is_too_long_without_a_reason() -> None:
    assert len(FILES) > 500, "the folders were found"
    found = {
        path.relative_to(ROOT).as_posix(): names
        for path in FILES
        if (names := list(long_functions(path.read_text(encoding="utf-8"))))
    }
    assert not found


def test_the_reader_of_statements_stays_small() -> None:
    files = (ROOT / "src" / "skyband" / "sql").glob("*.py")
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) <= 700


@pytest.mark.parametrize(
    ("above", "lines", "found"),
    [
        ("", 80, []),
        ("", 81, ["f (81 lines)"]),
        ("@kernel\n", 120, []),
        ("@kernel\n", 121, ["f (121 lines)"]),
        ("# Over 80 lines: one loop.\n@kernel\n", 130, []),
        ("# Over 80 lines: one loop,\n# and a second line.\n", 200, []),
        ("# Long.\n", 81, ["f (81 lines)"]),
    ],
)
def test_long_functions_are_found(above: str, lines: int, found: list[str]) -> None:
    source = f"{above}def f():\n" + "    pass\n" * (lines - 1)
    assert list(long_functions(source)) == found
