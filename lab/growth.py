"""How cost grows: ``python -m lab.growth`` writes ``docs/benchmarks/growth.md`` and its pictures.

    python -m lab.growth                  every sweep
    python -m lab.growth groups k         only these; the tables of the others stay
    python -m lab.growth --scale 0.1      a tenth of the rows

One thing grows at a time. Each cell is the least processor time of two runs in microseconds per
row, and the most bytes of state that were seen.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import skyband as sb
from lab.bench.report import machine, text_of, write_section
from lab.datasets.skyline import points
from skyband.kernels.patient import hurry

__all__ = ["SWEEPS", "Cost", "cost_of", "page", "slope", "table"]

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
ROWS = 500_000
SECONDS = 7_200
PUSH = 1 << 16
LINEAR = 1.15
"""A slope above this is more than linear growth, measuring errors included."""
_HEAD = """# How cost grows

`python -m lab.growth` writes this page; each section names the run that it comes from. One thing
grows at a time, and everything else stays the same: half a million rows in two hours of event
time, ten-minute windows, one every minute, and k = 10. A cell says how many microseconds of
processor time a row takes, and how large the state became. Rows are pushed some 65,000 at a time.
The machine did other work, too, so compare cells instead of relying on single times.

The last line of each table, *slope*, is the power with which the total time grows between the last
two values: 0 is constant, 1 is linear, and slopes that are more than linear are bold.

- **A row costs less the more rows there are**, because each window has fixed costs.
- **A longer window takes little more time** than a short one with the same slide. The state of a
  sketch grows with the panes of the window, because each item has a count for each pane.
- **The cost grows more slowly than k**, except for `UncertainTopK`, which compares every row with
  the k rows before it.
- **More groups or items** cost time because less of the state fits into the processor's cache.
- **Only with dimensions does the cost grow faster than in proportion.** With each dimension, fewer
  rows dominate others, until most rows are part of the answer.

Shards exist on Spark only, so `skyband bench spark` measures them ([tables](tables.md#spark)).
Score top-k in batches of a million rows took 0.57 s with one shard and 0.72 s with four, and its
state grew from 0.018 to 0.072 MB: each shard keeps k rows of its own. So use more shards only if
the summaries are large. The same tables show groups on Spark.
"""

Case = tuple[Any, sb.Query]
"""A table, or a mapping from stream to table, and the query."""


class Cost(NamedTuple):
    """What a case costs."""

    seconds: float
    rows: int
    state: int


class Sweep(NamedTuple):
    """One thing that grows."""

    title: str
    about: str
    values: tuple[int, ...]
    cases: Mapping[str, Callable[[int, int], Case]]
    """By name: the case for a value and a number of rows."""
    least: Mapping[str, int] = {}
    """Up to which value a query is measured, if not up to the last."""


def stream(rows: int, **columns: Any) -> pa.Table:
    """Rows over two hours, with scores, ids, skewed items and probabilities."""
    rng = np.random.default_rng(1)
    made = {
        "t": np.arange(rows) * SECONDS // rows,
        "x": rng.random(rows),
        "y": rng.random(rows),
        "id": np.arange(rows),
        "item": items(rows, 100_000),
        "p": 1 - rng.random(rows),
    }
    return pa.table(made | columns)


def items(rows: int, distinct: int) -> Any:
    """Skewed items: each tenfold of ranks is met equally often."""
    return (distinct ** np.random.default_rng(2).random(rows)).astype(np.int64) - 1


def sliding(panes: int = 10, slide: int = 60) -> sb.TimeWindow:
    """A window of so many panes."""
    return sb.TimeWindow(panes * slide, slide=slide)


def top(window: Any, k: int = 10, **more: Any) -> sb.Query:
    """The best scores."""
    return sb.TopK(k=k, score="x", time="t", window=window, **more)


def frequent(window: Any, k: int = 10, **more: Any) -> sb.Query:
    """The most frequent items."""
    return sb.HeavyHitters(k=k, item="item", time="t", window=window, **more)


def sketched(window: Any, k: int = 10, **more: Any) -> sb.Query:
    """The same, with a sketch."""
    return frequent(window, k, algorithm="fsw", capacity=max(1_000, 2 * k), **more)


def likely(window: Any, k: int = 10) -> sb.Query:
    """The likeliest winners."""
    return sb.UncertainTopK(k=k, score="x", probability="p", time="t", window=window)


def best_two(window: Any, **more: Any) -> sb.Query:
    """A skyline in two dimensions."""
    return sb.Skyline(prefer={"x": "max", "y": "min"}, time="t", window=window, **more)


def fused(streams: int, rows: int, window: Any, k: int = 10) -> Case:
    """Objects that report once in each of some streams."""
    names = [f"s{number}" for number in range(streams)]
    table = stream(rows, id=np.arange(rows) // streams)
    column = pa.array(names).take(pa.array(np.arange(rows) % streams))
    query = sb.FusedTopK(
        k=k, id="id", stream="stream", value="x", streams=tuple(names), time="t", window=window
    )
    return table.append_column("stream", column), query


def cloud(distribution: str, dimensions: int, rows: int) -> Case:
    """A skyline in some dimensions."""
    made = points(distribution, rows, dimensions, np.random.default_rng(3))
    columns = {f"d{n}": made[:, n] for n in range(dimensions)}
    prefer = dict.fromkeys(columns, "min")
    return stream(rows, **columns), sb.Skyline(prefer=prefer, time="t", window=sliding(1, 600))


def joined(dimensions: int, rows: int) -> Case:
    """A join of two streams over a thousand keys, with half of the dimensions on each side."""
    rng = np.random.default_rng(4)
    sides: dict[str, pa.Table] = {}
    prefer: dict[str, str] = {}
    for side, count in (("left", dimensions - dimensions // 2), ("right", dimensions // 2)):
        columns = {f"{side}{n}": rng.random(rows // 2) for n in range(count)}
        prefer |= dict.fromkeys(columns, "min")
        sides[side] = stream(rows // 2, key=rng.integers(0, 1_000, rows // 2), **columns)
    query = sb.SkylineJoin(
        left="left", right="right", on="key", prefer=prefer, time="t", window=sliding()
    )
    return sides, query


def of_window(query: Callable[..., sb.Query], **more: Any) -> Callable[[int, int], Case]:
    """One second a pane, more and more of them in a window."""
    return lambda panes, rows: (stream(rows), query(sliding(panes, 1), **more))


def of_k(query: Callable[..., sb.Query]) -> Callable[[int, int], Case]:
    """A greater and greater k."""
    return lambda k, rows: (stream(rows), query(sliding(), k=k))


def of_rows(query: Callable[..., sb.Query]) -> Callable[[int, int], Case]:
    """More and more rows in the same windows."""
    return lambda count, _: (stream(count), query(sliding()))


def of_groups(query: Callable[..., sb.Query], window: Any) -> Callable[[int, int], Case]:
    """More and more groups."""

    def case(groups: int, rows: int) -> Case:
        owner = np.random.default_rng(5).integers(0, groups, rows)
        return stream(rows, g=owner), query(window, by=("g",))

    return case


def of_items(query: Callable[..., sb.Query]) -> Callable[[int, int], Case]:
    """Items drawn from more and more of them."""
    return lambda distinct, rows: (stream(rows, item=items(rows, distinct)), query(sliding()))


LATEST: dict[str, Any] = {"id": "item", "distinct": "latest"}
SWEEPS: dict[str, Sweep] = {
    "rows": Sweep(
        "Rows", "The same ten-minute windows, one every minute, over more rows.",
        (10_000, 100_000, 1_000_000, 4_000_000),
        {
            "TopK": of_rows(top), "HeavyHitters": of_rows(frequent), "fsw": of_rows(sketched),
            "UncertainTopK": of_rows(likely), "Skyline": of_rows(best_two),
            "FusedTopK": lambda count, _: fused(2, count, sliding()),
        },
        {"UncertainTopK": 1_000_000, "FusedTopK": 1_000_000},
    ),
    "panes": Sweep(
        "Window / slide", "Longer and longer windows, with a slide of one second.",
        (1, 10, 60, 600, 3_600),
        {
            "TopK": of_window(top), "latest": of_window(top, **LATEST),
            "HeavyHitters": of_window(frequent), "fsw": of_window(sketched),
            "UncertainTopK": of_window(likely), "Skyline": of_window(best_two),
        },
    ),
    "k": Sweep(
        "k", "More and more ranks, in ten-minute windows, one every minute.",
        (1, 10, 100, 1_000, 10_000),
        {
            "TopK": of_k(top), "HeavyHitters": of_k(frequent), "fsw": of_k(sketched),
            "UncertainTopK": of_k(likely),
            "FusedTopK": lambda k, rows: fused(2, rows // 4, sliding(), k),
        },
        {"UncertainTopK": 1_000, "FusedTopK": 1_000},
    ),
    "groups": Sweep(
        "Groups", "Ten-minute windows that do not overlap, and sliding ones.",
        (1, 100, 10_000, 1_000_000),
        {
            "TopK": of_groups(top, sliding(1, 600)), "TopK, sliding": of_groups(top, sliding()),
            "HeavyHitters": of_groups(frequent, sliding(1, 600)),
            "HeavyHitters, sliding": of_groups(frequent, sliding()),
            "Skyline": of_groups(best_two, sliding(1, 600)),
        },
    ),
    "distinct": Sweep(
        "Distinct items",
        "Items drawn from this many; no more of them occur than there are rows.",
        (1_000, 10_000, 100_000, 1_000_000, 100_000_000),
        {"HeavyHitters": of_items(frequent), "fsw": of_items(sketched),
         "latest": of_items(lambda window: top(window, **LATEST))},
    ),
    "streams": Sweep(
        "Streams", "Objects that report once in each stream.", (2, 4, 8, 16, 32, 64),
        {"FusedTopK": lambda streams, rows: fused(streams, rows // 4, sliding())},
    ),
    "dimensions": Sweep(
        "Dimensions", "Skylines of ten minutes; joins with half of the dimensions on each side.",
        (2, 3, 4, 5, 6, 7, 8),
        {
            "independent": lambda d, rows: cloud("independent", d, rows),
            "anti-correlated": lambda d, rows: cloud("anti-correlated", d, rows // 2),
            "SkylineJoin": lambda d, rows: joined(d, rows // 10),
        },
        {"SkylineJoin": 6},
    ),
}  # fmt: skip


# Measuring ----------------------------------------------------------------------------------------


def cost_of(source: Any, query: sb.Query) -> Cost:
    """The processor time of all pushes, and the largest state between them."""
    several = isinstance(source, Mapping)
    tables = source if several else {"": source}
    rows = sum(table.num_rows for table in tables.values())
    step = max(1, PUSH // len(tables))
    monitor, spent, state = sb.Monitor(query), 0.0, 0
    longest = max(table.num_rows for table in tables.values())
    for first in range(0, longest, step):
        piece = {name: table.slice(first, step) for name, table in tables.items()}
        began = time.process_time()
        monitor.push(piece if several else piece[""])
        spent += time.process_time() - began
        state = max(state, monitor.stats()["state_bytes"])
    began = time.process_time()
    monitor.flush()
    return Cost(spent + time.process_time() - began, rows, state)


def measured(sweep: Sweep, scale: float) -> dict[str, dict[int, Cost]]:
    """The costs of each query by value, after a small run that compiles."""
    found: dict[str, dict[int, Cost]] = {name: {} for name in sweep.cases}
    for name, case in sweep.cases.items():
        cost_of(*case(sweep.values[0], 20_000))
        for value in sweep.values:
            if value > sweep.least.get(name, value):
                continue
            runs = [cost_of(*case(value, int(ROWS * scale))) for _ in range(2)]
            found[name][value] = min(runs)
            print(f"{sweep.title} {value:,} {name}: {min(runs)}", flush=True)
    return found


def slope(costs: Mapping[int, Cost], what: Callable[[Cost], float]) -> float | None:
    """The power of the value with which a cost grows between the last two values."""
    if len(costs) < 2:
        return None
    (before, less), (value, more) = list(costs.items())[-2:]
    low, high = what(less), what(more)
    return math.log(high / low) / math.log(value / before) if low > 0 and high > 0 else None


# The page -----------------------------------------------------------------------------------------


def table(sweep: Sweep, found: Mapping[str, Mapping[int, Cost]]) -> str:
    """A Markdown table: per query, microseconds per row and megabytes of state."""
    lines = [f"| {sweep.title} | " + " | ".join(found) + " |", "|---:" * (len(found) + 1) + "|"]
    for value in sweep.values:
        cells = [_cell(costs.get(value)) for costs in found.values()]
        lines.append(f"| {value:,} | " + " | ".join(cells) + " |")
    slopes = [slope(costs, lambda cost: cost.seconds) for costs in found.values()]
    shown = ["" if each is None else _power(each) for each in slopes]
    return "\n".join([*lines, "| slope | " + " | ".join(shown) + " |"])


def _cell(cost: Cost | None) -> str:
    if cost is None:
        return ""
    return f"{text_of(cost.seconds / cost.rows * 1e6)} µs, {text_of(cost.state / 1e6)} MB"


def _power(value: float) -> str:
    return f"**{value:.2f}**" if value > LINEAR else f"{value:.2f}"


def page(names: list[str], scale: float, folder: Path) -> None:
    """Measure, and write the sections of these sweeps with their pictures."""
    hurry()
    path = folder / "growth.md"
    if not path.is_file():
        path.write_text(_HEAD, encoding="utf-8")
    for name in names:
        sweep = SWEEPS[name]
        found = measured(sweep, scale)
        drawn(sweep, found, folder / f"growth_{name}.png")
        command = f"`python -m lab.growth {name} --scale {scale:g}` on {machine()}."
        picture = f"![time and state against {sweep.title.lower()}](growth_{name}.png)"
        parts = [f"## {sweep.title}", sweep.about, command, picture, table(sweep, found)]
        write_section(path, name, "\n\n".join(parts))


def drawn(sweep: Sweep, found: Mapping[str, Mapping[int, Cost]], path: Path) -> None:
    """Time and state against what grows, both on logarithmic scales."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from skyband.plot.style import look

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axes, title, height in _panels(left, right):
        for number, (name, costs) in enumerate(found.items()):
            axes.plot(
                list(costs), [height(each) for each in costs.values()], label=name, **look(number)
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(list(sweep.values), [f"{value:,}" for value in sweep.values], fontsize=8)
        axes.minorticks_off()
        axes.set_xlabel(sweep.title)
        axes.set_title(title)
    left.legend(fontsize=7)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _panels(left: Any, right: Any) -> Iterator[tuple[Any, str, Callable[[Cost], float]]]:
    yield left, "processor time, µs per row", lambda cost: cost.seconds / cost.rows * 1e6
    yield right, "state, MB", lambda cost: max(cost.state, 1) / 1e6


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m lab.growth", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*SWEEPS, []], help="sweeps (default all)")
    parser.add_argument("--scale", type=float, default=1.0, help="times the rows of most sweeps")
    parser.add_argument(
        "--out", type=Path, default=FOLDER, help="a folder (default docs/benchmarks)"
    )
    given = parser.parse_args()
    page(given.names or list(SWEEPS), given.scale, given.out)


if __name__ == "__main__":
    main()
