"""Why a first answer takes long: it is said once, and only if something is compiled."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skyband.kernels import notice
from skyband.kernels.jit import for_python
from support.unwritten import VISIBLE


def _total(values: Any) -> int:
    total = 0
    for i in range(len(values)):
        total += values[i]
    return total


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where kernels are kept; nothing was said of compiling yet."""
    if VISIBLE:
        pytest.skip("nothing is compiled")
    monkeypatch.setattr(notice, "_waits", notice._Waits())
    return tmp_path


def said(monkeypatch: pytest.MonkeyPatch, folder: Path, terminal: bool) -> str:
    """What is said on the error stream when the kernel is called the first time."""
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr("sys.stderr", screen)
    kernel: Any = for_python(_total)
    kernel.keep_in(folder)
    assert kernel(np.arange(3)) == 3
    return screen.getvalue()


@pytest.fixture
def no_log() -> Iterator[None]:
    """A logger that is off, as it is until a program sets up its logs."""
    log = logging.getLogger("skyband")
    level, log.level = log.level, logging.WARNING
    yield
    log.level = level


def test_compiling_is_said_once_on_a_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, no_log: None
) -> None:
    (line,) = said(monkeypatch, folder / "1", terminal=True).splitlines()
    assert line.startswith("skyband: compiling what this query needs")
    assert "skyband warm" in line
    assert said(monkeypatch, folder / "2", terminal=True) == ""


def test_compiling_is_said_in_a_notebook_and_in_no_pipe(
    folder: Path, monkeypatch: pytest.MonkeyPatch, no_log: None
) -> None:
    assert said(monkeypatch, folder / "1", terminal=False) == ""
    monkeypatch.setattr(notice, "_waits", notice._Waits())
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel="a kernel"))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    assert "skyband: compiling" in said(monkeypatch, folder / "2", terminal=False)


def test_compiling_is_said_in_what_a_job_writes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, no_log: None
) -> None:
    notice.say_in_any_case()
    assert "skyband: compiling" in said(monkeypatch, folder, terminal=False)


def test_compiling_is_logged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "skyband"):
        assert said(monkeypatch, folder, terminal=True) == ""  # the log says it
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("skyband", "INFO")
    assert record.message.startswith("compiling what this query needs")


def test_nothing_is_said_of_kernels_that_are_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, no_log: None
) -> None:
    assert said(monkeypatch, folder, terminal=True)
    monkeypatch.setattr(notice, "_waits", notice._Waits())
    assert said(monkeypatch, folder, terminal=True) == ""


def test_the_clock_stands_while_kernels_are_compiled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(notice, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    began = notice.clock()
    now[0] += 1
    with notice.waiting():
        now[0] += 20
        with notice.waiting():
            now[0] += 20
        assert notice.clock() - began == 1
    now[0] += 2
    assert notice.clock() - began == 3
