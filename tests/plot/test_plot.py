"""Pictures by their content: which lines, bars, points and labels they have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb

pytest.importorskip("matplotlib")

from matplotlib import pyplot as plt
from matplotlib.collections import PathCollection, PolyCollection

from skyband import plot
from skyband.plot.style import look

FLOWS = pa.table(
    {
        "ts": [0, 1, 2, 3, 4, 5, 6, 7],
        "host": ["a", "b", "c", "a", "b", "b", "c", "c"],
        "service": ["web", "dns"] * 4,
        "bytes": [9, 5, 1, 2, 8, 8, 20, 3],
    }
)
WINDOW = sb.TimeWindow(4, slide=2)
TALKERS = sb.HeavyHitters(k=2, item="host", weight="bytes", time="ts", window=WINDOW)
LARGEST = sb.TopK(k=2, score="bytes", id="host", time="ts", window=WINDOW)
BEST = sb.Skyline(prefer={"ts": "min", "bytes": "max"}, id="host", time="ts", window=WINDOW)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    plt.switch_backend("Agg")
    yield
    plt.close("all")


def texts(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


def points(places: Any) -> list[tuple[float, ...]]:
    return [tuple(map(float, place)) for place in places]


def lines(ax: Any) -> dict[str, list[float]]:
    return {line.get_label(): [float(y) for y in line.get_ydata()] for line in ax.get_lines()}


def both(query: sb.Query) -> list[Any]:
    """The same answers as a table, and as answers."""
    return [sb.rank(FLOWS, query), list(sb.watch(FLOWS, query))]


def test_bump_has_a_line_per_item_at_its_ranks() -> None:
    # ends          2          4          6          8
    # sums          a 9, b 5   a 11, b 5  b 16, a 2  c 23, b 16
    for answers in both(TALKERS):
        found = lines(plot.bump(answers))
        assert found.keys() == {"a", "b", "c"}
        assert found["b"] == [2, 2, 1, 2]
        assert found["a"][:3] == [1, 1, 2]
        assert math.isnan(found["a"][3])
        assert [math.isnan(y) for y in found["c"]] == [True, True, True, False]


def test_bump_labels_the_ends_and_who_was_first() -> None:
    ax: Any = plot.bump(sb.rank(FLOWS, TALKERS))
    places = {text.get_text(): text.xy for text in ax.texts}
    assert places["c"] == (8, 1)
    assert places["b"] == (8, 2)
    assert places["a"][0] in (2, 4)  # it was first twice and has left since
    assert ax.yaxis_inverted()
    assert ax.get_ylabel() == "rank"


def test_bump_limits_ranks_and_windows() -> None:
    table = sb.rank(FLOWS, TALKERS)
    assert lines(plot.bump(table, top=1)).keys() == {"a", "b", "c"}
    assert lines(plot.bump(table, last=2))["b"] == [1, 2]
    assert lines(plot.bump(list(sb.watch(FLOWS, TALKERS)), last=1)) == {"c": [1], "b": [2]}
    with pytest.raises(sb.QueryError, match="last must be 1 or more"):
        plot.bump(table, last=0)


def test_bump_draws_groups_below_one_another() -> None:
    by = sb.HeavyHitters(
        k=2, item="host", weight="bytes", time="ts", window=WINDOW, by=("service",)
    )
    for answers in both(by):
        ax = plot.bump(answers)
        assert {"dns", "web"} <= set(texts(ax))
        found = lines(ax)
        assert "dns · b" in found
        assert "web · c" in found
        ranks = {label: {y for y in ys if not math.isnan(y)} for label, ys in found.items()}
        dns = set().union(*(ranks[label] for label in found if label.startswith("dns")))
        web = set().union(*(ranks[label] for label in found if label.startswith("web")))
        assert max(dns) < min(web)
        ticks = [tick.get_text() for tick in ax.get_yticklabels()]
        assert ticks == ["1", "2", "1", "2"]


def test_an_item_that_an_answer_shows_twice_is_numbered() -> None:
    everything = sb.TopK(k=3, score="bytes", id="host", time="ts", window=sb.TimeWindow(8))
    found = lines(plot.bump(sb.rank(FLOWS, everything)))
    assert found == {"c": [1], "a": [2], "b": [3]}
    later = sb.TopK(k=3, score="bytes", id="host", time="ts", window=sb.TimeWindow(4))
    assert "b (2)" in lines(plot.bump(sb.rank(FLOWS, later)))


def test_a_window_without_rows_breaks_the_line() -> None:
    gap = pa.table({"ts": [0, 2, 4, 14], "host": ["a"] * 4, "bytes": [1, 1, 1, 1]})
    query = sb.HeavyHitters(k=1, item="host", time="ts", window=sb.TimeWindow(2))
    line = lines(plot.bump(sb.rank(gap, query)))["a"]
    assert [math.isnan(y) for y in line] == [False, False, False, True, False]


def test_bars_show_one_window_with_values() -> None:
    for answers in both(LARGEST):
        ax: Any = plot.bars(answers)
        assert [tick.get_text() for tick in ax.get_yticklabels()] == ["c", "b"]
        assert [bar.get_width() for bar in ax.patches] == [20, 8]
        assert texts(ax) == ["20 B", "8 B"]
        assert ax.get_title("right") == "window 4 to 8"
        assert ax.yaxis_inverted()  # the best on top
    first = plot.bars(sb.rank(FLOWS, LARGEST), end=2)
    assert [tick.get_text() for tick in first.get_yticklabels()] == ["a", "b"]
    with pytest.raises(sb.QueryError, match="no window with the end 99"):
        plot.bars(sb.rank(FLOWS, LARGEST), end=99)


def test_bars_show_the_error_of_a_count() -> None:
    many = pa.table({"ts": list(range(60)), "host": [f"h{n * n % 17}" for n in range(60)]})
    sketch = sb.HeavyHitters(
        k=3, item="host", time="ts", window=sb.TimeWindow(60), algorithm="ss", capacity=4
    )
    table = sb.rank(many, sketch)
    assert any(table["error"].to_pylist())
    ax: Any = plot.bars(table)
    widths = [bar.get_width() for bar in ax.patches]
    assert widths[3:] == table["error"].to_pylist()
    whole = [sure + error for sure, error in zip(widths[:3], widths[3:], strict=True)]
    assert whole == table["count"].to_pylist()


def test_totals_stack_the_items_and_what_is_not_shown() -> None:
    def layers(ax: Any) -> list[str]:
        return [str(c.get_label()) for c in ax.collections if isinstance(c, PolyCollection)]

    table, answers = both(TALKERS)
    assert layers(plot.totals(table)) == ["b", "c", "a"]
    ax = plot.totals(answers)
    assert layers(ax) == ["b", "c", "a", "not shown"]
    with_totals = sb.rank(FLOWS, TALKERS, total=True)
    assert layers(plot.totals(with_totals)) == ["b", "c", "a", "not shown"]
    assert {"b", "c"} <= set(texts(ax))
    assert layers(plot.totals(table, top=1)) == ["b", "others shown"]


def test_totals_of_a_skyline_count_its_rows() -> None:
    for answers in both(BEST):
        ax = plot.totals(answers)
        assert lines(ax) == {"rows in the skyline": [1, 1, 3, 2]}
        assert "2 rows" in texts(ax)


def test_skyline_has_points_steps_and_directions() -> None:
    answers = list(sb.watch(FLOWS, BEST))
    ax = plot.skyline(answers, rows=FLOWS)
    dots = {c.get_label(): c for c in ax.collections if isinstance(c, PathCollection)}
    assert dots.keys() == {"all rows", "windows before", "in the skyline"}
    assert points(dots["in the skyline"].get_offsets()) == [(4, 8), (6, 20)]
    assert len(points(dots["all rows"].get_offsets())) == 8
    (steps,) = ax.get_lines()
    assert points(steps.get_xydata()) == [(4, 8), (6, 8), (6, 20)]
    assert set(texts(ax)) == {"b", "c"}
    assert ax.get_xlabel() == "ts (lower is better)"
    assert ax.get_ylabel() == "bytes (higher is better)"


@pytest.mark.parametrize(
    ("x", "y", "corner"),
    [
        ("min", "min", (2, 5)),
        ("max", "max", (1, 3)),
        ("min", "max", (2, 3)),
        ("max", "min", (1, 5)),
    ],
)
def test_steps_run_along_what_is_dominated(x: str, y: str, corner: tuple[int, int]) -> None:
    rising = x != y
    rows = pa.table({"a": [1, 2], "b": [3, 5] if rising else [5, 3]})
    query = sb.Skyline(prefer={"a": x, "b": y}, window=sb.CountWindow(2))
    ax = plot.skyline(list(sb.watch(rows, query)))
    (steps,) = ax.get_lines()
    assert points(steps.get_xydata())[1] == corner


def test_rows_without_an_id_are_named_by_their_values_at_most() -> None:
    bare = sb.Skyline(prefer={"ts": "min", "bytes": "max"}, time="ts", window=WINDOW)
    answers = list(sb.watch(FLOWS, bare))
    assert texts(plot.skyline(answers)) == []
    ticks = [tick.get_text() for tick in plot.timeline(answers).get_yticklabels()]
    assert {"0, 9 B", "4, 8 B", "6, 20 B"} <= set(ticks)
    assert all(tick.count(",") == 1 for tick in ticks)


def boxes(ax: Any) -> list[Any]:
    ax.figure.canvas.draw()
    return [text.get_window_extent() for text in ax.texts if text.get_text()]


@pytest.mark.parametrize("count", [3, 30])
def test_names_of_points_do_not_overlap(count: int) -> None:
    near = [(i * i % 17 + i / 100, i) for i in range(count)]
    rows = pa.table(
        {"a": [a for a, _ in near], "b": [-a for a, _ in near], "id": [f"row {i}" for _, i in near]}
    )
    query = sb.Skyline(prefer={"a": "min", "b": "min"}, id="id", window=sb.CountWindow(count))
    found = boxes(plot.skyline(list(sb.watch(rows, query))))
    assert 3 <= len(found) <= count
    pairs = [(i, j) for i in range(len(found)) for j in range(i)]
    assert not [(i, j) for i, j in pairs if found[i].overlaps(found[j])]


def test_names_of_rows_that_share_a_rank_do_not_overlap() -> None:
    rows = pa.table({"ts": [0, 0, 0, 2, 2, 2], "host": [*"abc"] * 2, "bytes": [5] * 6})
    query = sb.TopK(k=1, score="bytes", id="host", time="ts", window=sb.TimeWindow(2), ties="all")
    ax = plot.bump(sb.rank(rows, query))
    assert {"a", "b", "c"} <= set(texts(ax))
    found = boxes(ax)
    assert not [(i, j) for i in range(3) for j in range(i) if found[i].overlaps(found[j])]


def test_axes_have_units_and_log_scales() -> None:
    rows = pa.table(
        {"n": [0, 1, 2], "wait": [1.0, 2.0, 5000.0], "bytes": [9, 2_000_000, 5 * 10**9]}
    )
    query = sb.Skyline(prefer={"wait": "min", "bytes": "max"}, time="n", window=sb.TimeWindow(3))
    ax: Any = plot.skyline(sb.rank(rows, query), query=query)
    ax.figure.canvas.draw()
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert "1 MB" in [tick.get_text() for tick in ax.get_yticklabels()]
    timed = sb.TopK(k=1, score="op_ms", time="n", window=sb.TimeWindow(3))
    waits = rows.rename_columns(["n", "op_ms", "bytes"])
    assert plot.bars(sb.rank(waits, timed), query=timed).get_xlabel() == "op_ms"


def test_of_many_groups_those_with_most_are_drawn() -> None:
    rows = pa.table(
        {"ts": [0] * 30, "host": ["a"] * 30, "g": [f"g{i}" for i in range(30)], "n": range(30)}
    )
    query = sb.HeavyHitters(
        k=1, item="host", weight="n", by=("g",), time="ts", window=sb.TimeWindow(1)
    )
    for draw in (plot.bars, plot.bump):
        ax = draw(sb.rank(rows, query))
        assert "and 22 smaller groups" in texts(ax)
        assert len(ax.get_yticklabels()) == 8
    bars: Any = plot.bars(sb.rank(rows, query))
    assert [bar.get_width() for bar in bars.patches] == list(range(29, 21, -1))


def test_skyline_of_a_table_takes_columns() -> None:
    table = sb.rank(FLOWS, BEST)
    assert plot.skyline(table, x="bytes", y="ts").get_xlabel() == "bytes"
    assert plot.skyline(table, query=BEST).get_xlabel() == "ts (lower is better)"
    with pytest.raises(sb.SchemaError, match="'nothing' is missing"):
        plot.skyline(table, x="nothing")


def test_timeline_has_a_row_per_item() -> None:
    for answers in both(TALKERS):
        ax = plot.timeline(answers)
        assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b", "c"]
        rows = [c for c in ax.collections if isinstance(c, PolyCollection)]
        assert [len(row.get_paths()) for row in rows] == [3, 4, 1]
        first = rows[0].get_paths()[0].get_extents()
        assert (first.x0, first.x1) == (2, 4)  # from its answer until the next
        assert texts(ax) == ["rank 2", "rank 2", "rank 1"]
    assert len(plot.timeline(sb.rank(FLOWS, TALKERS), top=1).get_yticklabels()) == 1
    assert texts(plot.timeline(list(sb.watch(FLOWS, BEST)))) == []


def test_every_picture_draws_into_given_axes() -> None:
    figure, axes = plt.subplots(2, 3, layout="constrained")
    for ax, draw in zip(axes.flat, plot.KINDS.values(), strict=False):
        answers = sb.rank(FLOWS, BEST if draw is plot.skyline else TALKERS)
        assert draw(answers, ax=ax) is ax
    figure.canvas.draw()
    assert plt.get_fignums() == [figure.number]


def test_moments_are_shown_in_their_zone() -> None:
    start = datetime(2026, 1, 5, 8, tzinfo=UTC)
    rows = pa.table(
        {
            "ts": pa.array([start.replace(minute=m) for m in range(10)], pa.timestamp("us", "UTC")),
            "host": ["a", "b"] * 5,
        }
    )
    window = sb.TimeWindow("2 minutes", slide="1 minute")
    ax = plot.bump(sb.rank(rows, sb.HeavyHitters(k=2, item="host", time="ts", window=window)))
    ax.figure.canvas.draw()
    ticks = [tick.get_text() for tick in ax.get_xticklabels()]
    assert {"08:02", "08:04", "08:06"} <= set(ticks)


def test_nothing_is_drawn_of_nothing() -> None:
    empty = sb.rank(FLOWS.slice(0, 0), TALKERS)
    for draw in plot.KINDS.values():
        assert texts(draw(empty)) == ["no window has any rows"]
    assert texts(plot.bump([])) == ["no window has any rows"]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(sb.QueryError, match="a skyline has no ranks"):
        plot.bump(sb.rank(FLOWS, BEST))
    with pytest.raises(sb.QueryError, match="a skyline has no value"):
        plot.bars(sb.rank(FLOWS, BEST))
    with pytest.raises(sb.QueryError, match="draw one of them: x, y"):
        plot.bump(sb.rank(FLOWS, {"x": TALKERS, "y": LARGEST}))
    with pytest.raises(sb.QueryError, match="answers of x, y"):
        plot.bump(sb.watch(FLOWS, {"x": TALKERS, "y": LARGEST}))
    with pytest.raises(sb.SchemaError, match="'window_start' is missing"):
        plot.bump(FLOWS)
    with pytest.raises(sb.QueryError, match="not 'flows"):
        plot.bump("flows.parquet")


def test_columns_of_a_table_are_told_by_the_query_or_guessed() -> None:
    numbers = pa.table({"ts": [0, 1], "id": [7, 8], "x": [1.0, 2.0]})
    window = sb.TimeWindow(2)
    named = sb.TopK(k=2, score="x", id="id", time="ts", window=window)
    assert lines(plot.bump(sb.rank(numbers, named))).keys() == {"7", "8"}
    bare = sb.TopK(k=2, score="x", time="ts", window=window)
    assert lines(plot.bump(sb.rank(numbers, bare), query=bare)).keys() == {"2, 1", "1, 0"}
    likely = sb.UncertainTopK(k=2, score="x", probability="p", id="id", time="ts", window=window)
    table = sb.rank(numbers.append_column("p", pa.array([0.5, 0.9])), likely)
    assert plot.bars(table).get_xlabel() == "topk_probability"


def test_the_first_seven_items_differ_in_colour_and_mark() -> None:
    looks = [look(n) for n in range(14)]
    assert len({each["color"] for each in looks[:7]}) == 7
    assert len({each["marker"] for each in looks[:7]}) == 7
    assert len({(each["color"], str(each["linestyle"])) for each in looks}) == 14


def test_save_writes_a_picture_without_a_screen(tmp_path: Path) -> None:
    plot.save(tmp_path / "a.png", sb.watch(FLOWS, TALKERS))
    plot.save(tmp_path / "b.svg", sb.rank(FLOWS, BEST), query=BEST)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "b.svg").read_text(encoding="utf-8")
    assert not plt.get_fignums()
    with pytest.raises(sb.QueryError, match="is not a picture"):
        plot.save(tmp_path / "a.txt", sb.rank(FLOWS, TALKERS))
    with pytest.raises(sb.QueryError, match="no picture 'pie'"):
        plot.save(tmp_path / "a.png", sb.rank(FLOWS, TALKERS), kind="pie")
