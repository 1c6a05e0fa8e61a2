"""The second process that compiles: what it is asked for, that it does it, and what it leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.embedded.run import FirstBatches
from skyband.kernels import compile_ahead as ahead
from support.unwritten import VISIBLE

pytestmark = pytest.mark.skipif(VISIBLE, reason="nothing is compiled")

WINDOW = sb.TimeWindow("10 seconds", slide="1 second")
ROWS = 100_000


def table() -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "ts": pa.array(np.arange(ROWS) * 1_000, pa.timestamp("us")),
            "id": np.arange(ROWS),
            "group": rng.integers(0, 5, ROWS),
            "score": rng.random(ROWS),
            "p": rng.uniform(0.1, 0.9, ROWS),
        }
    )


def rehearsed(source: Any, query: sb.Query, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that a rehearsal finds, the longest first."""
    from skyband.kernels import patient

    monkeypatch.setitem(patient._told, "hurry", False)
    seen = FirstBatches({None: query})
    for name, each in source.items() if isinstance(source, dict) else [(None, source)]:
        seen.note(name, each)
    assert seen.ready()
    rehearsal = seen.rehearse()
    assert not seen.ready(), "once is enough"
    monkeypatch.setattr(ahead, "_is_kept", lambda kernel, types: False)
    return [name for _, name, _ in rehearsal.tasks()]


FRESH = """
import sys
sys.path[:0] = {paths!r}
import test_ahead
import pytest
patch = pytest.MonkeyPatch()
print({{name: test_ahead.rehearsed(*test_ahead.case(name), patch) for name in {names!r}}})
"""


def case(name: str) -> tuple[Any, sb.Query]:
    prefer = {"left_score": "max", "right_p": "min"}
    queries: dict[str, sb.Query] = {
        "topk": sb.TopK(k=3, score="score", id="id", by=("group",), window=WINDOW, time="ts"),
        "hh": sb.HeavyHitters(k=3, item="id", by=("group",), window=WINDOW, time="ts"),
        "join": sb.SkylineJoin(
            left="left", right="right", on="group", prefer=prefer, window=WINDOW, time="ts"
        ),
    }
    source: Any = table()
    if name == "join":
        part = source.select(["ts", "group", "score", "p"])
        source = {"left": part, "right": part}
    return source, queries[name]


FOUND = {
    "topk": ["fold_units", "_select", "split_by_code", "encode_rows"],
    "hh": ["fold_groups", "count_runs"],
    "join": ["pairs_fold", "skyline_runs"],
}


def test_a_rehearsal_finds_the_kernels_of_a_query(tmp_path: Path) -> None:
    """In a fresh process with an empty cache, where no kernel is compiled."""
    found = run(
        FRESH.format(paths=[str(Path(__file__).parent), *sys.path], names=[*FOUND]), tmp_path
    )
    for name, kernels in FOUND.items():
        assert [each for each in found[name] if each in kernels] == kernels
    assert not list(tmp_path.rglob("*.nbi"))


def run(code: str, cache: Path, **more: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)} | more,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return eval(done.stdout)  # a list that our own code printed


def test_a_count_window_is_not_rehearsed() -> None:
    seen = FirstBatches({None: sb.TopK(k=1, score="score", window=sb.CountWindow(1_000))})
    seen.note(None, table())
    assert not seen.ready()


def test_the_first_batch_is_let_go_when_the_second_comes() -> None:
    seen = FirstBatches({None: sb.TopK(k=1, score="score", time="ts", window=WINDOW)})
    batch: dict[str | None, Any] = {None: table()}
    batches = iter([batch, batch])
    read = seen.noting(lambda source, name: batches)("source", None)
    next(read)
    assert seen.ready()
    next(read)
    assert not seen.ready()
    assert not seen._first


COMPILE = """
import os, sys, numpy as np
from pathlib import Path
from skyband.kernels import compile_ahead as ahead
from skyband.kernels.arrange import counting_order
from skyband.kernels.jit import cache_folder

kernel = counting_order.__wrapped__
codes = np.array([1, 0], np.int32)
class Offer:
    def ready(self): return True
    def rehearse(self):
        found = ahead.Rehearsal(scale=1e6)
        found.note(kernel, (codes, 2), 2)
        return found
with ahead.offered(Offer()):
    ahead.start()
ahead.finish(wait=100)
print([kernel.signatures == [], sorted(path.suffix for path in cache_folder().rglob("*.*"))])
"""


def test_the_second_process_compiles_into_the_cache(tmp_path: Path) -> None:
    """This process compiles nothing; no marks are left."""
    compiled_here, kept = run(COMPILE, tmp_path, SKYBAND_COMPILE_AHEAD="1")
    assert compiled_here
    assert kept == ([".nbi"] if ahead._cores() > 1 else [])


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    assert run(COMPILE, tmp_path, SKYBAND_COMPILE_AHEAD="0") == [True, []]


def test_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kernel.nbi"
    ahead.begun(path)
    assert not list(tmp_path.iterdir()), "nobody to tell"
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(ahead._this, "helper", other)
    try:
        ahead.begun(path)
        assert ahead._mark(path, os.getpid()).exists()
        assert not ahead.awaited(path), "the other one is not at work on it"
        ahead.ended(path)
        assert not list(tmp_path.iterdir())
        ahead._mark(path, other.pid).touch()
    finally:
        other.kill()
        other.wait()
    assert not ahead.awaited(path), "it ended without finishing"
