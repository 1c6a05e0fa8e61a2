"""Kernels without our compiler, should a version of numba break it: the same results."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skyband
from support.unwritten import VISIBLE

PACKAGE = Path(skyband.__file__).parent
CODE = """
import sys
import numpy as np
from skyband.kernels.borrow import borrowed, copy_rows, frozen
from skyband.kernels.jit import for_python, jit, piece
from skyband.kernels.patient import hurry, kernel

@piece
def twice(x):
    return x + x

@jit
def filled(rows, n):
    more = np.zeros((n, 2), np.int64)
    copy_rows(more, rows, len(rows))
    return more

@kernel
def doubled(rows, n):
    rows = borrowed(rows)
    more = filled(rows, n)
    for i in range(len(more)):
        more[i, 0] = twice(more[i, 0])
    return more

hurry()
rows = frozen(np.arange(4).reshape(2, 2))
print(doubled(rows, 3).tolist(), doubled.__wrapped__.signatures != [],
      filled(rows, 2).tolist(), "skyband.kernels.compiler" in sys.modules)
"""


@pytest.mark.skipif(VISIBLE, reason="nothing is compiled")
@pytest.mark.parametrize(("plain", "ours"), [("1", False), ("0", True)])
def test_kernels_compile_with_and_without_our_compiler(plain: str, ours: bool) -> None:
    env = os.environ | {"SKYBAND_PLAIN_NUMBA": plain}
    printed = subprocess.check_output([sys.executable, "-c", CODE], env=env, text=True)
    assert printed.strip() == f"[[0, 1], [4, 3], [0, 0]] True [[0, 1], [2, 3]] {ours}"


def test_what_numba_does_not_promise_is_used_in_one_module() -> None:
    private = re.compile(r"(?m)^\s*(from|import) (llvmlite|numba\.(?!extending)|numba import _)")
    users = [path for path in PACKAGE.rglob("*.py") if private.search(path.read_text())]
    assert [path.relative_to(PACKAGE).as_posix() for path in users] == ["kernels/compiler.py"]
