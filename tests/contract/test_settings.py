"""Every optional parameter of a query either does something for its algorithm, or is refused."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oracle
import skyband as sb
from skyband import registry
from support import conformance, streams

WINDOW = oracle.TimeWindow(40, 5)
ROWS = 8_000

MEANING = {
    "TopK": {"id", "time", "by", "largest", "distinct", "keep", "ties", "most", "where"},
    "HeavyHitters": {"time", "weight", "by", "keep", "ties", "most", "proof", "where"}
    | {"aggregate", "min_rows", "largest", "against", "order", "smoothing", "min_count"},
    "UncertainTopK": {"id", "time", "by", "semantics", "threshold", "keep", "largest", "where"},
    "FusedTopK": {"stream", "combine", "bounds", "time", "by", "recurrences", "parts", "where"},
    "Skyline": {"id", "time", "by", "where"},
    "SkylineJoin": {"time", "where"},
}
"""Optional parameters that define the question: the oracle and all algorithms read them."""

# Two values of each setting, for which its algorithms behave differently.
VALUES: dict[str, tuple[Any, Any]] = {
    "epsilon": (0.5, 3.0),
    "delta": (0.9, 0.5),
    "capacity": (3, 6),
    "cells": (2, 40),
    "ratio": (2, 8),
    "filter_bits": (64, 1024),
    "returns": (True, False),
    "layers": (1, 3),
    "repeats": ("max", "latest"),
    "options.raw_rows": (4, 1000),
    "options.filter": ("auto", "off"),
    "options.preselect": (False, True),
    "options.guard": (True, False),
    "options.kmax": (3, 60),
    "options.slack": (0, 400),
    "options.bitmaps": (64, 2048),
    "options.sketch": ("fm", "hll"),
    "options.caution": (0.0, 1.0),
    "options.share_from": (0, 10**9),
}
# Further settings that an algorithm or a setting needs in order to be built and show its effect.
NEEDED: dict[str, dict[str, Any]] = {
    **conformance.NEEDED,
    "pabf": {"epsilon": 1.0},
    "delta": {"epsilon": 1.0},
    "cells": {"capacity": 3},
    "ratio": {"capacity": 3, "cells": 2},
    "filter_bits": {"capacity": 3},
    "options.raw_rows": {"capacity": 3},
    "returns": {"options": {"slack": 0}},
    "repeats": {"id": "item"},  # which reports many times
    "options.guard": {"recurrences": 2},  # a limit that every rule of repeats keeps
    "options.sketch": {"options": {"slack": 0, "bitmaps": 16}},
    "options.caution": {"options": {"slack": 0}},
}

ALGORITHMS = [(kind, name) for kind in registry.kinds() for name in registry.algorithms(kind)]


def settings_of(kind: str) -> list[str]:
    """All settings of the algorithms of a kind, options as ``options.name``."""
    own = set(getattr(sb, kind).settings)
    named = {o for name in registry.algorithms(kind) for o in registry.options(kind, name)}
    return sorted(own) + sorted(f"options.{name}" for name in named)


def declared(kind: str, name: str, setting: str) -> bool:
    if setting.startswith("options."):
        return setting.removeprefix("options.") in registry.options(kind, name)
    return setting in registry.takes(kind, name)


CASES = [(k, n, s) for k, n in ALGORITHMS for s in settings_of(k)]


def made(kind: str, name: str | None, setting: str, value: Any) -> sb.Query:
    given: dict[str, Any] = conformance.SETTINGS[kind][0] | {"algorithm": name}
    if kind == "SkylineJoin":
        given["prefer"] = {"price": "min", "volume": "max", "risk": "min", "cost": "min"}
    given = {**given, **NEEDED.get(name or "", {})}
    if name is None or declared(kind, name, setting):
        given = {**given, **NEEDED.get(setting, {})}
    if setting.startswith("options."):
        option = setting.removeprefix("options.")
        given["options"] = {**given.get("options", {}), option: value}
    else:
        given[setting] = value
    table = streams.stream(1, 1).table
    return conformance.query_of(kind, WINDOW, given, table)


def behaviour(kind: str, query: sb.Query) -> Any:
    """Everything that a user can see of a run."""
    monitor = sb.Monitor(query)
    seen: list[Any] = []
    for batch in pushes(kind):
        for answer in monitor.push(batch):
            rows = streams.rows_of(answer.table)
            seen.append((rows, answer.exact, sorted(answer.bounds.items())))
        seen.append(dict(monitor.stats()))
    return seen


def pushes(kind: str) -> list[Any]:
    """A few thousand rows, twenty per tick, so that algorithms have work to do."""
    rng = np.random.default_rng(3)
    number = np.arange(ROWS)
    ts = number // 20
    if kind == "SkylineJoin":
        sides = {"trades": ("price", "volume"), "risks": ("risk", "cost")}
        return in_turn(
            {
                side: {"ts": ts, "stock": number % 5, **{n: rng.random(ROWS) for n in names}}
                for side, names in sides.items()
            }
        )
    # Every fourth row is the other stream's report of an object, fifteen ticks later.
    known = np.where(number % 4 == 1, number - 301, number)
    columns: dict[str, Any] = {"ts": ts, "id": number, "object": known}
    columns |= {"stream": np.where(number % 2, "a", "b"), "value": rng.random(ROWS)}
    columns |= {"price": rng.random(ROWS), "volume": rng.random(ROWS)}
    columns |= {"p": rng.integers(1, 5, ROWS) / 4}
    columns |= {"score": rng.normal(100.0, 5.0, ROWS), "item": rng.zipf(1.3, ROWS) % 1000}
    return [push[""] for push in in_turn({"": columns})]


def in_turn(columns: dict[str, dict[str, Any]]) -> list[dict[str, pa.Table]]:
    tables = {side: pa.table(values) for side, values in columns.items()}
    cuts = range(0, ROWS, ROWS // 4)
    return [{side: t.slice(cut, ROWS // 4) for side, t in tables.items()} for cut in cuts]


def test_every_optional_parameter_is_placed() -> None:
    """A new parameter either defines the question, or is a setting that algorithms declare."""
    for kind in registry.kinds():
        query: Any = getattr(sb, kind)
        optional = {
            f.name
            for f in fields(query)
            if f.default is not MISSING or f.default_factory is not MISSING
        }
        common = {"algorithm", "options", "time_format", "time_unit"}
        assert optional - common == MEANING[kind] | set(query.settings), kind
        for name in registry.algorithms(kind):
            assert set(registry.takes(kind, name)) <= set(query.settings)
        used = {s for n in registry.algorithms(kind) for s in registry.takes(kind, n)}
        assert used == set(query.settings)
    assert set(VALUES) == {s for kind in registry.kinds() for s in settings_of(kind)}


@pytest.mark.parametrize(("kind", "name", "setting"), [c for c in CASES if declared(*c)])
def test_a_setting_that_is_declared_does_something(kind: str, name: str, setting: str) -> None:
    one, other = (behaviour(kind, made(kind, name, setting, v)) for v in VALUES[setting])
    assert one != other


@pytest.mark.parametrize(("kind", "name", "setting"), [c for c in CASES if not declared(*c)])
def test_a_setting_that_is_not_declared_is_refused(kind: str, name: str, setting: str) -> None:
    shown = setting.removeprefix("options.")
    with pytest.raises(sb.QueryError, match=shown) as refused:
        made(kind, name, setting, VALUES[setting][1])
    takers = [n for n in registry.algorithms(kind) if declared(kind, n, setting)]
    assert all(taker in str(refused.value) for taker in takers)


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({}, "exact"),
        ({"capacity": 9}, "fsw"),
        ({"cells": 9}, "fsw"),
        ({"ratio": 2}, "fsw-r"),
        ({"capacity": 9, "ratio": 2}, "fsw-r"),
        ({"filter_bits": 64}, "fsw-f"),
        ({"filter_bits": 64, "ratio": 2, "capacity": 9, "cells": 9}, "fsw-f"),
    ],
)
def test_settings_choose_the_sketch_where_none_is_named(given: dict[str, Any], chosen: str) -> None:
    query = sb.HeavyHitters(k=2, item="item", window=sb.CountWindow(9), **given)
    assert registry.choose(query) == chosen


def test_settings_that_the_chosen_algorithm_cannot_use_are_refused() -> None:
    window = sb.CountWindow(9)
    with pytest.raises(sb.QueryError, match=r"filter_bits= does nothing for exact.*fsw-f"):
        sb.HeavyHitters(k=2, item="item", weight="w", filter_bits=64, window=window)
    with pytest.raises(sb.QueryError, match=r"layers= does nothing for gsj.*lsj"):
        sb.SkylineJoin(left="a", right="b", on="x", prefer={"y": "min"}, layers=2, time="t",
                       window=sb.TimeWindow(9))  # fmt: skip
    with pytest.raises(sb.QueryError, match="no option 'speed'"):
        sb.TopK(k=1, score="x", window=window, options={"speed": 11})


def test_what_every_answer_keeps_anyway_may_be_asked_of_any_algorithm() -> None:
    """An exact answer lies within epsilon; an algorithm that keeps all reports ignores returns."""
    window = sb.CountWindow(9)
    assert registry.choose(sb.TopK(k=1, score="x", epsilon=1.0, delta=0.9, window=window))
    fused = sb.FusedTopK(k=1, id="i", stream="s", value="v", streams=("a",), returns=False,
                         recurrences="estimate", window=window)  # fmt: skip
    assert registry.choose(fused) == "sla"
