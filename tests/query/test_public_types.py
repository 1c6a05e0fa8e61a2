"""What type checkers, help and completion show of queries: mypy reads this file, too."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields

import pyarrow as pa
import pytest

import skyband as sb

WINDOW = sb.TimeWindow(10)
QUERIES = [sb.TopK, sb.HeavyHitters, sb.UncertainTopK, sb.FusedTopK, sb.Skyline, sb.SkylineJoin]


def test_columns_may_be_one_name_or_several() -> None:
    one = sb.TopK(k=1, score="x", id="i", time="t", by="g", keep=["v"], window=WINDOW)
    other = sb.TopK(k=1, score="x", id="i", time="t", by=("g",), keep="v", window=WINDOW)
    assert one == other
    assert one.by == ("g",)
    items = sb.HeavyHitters(k=1, item=["a", "b"], by=["g"], time="t", window=WINDOW)
    assert items.key == ("a", "b")
    fused = sb.FusedTopK(
        k=1, id="i", value="v", stream="s", streams=["a", "b"], by="g", time="t", window=WINDOW
    )
    assert fused.sources == ("a", "b")
    prefer = {"price": "min"}
    join = sb.SkylineJoin(left="a", right="b", on=["x"], prefer=prefer, time="t", window=WINDOW)
    assert join.on == ("x",)


def test_words_that_are_none_are_found_by_type_checkers() -> None:
    """Each comment is needed: mypy says so if one is not."""
    with pytest.raises(sb.QueryError, match="Did you mean 'share'"):
        sb.TopK(k=1, score="x", time="t", window=WINDOW, ties="shared")  # type: ignore[arg-type]
    with pytest.raises(sb.QueryError, match="semantics"):
        sb.UncertainTopK(
            k=1, score="x", probability="p", time="t", window=WINDOW,
            semantics="top-k",  # type: ignore[arg-type]
        )  # fmt: skip
    with pytest.raises(sb.QueryError, match="on_bad"):
        sb.Monitor(sb.TopK(k=1, score="x", time="t", window=WINDOW), on_bad="drop")  # type: ignore[arg-type]
    with pytest.raises(sb.QueryError, match="late"):
        sb.Monitor(sb.TopK(k=1, score="x", time="t", window=WINDOW), late="drop")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", QUERIES)
def test_every_parameter_has_a_line_of_its_own(kind: type[sb.Query]) -> None:
    doc = inspect.getdoc(kind) or ""
    block = doc.partition("\nArgs:\n")[2].partition("\n\n")[0]
    documented = re.findall(r"^    (\w+): \S", block, re.MULTILINE)
    assert len(documented) == len(block.splitlines())
    assert sorted(documented) == sorted(each.name for each in fields(kind) if each.init)
    assert list(inspect.signature(kind).parameters) == documented
    assert documented.index("window") < 5
    assert documented[-2:] == ["algorithm", "options"]


@pytest.mark.parametrize("kind", [sb.TopK, sb.UncertainTopK])
def test_what_matters_comes_first(kind: type[sb.Query]) -> None:
    assert list(inspect.signature(kind).parameters)[:3] == ["k", "score", "window"]


def test_completion_shows_no_internals() -> None:
    query = sb.FusedTopK(
        k=1, id="i", value="v", stream="s", streams=("a", "b"), time="t", window=WINDOW
    )
    assert set(dir(query)) == {
        *inspect.signature(sb.FusedTopK).parameters,
        "fingerprint",
        "kind",
        "spec",
    }
    assert {"size", "slide", "lateness", "offset", "zone"} <= set(dir(WINDOW))
    assert not {"ticks", "panes", "reach", "lateness_ticks"} & {
        *dir(WINDOW),
        *dir(sb.CountWindow(3)),
    }
    monitor = sb.Monitor(sb.TopK(k=1, score="x", window=sb.CountWindow(3)))
    assert {"push", "flush", "peek", "snapshot", "stats"} <= set(dir(monitor))
    assert not {"session", "board"} & set(dir(monitor))
    assert monitor.push(pa.table({"x": [1, 2, 3]}))
