"""Ctrl-C, and what else a signal raises, while kernels are loaded and run."""

from __future__ import annotations

import subprocess
import sys

import pytest

from skyband.kernels import patient as patience

pytestmark = pytest.mark.skipif(patience._config.DISABLE_JIT, reason="nothing is compiled")

# No row dominates another, so one call of a kernel takes a while. The signal comes meanwhile, or
# before or after it: whenever that is, the query ends with what the signal raises.
ROUNDS = """
import os, signal, threading
import numpy as np, pyarrow as pa, skyband as sb
from numba.core import serialize
draws = np.random.default_rng(1)
a, b, c = draws.random((3, 6_000))
rows = pa.table({{"a": a, "b": b, "c": c, "d": -a - b - c}})
query = sb.Skyline(prefer=dict.fromkeys("abcd", "min"), window=sb.CountWindow(6_000))
sb.rank(rows.slice(0, 1), query)
def refuse(number, frame): raise {raises}("on time")
signal.signal(signal.SIGINT, refuse)
for wait in (0.05, 0.1, 0.4, 0.3, 0.02, 0.04, 0.06, 0.2):  # at first, kernels are loaded
    serialize._unpickled_memo.clear()  # as in the first call of every kernel
    timer = threading.Timer(wait, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        while True:
            sb.rank(rows, query)
    except BaseException as error:
        print(type(error).__name__, error, error.__cause__)
"""


@pytest.mark.parametrize("raises", ["KeyboardInterrupt", "TimeoutError"])
def test_a_query_ends_with_what_a_signal_raises(raises: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS.format(raises=raises)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{raises} on time None"] * 8
