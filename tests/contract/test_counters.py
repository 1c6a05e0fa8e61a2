"""Counters show that an algorithm does what it should: LSJ shares, PABF merges and refills."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from support import conformance, sending, streams

# LSJ ----------------------------------------------------------------------------------------------

SHARING = {"on": {"share_from": 0}, "off": {"share_from": 10**9}}


def lsj(number: int, sharing: str, **more: Any) -> dict[str, Any]:
    chosen = {"algorithm": "lsj", "options": SHARING[sharing]}
    return conformance.SETTINGS["SkylineJoin"][number] | chosen | more


@pytest.mark.nojit
@pytest.mark.parametrize("number", range(len(conformance.SETTINGS["SkylineJoin"])))
@pytest.mark.parametrize("sharing", SHARING)
@given(data=st.data())
@settings(max_examples=15)
def test_lsj_is_right_with_sharing_on_and_off(
    number: int, sharing: str, data: st.DataObject
) -> None:
    window = data.draw(streams.time_windows())
    stream = data.draw(streams.sides(max_rows=14, lateness=window.lateness))
    restarts = data.draw(st.booleans())
    conformance.compare("SkylineJoin", window, lsj(number, sharing), stream, restarts)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("sharing", SHARING)
def test_lsj_shares_where_told_to_and_nowhere_else(restarts: bool, sharing: str) -> None:
    window = oracle.TimeWindow(30, 7, lateness=5)
    chosen = lsj(0, sharing)
    stream = conformance.long_stream("SkylineJoin", chosen, window, "uniform")
    conformance.compare("SkylineJoin", window, chosen, stream, restarts)
    tables, _, table = sending.sent(stream, chosen)
    query = conformance.query_of("SkylineJoin", window, chosen, table)
    stats = conformance.run(query, tables, restarts).stats
    if sharing == "off":
        assert not stats["graph_reads"] + stats["layers_shared"] + stats["graph_rows"]
        assert stats["layers_recomputed"] > 0
    else:
        # Both sides of every window with pairs read the graph: layer 1 is never recomputed.
        assert stats["graph_reads"] >= 2 * (stats["windows_out"] - 4) > 0
        assert stats["graph_edges"] > 0


def test_lsj_saves_comparisons_by_sharing() -> None:
    """Two attributes per side give layers above the first, where rows are parked."""
    rng = np.random.default_rng(4)
    sides = {
        name: pa.table({
            "ts": np.arange(600), "key": rng.integers(0, 20, 600),
            f"{name}_x": rng.random(600), f"{name}_y": rng.random(600),
        })
        for name in ("a", "b")
    }  # fmt: skip
    prefer = {f"{name}_{axis}": "min" for name in "ab" for axis in "xy"}
    found: dict[str, dict[str, Any]] = {}
    answers = []
    for sharing, options in SHARING.items():
        monitor = sb.Monitor(
            sb.SkylineJoin(
                left="a",
                right="b",
                on="key",
                time="ts",
                prefer=prefer,
                window=sb.TimeWindow(300, slide=10),
                algorithm="lsj",
                options=options,
            )
        )
        answers.append([answer.table for answer in monitor.push(sides)])
        monitor._check()
        found[sharing] = monitor.stats()
    assert answers[0] == answers[1]
    assert found["on"]["layers_shared"] > 10 * found["off"]["layers_shared"] == 0
    assert found["on"]["local_comparisons"] < 0.5 * found["off"]["local_comparisons"]


@pytest.mark.parametrize("bad", [-1, 1.5, True, "all"])
def test_share_from_is_a_number_of_rows(bad: Any) -> None:
    query = sb.SkylineJoin(
        left="a",
        right="b",
        on="k",
        time="t",
        prefer={"x": "min", "y": "min"},
        window=sb.TimeWindow(5),
        algorithm="lsj",
        options={"share_from": bad},
    )
    with pytest.raises(sb.QueryError, match="share_from"):
        sb.Monitor(query)


# PABF ---------------------------------------------------------------------------------------------

K, SLIDE, SIZE = 10, 20, 2_000


def pabf(scores: np.ndarray[Any, Any], epsilon: float = 0.01) -> dict[str, int | float]:
    query = sb.TopK(
        k=K,
        score="x",
        window=sb.CountWindow(SIZE, slide=SLIDE),
        algorithm="pabf",
        epsilon=epsilon,
        delta=0.9,
    )
    monitor = sb.Monitor(query)
    for start in range(0, len(scores), 700):
        monitor.push(pa.table({"x": scores[start : start + 700]}))
        monitor._check()
    return monitor.stats()


def test_pabf_merges_when_its_fresh_rows_are_too_many() -> None:
    """Each pane adds its best K rows; once 32 K of them are waiting, they are merged."""
    panes = 300
    stats = pabf(np.random.default_rng(1).random(panes * SLIDE))
    assert stats["local_merges"] == (panes - 1) // 32
    assert stats["rows_merged"] > 0
    assert 0 < stats["fresh"] <= 32 * K
    assert stats["fresh"] == K * (panes - 32 * stats["local_merges"])


def test_pabf_empties_full_buckets_into_the_next() -> None:
    """With falling scores nothing is dominated: a merge fills the first bucket beyond e K rows."""
    falling = -np.arange(300 * SLIDE) / 100.0
    stats = pabf(falling)
    assert stats["global_merges"] >= stats["local_merges"] > 0
    assert stats["buckets"] >= 1
    rising = pabf(-falling)
    assert rising["global_merges"] == 0  # newer rows dominate: one small bucket
    assert rising["retained"] < stats["retained"]


def test_pabf_refills_its_results_when_they_expire() -> None:
    falling = -np.arange(300 * SLIDE) / 100.0
    stats = pabf(falling)
    # The best rows are the oldest. A refill finds 2 K results, the rows of two panes.
    assert stats["refills"] == (300 - SIZE // SLIDE) // 2
    assert stats["rows_refilled"] > 0
    assert pabf(-falling)["refills"] == 0


def test_pabf_counts_what_its_filter_does() -> None:
    rng = np.random.default_rng(2)
    stats = pabf(rng.random(200 * SLIDE))
    assert stats["filter_panes"] == 200
    assert sum(stats[f"filter_by_{way}"] for way in ("stationary", "time", "sample")) <= 200


def test_the_counts_of_a_filter_cover_all_groups() -> None:
    """One synopsis summarises the rows of all groups, so its counts cover the whole query."""
    rng = np.random.default_rng(2)
    n = 4_000
    query = sb.TopK(
        k=2,
        score="x",
        by=("g",),
        time="t",
        window=sb.TimeWindow(400, slide=200),
        algorithm="pabf",
        epsilon=0.01,
        delta=0.9,
    )
    table = pa.table({"t": np.arange(n), "g": np.arange(n) % 2, "x": rng.random(n)})
    monitor = sb.Monitor(query)
    monitor.push(table)
    stats = monitor.stats()
    assert stats["filter_panes"] == 2 * n // 200
    again = sb.Monitor.restore(monitor.snapshot())
    assert again.stats()["filter_panes"] == stats["filter_panes"]


@pytest.mark.nojit
@pytest.mark.parametrize(("algorithm", "lists"), [("csq", 1), ("ccsq", 2)])
def test_compact_sets_that_were_built_and_updated(algorithm: str, lists: int) -> None:
    """With certain rows and k = 1 a compact set is one row."""
    window = sb.CountWindow(20, slide=1)
    query = sb.UncertainTopK(k=1, score="x", probability="p", window=window, algorithm=algorithm)
    found = {}
    for name, values in (("falling", range(8, 0, -1)), ("rising", range(8))):
        monitor = sb.Monitor(query)
        monitor.push(pa.table({"x": list(values), "p": [1.0] * 8}))
        found[name] = monitor.stats()
    # Every row of a falling stream begins a set of its own; no later row enters it.
    assert found["falling"]["compact_sets"] == found["falling"]["compact_sets_built"] == 8
    assert found["falling"]["compact_sets_updated"] == 0
    assert found["falling"]["retained"] == 8 * lists
    # Every row of a rising stream takes the place of the one before it.
    assert found["rising"]["compact_sets"] == found["rising"]["compact_sets_built"] == 1
    assert found["rising"]["compact_sets_updated"] == 7
    assert found["rising"]["retained"] == lists
    assert found["rising"]["largest_compact_set"] == found["falling"]["largest_compact_set"] == 1


@pytest.mark.nojit
def test_rows_that_admit_no_compact_sets() -> None:
    query = sb.UncertainTopK(
        k=2, score="x", probability="p", window=sb.CountWindow(20, slide=1), algorithm="csq"
    )
    monitor = sb.Monitor(query)
    monitor.push(pa.table({"x": [1, 2], "p": [0.25, 0.25]}))
    stats = monitor.stats()
    assert stats["compact_sets"] == 0
    assert stats["retained"] == 2


@pytest.mark.nojit
def test_eaa_counts_its_sweeps_and_what_they_drop() -> None:
    """Without slack each report is followed by a sweep."""
    for size, values, dropped in ((50, range(12), 11), (4, range(12, 0, -1), 0)):
        query = sb.FusedTopK(
            k=1, id="o", stream="s", value="v", streams=("a",), bounds=(0, 20), returns=False,
            window=sb.CountWindow(size, slide=1), algorithm="eaa", options={"slack": 0},
        )  # fmt: skip
        monitor = sb.Monitor(query)
        sweeps = []
        for number, value in enumerate(values):
            monitor.push(pa.table({"o": [number], "s": ["a"], "v": [float(value)]}))
            sweeps.append(monitor.stats()["sweeps"])
        stats = monitor.stats()
        assert stats["reports_in"] == 12
        assert stats["dropped"] == dropped
        if dropped:  # a rising stream keeps its last report, which one comparison per round finds
            assert sweeps == list(range(1, 13))
            assert (stats["retained"], stats["comparisons"]) == (1, 1 + 2 * 11)
        else:  # a falling one keeps the whole window, and sweeps when it has grown
            assert stats["retained"] == 4
            assert 1 <= sweeps[-1] < 12
            assert all(b - a in (0, 1) for a, b in itertools.pairwise(sweeps))


@pytest.mark.nojit
def test_what_eaa_retains_before_and_after_a_sweep() -> None:
    """Reports count until a sweep; then the instances that it left do, and the reports since."""
    retained = {}
    for slack in (0, 100):
        query = sb.FusedTopK(
            k=1, id="o", stream="s", value="v", streams=("a", "b"), bounds=(0, 20),
            window=sb.CountWindow(50, slide=2), algorithm="eaa", options={"slack": slack},
        )  # fmt: skip
        monitor = sb.Monitor(query)
        monitor.push(pa.table({"o": [1, 1], "s": ["a", "b"], "v": [5.0, 5.0]}))
        stats = monitor.stats()
        assert stats["sweeps"] == (1 if slack == 0 else 0)
        retained[slack] = stats["retained"]
    assert retained == {0: 1, 100: 2}


@pytest.mark.nojit
@pytest.mark.parametrize("algorithm", ["isj", "lsj"])
def test_a_join_prunes_rows_whose_best_pair_is_dominated(algorithm: str) -> None:
    query = sb.SkylineJoin(
        left="a", right="b", on="key", prefer={"x": "max", "y": "max"}, time="t",
        window=sb.TimeWindow(10), algorithm=algorithm,
    )  # fmt: skip
    monitor = sb.Monitor(query)
    monitor.push({
        "a": pa.table({"t": [1, 2], "key": ["u", "u"], "x": [9, 5]}),
        "b": pa.table({"t": [1, 2], "key": ["u", "u"], "y": [9, 5]}),
    })  # fmt: skip
    (answer,) = monitor.flush()
    assert (answer.table["x"].to_pylist(), answer.table["y"].to_pylist()) == ([9], [9])
    stats = monitor.stats()
    # The best row of each side is joined with all of the other side. What is left has only pairs
    # that (9, 9) dominates, so that there is no second layer.
    assert (stats["pairs"], stats["pruned"], stats["layers"]) == (3, 2, 1)
