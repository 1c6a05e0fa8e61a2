"""The bar of long ``rank``s: where it is shown, and what it says."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.embedded import progress

QUERY = sb.TopK(k=1, score="x", window=sb.CountWindow(10))
ROWS = pa.table({"x": range(100)})
Stream = Callable[[], str]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_WAIT", 0.0)


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the error stream for a terminal; to be called within a test, which replaces it."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)


def batches() -> Any:
    return iter(ROWS.to_batches(max_chunksize=30))


@pytest.mark.usefixtures("at_once")
class TestWhere:
    def test_scripts_show_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        sb.rank(ROWS, QUERY)
        sb.rank(ROWS, QUERY, progress=False)
        assert capsys.readouterr().err == ""

    def test_scripts_on_a_terminal_show_nothing(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        on_terminal(monkeypatch)
        sb.rank(ROWS, QUERY)
        assert capsys.readouterr().err == ""

    def test_prompts_draw_a_bar_and_remove_it(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        on_terminal(monkeypatch)
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
        sb.rank(ROWS, QUERY)
        shown = capsys.readouterr().err
        assert "█" * 24 + " 100%  100 rows, 10 windows, " in shown
        assert shown.endswith("\r\x1b[K")
        sb.rank(ROWS, QUERY, progress=False)
        assert capsys.readouterr().err == ""

    def test_a_log_gets_lines_if_it_is_wanted(self, capsys: pytest.CaptureFixture[str]) -> None:
        sb.rank(batches(), QUERY, progress=True)
        first, last = capsys.readouterr().err.splitlines()
        assert first.startswith("30 rows, 3 windows, ")
        assert last.startswith("100 rows, 10 windows, ")

    def test_notebooks_update_one_output(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shown: list[Any] = []
        handle = types.SimpleNamespace(update=lambda content, raw: shown.append(content))

        def display(content: Any, raw: bool, display_id: bool) -> Any:
            shown.append(content)
            return handle

        shell, output = types.ModuleType("IPython"), types.ModuleType("IPython.display")
        shell.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
        output.display = display  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", shell)
        monkeypatch.setitem(sys.modules, "IPython.display", output)
        sb.rank(ROWS, {"one": QUERY, "two": QUERY})
        assert "100%  100 rows, 20 windows" in shown[0]["text/plain"]
        assert shown[-1]["text/plain"].startswith("100 rows, 20 windows")


def test_short_ones_show_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    sb.rank(ROWS, QUERY, progress=True)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("at_once")
def test_an_error_removes_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = [*ROWS.to_batches(max_chunksize=50), pa.table({"y": [1]})]
    with pytest.raises(sb.SchemaError):
        sb.rank(wrong, QUERY, progress=True)
    assert capsys.readouterr().err.splitlines()[-1].startswith("100 rows")


def test_rows_of_sources(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "a.parquet")
    assert progress.rows_of(tmp_path) == 100
    assert progress.rows_of({"one": ROWS, "two": str(tmp_path / "*.parquet")}) == 200
    assert progress.rows_of(batches()) is None
    pyarrow.csv.write_csv(ROWS, tmp_path / "b.csv")
    assert progress.rows_of(tmp_path) is None
    assert progress.rows_of(tmp_path / "nothing") is None
