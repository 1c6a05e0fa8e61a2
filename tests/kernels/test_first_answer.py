"""How much is compiled before the first answer of a million rows: it must not creep back up.

A specialisation is one kernel, or one function of numba's, compiled for one list of types. Each
costs 0.05 to 2 seconds of the first answer on a machine, and of every run of these tests elsewhere.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.first_answer import in_fresh_process
from support.unwritten import VISIBLE

pytestmark = pytest.mark.skipif(VISIBLE, reason="nothing is compiled")

MOST = {
    "topk": 13,
    "topk-count": 13,
    "topk-by": 44,
    "hh": 50,
    "fused": 54,
    "skyline": 20,
}


CASES = [pytest.param(name, marks=() if name == "topk" else pytest.mark.slow) for name in MOST]


@pytest.mark.parametrize("name", CASES)
def test_no_more_is_compiled_than_this(name: str, tmp_path: Path) -> None:
    found = in_fresh_process(name, str(tmp_path))
    kernels = [f"{where} {types}" for where, types, _ in found["kernels"]]
    assert found["rows"] > 0
    assert len(kernels) <= MOST[name], "\n".join(kernels)
    assert not [kernel for kernel in kernels if "unicode" in kernel], "somewhere, a slice is set"
