"""``--plot FILE.png`` on every verb."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")


from skyband import plot
from skyband.cli import stdin
from skyband.cli.app import app
from skyband.plot import files
from support.command_line import TIMED, bad, run, table

WINDOW = ("--time", "seq", "--window", 5, "--slide", 1)
VERBS = {
    "topk": ("-k", 2, "--score", "bytes", "--id", "flow"),
    "heavy-hitters": ("-k", 2, "--item", "service"),
    "uncertain": ("-k", 2, "--score", "bytes", "--id", "flow", "--probability", "p"),
    "fused": (
        "-k", 2, "--id", "flow", "--stream", "service", "--value", "p", "--streams", "web,dns",
    ),
    "skyline": ("--prefer", "bytes=max,seq=min", "--id", "flow"),
    "skyline-join": (
        "--left", "trades", "--right", "risks", "--on", "service",
        "--prefer", "bytes=max,p=min",
    ),
}  # fmt: skip


@pytest.fixture
def flows(tmp_path: Path) -> Path:
    path = tmp_path / "flows.parquet"
    rows = table()
    pq.write_table(rows.append_column("p", pa.array([0.5] * rows.num_rows)), path)
    return path


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The axes of every picture that is written."""
    found = []
    for kind, draw in dict(files.KINDS).items():

        def noted(*given: Any, draw: Any = draw, kind: str = kind, **named: Any) -> Any:
            ax = draw(*given, **named)
            found.append((kind, ax))
            return ax

        monkeypatch.setitem(files.KINDS, kind, noted)
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_draws(verb: str, flows: Path, tmp_path: Path, drawn: list[Any]) -> None:
    sources: tuple[object, ...] = (flows,)
    if verb == "skyline-join":
        left, right = tmp_path / "trades.parquet", tmp_path / "risks.parquet"
        rows = pq.read_table(flows)
        pq.write_table(rows.select(["seq", "service", "bytes"]), left)
        pq.write_table(rows.select(["seq", "service", "p"]), right)
        sources = (f"trades={left}", f"risks={right}")
    out = tmp_path / "picture.png"
    done = run(verb, *sources, *VERBS[verb], *WINDOW, "--plot", out)
    assert done.exit_code == 0, done.output
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "picture written to" in done.stderr
    ((kind, ax),) = drawn
    assert kind == ("skyline" if verb.startswith("skyline") else "bump")
    assert ax.collections or ax.get_lines()
    assert ax.get_title("left").startswith(verb)


def test_there_is_no_other_verb_of_a_query() -> None:
    marked = {
        command.name
        for command in app.registered_commands
        if "plot_as" in getattr(command.callback, "__annotations__", {})
    }
    assert marked == set(VERBS)


@pytest.mark.parametrize("more", [("--watch", "-f", "json"), ("--changes",), ("--limit", 3)])
def test_pictures_stand_beside_other_output(
    more: tuple[object, ...], flows: Path, tmp_path: Path, drawn: list[Any]
) -> None:
    out = tmp_path / "picture.svg"
    done = run("topk", flows, *TIMED, *more, "--plot", out, "--plot-as", "timeline")
    assert done.exit_code == 0, done.output
    assert done.stdout
    ((kind, ax),) = drawn
    assert kind == "timeline"
    names = {tick.get_text() for tick in ax.get_yticklabels()}
    assert names <= set(table()["flow"].to_pylist())
    assert names


def test_standard_input_is_drawn_too(
    tmp_path: Path, drawn: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "seq,flow,bytes\n" + "".join(f"{n},f{n % 3},{n}\n" for n in range(9))
    read = stdin.stdin_batches
    monkeypatch.setattr(stdin, "stdin_batches", lambda _, how: read(io.BytesIO(text.encode()), how))
    words = ("-k", 2, "--score", "bytes", "--id", "flow", *WINDOW, "-f", "csv")
    done = run("topk", "-", *words, "--plot", tmp_path / "picture.png")
    assert done.exit_code == 0, done.output
    ((_, ax),) = drawn
    assert {line.get_label() for line in ax.get_lines()} == {"f0", "f1", "f2"}


def test_mistakes_are_told_before_any_row_is_read(flows: Path, tmp_path: Path) -> None:
    assert "is not a picture" in bad("topk", flows, *TIMED, "--plot", tmp_path / "x.txt")
    assert "there is no folder" in bad("topk", flows, *TIMED, "--plot", tmp_path / "no" / "x.png")
    picture = tmp_path / "x.png"
    assert "choose one of bump" in bad("topk", flows, *TIMED, "--plot", picture, "--plot-as", "pie")
    assert "give --plot FILE.png" in bad("topk", flows, *TIMED, "--plot-as", "bars")
    sky = ("skyline", flows, *VERBS["skyline"], *WINDOW)
    assert "has no ranks" in bad(*sky, "--plot", picture, "--plot-as", "bump")
    assert "leave it out with --serve" in bad("topk", flows, *TIMED, "--plot", picture, "--serve")
    assert not picture.exists()
    assert set(plot.KINDS) == {"bump", "bars", "totals", "skyline", "timeline"}
