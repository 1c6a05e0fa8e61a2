"""The benchmark harness: sections that are replaced in place, ratios, what a run writes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import skyband
from lab.bench import best_of, compared, markdown, plot, report, write_section
from lab.bench.modules import load, modules
from lab.bench.report import columns_of, tables
from skyband.cli.app import app, checkout
from skyband.errors import EngineError

ROWS: list[dict[str, Any]] = [
    {"group": "A", "case": "one", "rows": 1_000, "skyband M rows/s": 12.5, "× duckdb": 3.0},
    {"group": "A", "case": "two", "rows": 1_000, "skyband M rows/s": 250.0, "× numpy": 0.5},
    {"group": "B", "case": "import", "measured": 0.25, "target": "< 0.6"},
]


def test_best_of_runs_in_turns() -> None:
    order: list[str] = []
    seconds = best_of({name: lambda n=name: order.append(n) for name in "ab"}, repeat=2)  # type: ignore[misc]
    assert order == ["a", "b", "a", "b"]
    assert all(value >= 0 for value in seconds.values())


def test_ratios_are_of_rates_not_of_seconds() -> None:
    clock = {"skyband": 1_000, "slow": 10}
    row = compared({"k": 3}, clock, {"skyband": lambda: sum(range(10)), "slow": lambda: None})
    assert row["× slow"] == pytest.approx(row["skyband M rows/s"] / row["slow M rows/s"])
    assert row["rows"] == 1_000
    assert row["k"] == 3


def test_tables_by_group_with_ratios_last() -> None:
    (first, rows), (second, _) = tables(ROWS)
    assert (first, second) == ("A", "B")
    assert columns_of(rows) == ["case", "rows", "skyband M rows/s", "× duckdb", "× numpy"]


def test_markdown() -> None:
    text = markdown(ROWS)
    assert "### A" in text
    assert "| one | 1,000 | 12.5 | 3 |  |" in text
    assert "|---|---:|---:|---:|---:|" in text


def test_a_section_replaces_itself_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "docs" / "benchmarks" / "tables.md"
    write_section(path, "topk", "old text")
    write_section(path, "skyline", "other text")
    write_section(path, "topk", "new text")
    text = path.read_text()
    assert "old text" not in text
    assert text.index("new text") < text.index("other text")
    assert text.count("bench:topk") == 2
    before = text
    write_section(path, "topk", "new text")
    assert path.read_text() == before


def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert plot(ROWS, tmp_path / "plot.png", "topk")
    assert (tmp_path / "plot.png").stat().st_size > 1_000
    assert not plot(ROWS[2:], tmp_path / "none.png", "topk")


def test_benchmarks_are_found_in_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    root = checkout()
    monkeypatch.chdir(root / "src")
    assert "topk" in modules("benchmarks", "run")
    assert "fsw" in modules("experiments", "reproduce")
    with pytest.raises(EngineError, match="no benchmark 'nothing'; choose one of: approximate"):
        load("benchmarks", "run", "nothing")


def test_outside_a_checkout_it_says_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(skyband, "__file__", str(tmp_path / "lib" / "skyband" / "__init__.py"))
    for verb in (["bench"], ["reproduce", "fsw"]):
        result = CliRunner().invoke(app, verb)
        assert result.exit_code == 2
        assert "part of Skyband's repository" in result.stderr


@pytest.fixture
def small_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout for a benchmark and an experiment, as the current folder."""
    (tmp_path / "src" / "skyband").mkdir(parents=True)
    for folder in ("benchmarks", "experiments"):
        (tmp_path / "lab" / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # undoes what the command adds to the path
    return tmp_path


def test_bench_writes_what_it_shows(small_checkout: Path) -> None:
    source = f"def run(scale, progress):\n    progress('at work', scale)\n    return {ROWS!r}\n"
    folder = small_checkout / "lab" / "benchmarks"
    (folder / "tiny.py").write_text(source)
    (folder / "wants.py").write_text("import a_library_nobody_has\ndef run(): ...\n")
    result = CliRunner().invoke(app, ["bench", "tiny", "--scale", "0.5"])
    assert result.exit_code == 0, result.output
    assert "tiny: at work 0.5" in result.stderr
    assert "12.5" in result.stdout
    text = (small_checkout / "docs" / "benchmarks" / "tables.md").read_text()
    assert "`skyband bench tiny --scale 0.5`" in text
    assert "| one | 1,000 | 12.5 | 3 |  |" in text

    result = CliRunner().invoke(app, ["bench", "wants"])
    assert result.exit_code == 2
    assert "a_library_nobody_has" in result.stderr
    assert "Traceback" not in result.stderr


def test_reproduce(small_checkout: Path) -> None:
    folder = small_checkout / "lab" / "experiments"
    (folder / "report.py").write_text("def table(rows): ...\n")
    (folder / "tiny.py").write_text(
        "SCALE = 0.25\n"
        "def estimate(scale):\n"
        "    return 7200 * scale\n"
        "def reproduce(scale, out, progress):\n"
        "    progress('drawing')\n"
        "    (out / 'tiny.md').write_text(f'scale {scale}')\n"
    )
    out = small_checkout / "made"
    result = CliRunner().invoke(app, ["reproduce", "tiny", "--scale", "0.5", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert (out / "tiny.md").read_text() == "scale 0.5"
    assert "tiny: drawing" in result.stderr
    assert not (out / "README.md").exists()  # there are no verdicts

    for extra, scale, time in ((["--full"], "1.0", "2.0 hours"), ([], "0.25", "30 minutes")):
        result = CliRunner().invoke(app, ["reproduce", "tiny", *extra, "--out", str(out)])
        assert result.exit_code == 0, result.output
        assert f"tiny: about {time} of processor time" in result.stderr
        assert (out / "tiny.md").read_text() == f"scale {scale}"

    (out / "verdicts").mkdir()
    CliRunner().invoke(app, ["reproduce", "tiny", "--out", str(out)])
    assert "## How a claim is judged" in (out / "README.md").read_text()

    # Quick: each at its own scale; without a name all run, and the time of all is said first.
    tiny = (folder / "tiny.py").read_text()
    (folder / "other.py").write_text(tiny.replace("tiny.md", "other.md") + "QUICK = 0.1\n")
    result = CliRunner().invoke(app, ["reproduce", "--quick", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "all: about 2.2 hours of processor time" in result.stderr
    assert (out / "tiny.md").read_text() == "scale 1.0"
    assert (out / "other.md").read_text() == "scale 0.1"
    result = CliRunner().invoke(app, ["reproduce", "tiny", "--quick", "--full"])
    assert result.exit_code == 2
    assert "give one of --scale, --quick and --full" in result.stderr

    result = CliRunner().invoke(app, ["reproduce", "nothing"])
    assert result.exit_code == 2
    assert "no experiment 'nothing'; choose one of: other, tiny" in result.stderr


@pytest.mark.slow
def test_the_topk_benchmark_runs_small() -> None:
    pytest.importorskip("duckdb")
    said: list[str] = []
    rows = load("benchmarks", "run", "topk").run(0.001, said.append)
    assert said
    assert {"uniform", "sine", "falling", "crowded"} <= {row.get("scores") for row in rows}
    assert all(row["skyband M rows/s"] > 0 for row in rows if "rows" in row)


@pytest.mark.slow
def test_the_benchmark_of_boards_runs_small() -> None:
    rows = load("benchmarks", "run", "boards").run(0.001, lambda *_: None)
    assert len(rows) == 5
    assert all(row["board s"] > 0 and row["dearest alone s"] > 0 for row in rows)


@pytest.mark.parametrize(
    ("idle", "passed", "told"), [(90, 100, None), (10, 100, "90%"), (0, 0, None)]
)
def test_other_work_is_told(
    idle: int, passed: int, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = iter([(1_000, 5_000), (1_000 + idle, 5_000 + passed)])
    monkeypatch.setattr(report, "_ticks", lambda: next(readings))
    warning = report.busy(seconds=0)
    assert warning is None if told is None else told in str(warning)


@pytest.mark.slow
def test_the_benchmark_of_nexmark_runs_small(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    module = load("benchmarks", "run", "nexmark")
    monkeypatch.setattr(module, "broker", lambda folder: contextlib.nullcontext(1 / 0))
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    beside, *suite, last = module.run(0.002, lambda *_: None)[1:]
    assert beside["case"] == "query 7, highest bid"
    assert len(suite) == 10
    assert all(row["without generator"] > row["with generator"] > 0 for row in suite)
    assert last["case"] == "no Kafka: division by zero"
