"""Answers as people see them: text in a terminal, HTML in a notebook, live in both."""

from __future__ import annotations

import re
import subprocess
import sys
import traceback
import types
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb

WINDOW = sb.TimeWindow(4, slide=2)
ROWS = pa.table(
    {
        "ts": [0, 1, 2, 3, 4, 5],
        "id": ["a", "<script>&", "c", "d", "e", "f"],
        "x": [5, 900_000, 20, 60, 70, 10],
    }
)
QUERY = sb.TopK(k=2, score="x", id="id", time="ts", window=WINDOW)


def answers(query: Any = QUERY) -> list[sb.Answer]:
    return list(sb.watch(ROWS, query))


def test_repr_is_a_table() -> None:
    assert repr(answers()[1]).splitlines() == [
        "<Answer [0, 4): 2 rows, total 4>",
        "rank  id               x  ts",
        "   1  <script>&  900,000   1",
        "   2  d               60   3",
    ]
    assert repr(answers({"best": QUERY})[0]).startswith("<Answer best [-2, 2): 2 rows, total 2>\n")


def test_repr_tells_what_is_approximate_and_how_much_is_left_out() -> None:
    many = pa.table({"ts": [0] * 30, "id": [str(i) for i in range(30)]})
    query = sb.HeavyHitters(k=25, item="id", time="ts", window=WINDOW, algorithm="fss", capacity=25)
    text = repr(next(iter(sb.watch(many, query))))
    assert "approximate" in text.splitlines()[0]
    assert text.splitlines()[-1] == "… 5 more"


def test_an_empty_answer_and_a_decayed_one_can_be_shown() -> None:
    gap = pa.table({"ts": [0, 100], "id": ["a", "b"], "x": [1, 2]})
    empty = [a for a in sb.watch(gap, QUERY) if not a.table.num_rows]
    assert "0 rows, total 0" in repr(empty[0])
    assert "<tbody></tbody>" in empty[0]._repr_html_()
    decay = sb.TopK(k=2, score="x", id="id", time="ts", window=sb.DecayWindow(4, slide=2))
    assert repr(answers(decay)[0]).startswith("<Answer […, 2)")


def test_html_is_a_table_and_escapes_everything() -> None:
    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.tags: list[str] = []
            self.texts: list[str] = []

        def handle_starttag(self, tag: str, attrs: Any) -> None:
            self.tags.append(tag)

        def handle_data(self, data: str) -> None:
            self.texts.append(data)

    found = Tags()
    found.feed(answers()[1]._repr_html_())
    assert set(found.tags) == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert found.tags.count("td") == 8
    assert "<script>&" in found.texts
    assert "linear-gradient" in answers()[1]._repr_html_()
    sky = sb.Skyline(prefer={"x": "max"}, id="id", time="ts", window=WINDOW)
    assert "linear-gradient" not in answers(sky)[0]._repr_html_()


def test_live_prints_the_last_answer(capsys: pytest.CaptureFixture[str]) -> None:
    last = sb.live(ROWS, QUERY)
    assert isinstance(last, sb.Answer)
    assert last.end == 6
    assert capsys.readouterr().out == f"{last!r}\n"
    board = sb.live(ROWS, {"one": QUERY, "two": QUERY})
    assert isinstance(board, dict)
    assert list(board) == ["one", "two"]


def test_live_draws_over_itself_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("skyband.embedded.live_view._PAUSE", 0.0)
    sb.live(ROWS, QUERY)
    assert capsys.readouterr().out.count("\x1b[4A\x1b[J") == 3  # the last one is drawn again


def test_live_updates_one_output_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, content: str) -> None:
            shown.append(content)

    def display(content: str, display_id: bool) -> Handle:
        assert display_id
        shown.append(content)
        return Handle()

    shell, output = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    shell.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    output.HTML = str  # type: ignore[attr-defined]
    output.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", output)
    last = sb.live(ROWS, QUERY)
    assert isinstance(last, sb.Answer)
    assert len(shown) >= 2
    assert shown[-1] == last._repr_html_()


def test_show_gives_the_last_windows() -> None:
    table = sb.rank(ROWS, QUERY)
    assert repr(sb.show(table, last=2)).splitlines() == [
        "6 rows, 3 windows; the last 2:",
        "[0, 4)",
        *repr(answers()[1]).splitlines()[1:],
        "[2, 6)",
        *repr(answers()[2]).splitlines()[1:],
    ]
    assert repr(sb.show(answers())) == repr(sb.show(table))
    assert repr(sb.show(table)).startswith("6 rows, 3 windows\n[-2, 2)\n")
    assert repr(sb.show(answers()[0])).startswith("2 rows, 1 window\n")
    assert repr(sb.show(table.slice(0, 0))) == "0 rows, 0 windows"
    with pytest.raises(sb.SchemaError, match="lacks 'window_end'"):
        sb.show(ROWS)


def test_show_of_a_board_and_in_a_notebook() -> None:
    board = {"best": QUERY, "<b>": sb.HeavyHitters(k=1, item="id", time="ts", window=WINDOW)}
    tables = sb.rank(ROWS, board)
    assert [line for line in repr(sb.show(tables)).splitlines() if "rows" in line] == [
        "best: 6 rows, 3 windows",
        "<b>: 3 rows, 3 windows",
    ]
    html = sb.show(tables, last=1)._repr_html_()
    assert html.count("<table") == 2
    assert html.count(">[2, 6)</th>") == 2
    assert "<b>&lt;b&gt;</b> 3 rows, 3 windows" in html
    assert html.count("linear-gradient") == 3  # of two scores and one count
    rows = pa.table({"ts": [0, 1, 2, 3], "id": [7, 9, 8, 6], "x": [5, 4, 3, 2], "g": list("aabb")})
    query = sb.TopK(k=2, score="x", id="id", time="ts", by="g", window=sb.TimeWindow(4))
    html = sb.show(sb.rank(rows, query))._repr_html_()
    assert ["linear" in cell for cell in re.findall("<td[^<]*>[4567]</td>", html)] == [
        False,
        True,
        True,
        False,
    ]
    assert "linear-gradient" not in sb.show(sb.rank(rows, query).slice(0, 0))._repr_html_()


def test_bars_can_be_read_in_the_dark() -> None:
    """What stands on a bar has the colour of the page, so a bar must let the page through."""
    (alpha,) = set(re.findall(r"rgba\(\d+,\d+,\d+,(\.\d+)\)", answers()[1]._repr_html_()))
    assert 0.1 < float(alpha) < 0.4


def test_an_explanation_shows_its_lines() -> None:
    assert repr(sb.explain(QUERY)).splitlines()[0].startswith("TopK by ")
    assert isinstance(sb.explain({"one": QUERY}), str)


def mistaken(query: sb.TopK) -> None:
    sb.rank(ROWS.rename_columns(["ts", "id", "y"]), query)


def test_tracebacks_in_a_notebook_have_the_lines_of_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rendered(kind: type, value: Exception, steps: Any) -> list[str]:
        return traceback.format_exception(kind, value, steps)

    console = types.SimpleNamespace(structured_traceback=rendered)
    shell = types.ModuleType("IPython")
    shell.get_ipython = lambda: types.SimpleNamespace(InteractiveTB=console)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", shell)
    with pytest.raises(sb.SchemaError) as found:
        mistaken(QUERY)
    text = "".join(found.value._render_traceback_())
    assert "in mistaken" in text
    assert text.count('File "') == 2
    assert "skyband/" not in text
    error = sb.DataError("above")
    error.__cause__ = ValueError("below")
    assert "below" not in "".join(error._render_traceback_())
    assert isinstance(error.__cause__, ValueError)


CELLS = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance(colors="nocolor", ast_node_interactivity="all")
for cell in (
    "import pyarrow as pa, skyband as sb",
    "rows = pa.table({'ts': [1, 2, 3], 'bytes': [1, 2, 3]})",
    "asked = {'k': 1, 'time': 'ts', 'window': sb.TimeWindow(10)}",
    "sb.rank(rows, sb.TopK(score='byte', **asked))",
    "sb.show(sb.rank(rows, sb.TopK(score='bytes', **asked)))",
    "sb.explain(sb.TopK(score='bytes', **asked))",
):
    shell.run_cell(cell)
"""


def test_ipython_shows_answers_and_short_tracebacks() -> None:
    pytest.importorskip("IPython")
    command = [sys.executable, "-c", CELLS]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    lines = ended.stdout.splitlines()
    error = lines.index("SchemaError: column 'byte' is missing; the columns are: ts, bytes. "
                        "Did you mean 'bytes'?")  # fmt: skip
    assert error < 8
    assert "skyband/" not in ended.stdout
    assert "1 row, 1 window" in lines[error:]
    assert "TopK by skyband, exact, time ts, k 1, score bytes" in lines[error:]
