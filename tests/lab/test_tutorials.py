"""Tutorials: every cell runs, and the pages show what it gives."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("typer")
pytest.importorskip("starlette")

from lab.site.tutorials import (
    FOLDER,
    NOTEBOOKS,
    ORDER,
    PAGES,
    Cell,
    Ran,
    cells_of,
    index_page,
    notebook_of,
    page_of,
    run,
)

HERE = [name for name in ORDER if name != "spark"]  # tests/spark runs that one


def written(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", HERE)
def test_a_tutorial_runs_and_its_page_is_current(name: str) -> None:
    done = run(FOLDER / f"{name}.py")
    text, pictures = page_of(name, done)
    assert pictures
    for file in pictures:
        assert (PAGES / file).is_file()
    assert text == written(name), f"make it again: python -m lab.site.tutorials {name}"
    if name in NOTEBOOKS:
        kept = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
        assert without_pictures(kept) == without_pictures(notebook_of(name, done))


def without_pictures(notebook: dict[str, Any]) -> dict[str, Any]:
    """A notebook whose pictures, which differ between versions of matplotlib, are only counted."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", ()):
                assert len(output["data"]["image/png"]) > 10_000
                output["data"]["image/png"] = "a picture"
    return notebook


def test_a_script_saves_its_pictures_and_says_where(tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "flows.py")]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    saved = sorted(path.name for path in tmp_path.glob("*.png"))
    assert saved == ["flows-1.png", "flows-2.png", "flows-3.png"]
    assert ended.stdout.splitlines()[-3:] == [f"saved {name}" for name in saved]


def test_every_tutorial_is_listed() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(ORDER)
    assert (PAGES / "index.md").read_text(encoding="utf-8") == index_page()
    for name in ORDER:
        assert f"]({name}.md)" in index_page()
        assert (PAGES / f"{name}-1.png").is_file()


def test_the_page_of_the_tutorial_on_spark_has_its_cells() -> None:
    page = written("spark")
    for cell in cells_of(FOLDER / "spark.py")[:-1]:  # the last one is for scripts
        assert (cell.text if cell.markdown else f"```py\n{cell.text}\n```") in page
    assert "the same on both engines: True" in page


def test_pictures_that_no_page_shows_are_gone() -> None:
    shown = {
        name
        for path in PAGES.glob("*.md")
        for name in re.findall(r"\w+-\d+\.png", path.read_text())
    }
    assert {path.name for path in PAGES.glob("*.png")} == shown


def test_cells_are_text_or_code(tmp_path: Path) -> None:
    path = tmp_path / "small.py"
    path.write_text(
        "# %% [markdown]\n# # Title\n#\n# Text.\n\n# %% first\nx = given + 1\nprint('said')\nx\n\n"
        "# %%\nx * 2\n"
    )
    text, first, second = cells_of(path)
    assert text == Cell(True, "# Title\n\nText.")
    assert (first.title, second.title) == ("first", "")
    done = run(path, {"given": 4})
    assert [each.output for each in done if isinstance(each, Ran)] == ["said\n5", "10"]
    left = run(path, {"x": 1}, skip=["first"])
    assert [each.output for each in left if isinstance(each, Ran)] == ["", "2"]
    page, pictures = page_of("small", done)
    assert "```py\nx * 2\n```\n\n```text\n10\n```" in page
    assert not pictures


def test_figures_that_were_open_before_are_not_shown(tmp_path: Path) -> None:
    from matplotlib import pyplot as plt

    path = tmp_path / "drawn.py"
    path.write_text("# %%\nimport matplotlib.pyplot as plt\n\nfigure = plt.figure()\n")
    plt.figure()
    _, pictures = page_of("drawn", run(path))
    assert list(pictures) == ["drawn-1.png"]


def test_a_cell_that_fails_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text("# %%\n1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        run(path)
