"""PABF over longer streams, its levels at the edge of floats, and its filters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.topk.kernels import pabf as pabf_filter
from skyband.topk.pabf import FILTERS

Scores = npt.NDArray[np.float64]
ROWS, SIZE, SLIDE, K = 60_000, 6_000, 300, 20
LINE = np.arange(ROWS) / ROWS


def scores(name: str) -> Scores:
    rng = np.random.default_rng(17)
    noise = rng.random(ROWS)
    return {
        "uniform": noise,
        "sine": np.sin(np.arange(ROWS) * np.pi / (2 * SIZE)),
        "noisy sine": np.sin(np.arange(ROWS) * np.pi / SIZE) + 0.1 * noise,
        "falling": 1 - LINE + 0.01 * noise,
        "rising": LINE + 0.01 * noise,
        "stepped": np.floor(LINE * 13) % 5 + 0.2 * noise,
        "log-normal": rng.lognormal(0, 2, ROWS),
        "crowded": rng.integers(0, 6, ROWS).astype(float),
    }[name]


NAMES = (
    "uniform", "sine", "noisy sine", "falling", "rising", "stepped", "log-normal", "crowded",
)  # fmt: skip


def share_kept(
    values: Scores, epsilon: float, size: int, slide: int, k: int, **more: Any
) -> tuple[float, dict[str, Any]]:
    """The share of (window, rank) pairs within epsilon; asserts one-sided answers of live rows."""
    query = sb.TopK(
        k=k, score="x", id="row", window=sb.CountWindow(size, slide=slide), algorithm="pabf",
        epsilon=epsilon, **more,
    )  # fmt: skip
    sign = 1 if query.largest else -1
    table = pa.table({"x": values, "row": np.arange(len(values))})
    monitor = sb.Monitor(query)
    good = ranks = 0
    for start in range(0, len(values), 7 * slide + 1):
        for answer in monitor.push(table.slice(start, 7 * slide + 1)):
            assert not answer.exact
            assert answer.bounds == {"epsilon": epsilon, "delta": query.delta}
            rows = np.asarray(answer.table["row"])
            got = np.asarray(answer.table["x"])
            assert (values[rows] == got).all()
            assert len(set(rows.tolist())) == len(rows)
            assert answer.start <= rows.min() <= rows.max() < answer.end
            live = values[answer.start : answer.end]
            true = sign * np.sort(-sign * live)[:k] * -1
            gap = sign * (true - got)
            assert (np.lexsort((-rows, -sign * got)) == np.arange(len(rows))).all()
            assert (gap >= 0).all()
            good += int((gap < epsilon).sum())
            ranks += len(true)
            assert len(got) == len(true)
    monitor._check()
    return good / ranks, dict(monitor.stats())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("filter_name", list(FILTERS))
def test_named_streams(name: str, filter_name: str) -> None:
    values = scores(name)
    spread = float(values.max() - values.min())
    share, _ = share_kept(
        values, 0.001 * spread, SIZE, SLIDE, K, delta=0.99, options={"filter": filter_name}
    )
    assert share == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_what_no_window_shows_may_be_left_out_first(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyband.topk.pruner._ROWS_PER_RESULT", 1)
    values = scores(name)
    epsilon = 0.01 * float(values.max() - values.min())
    query = sb.TopK(
        k=K, score="x", id="row", window=sb.CountWindow(SIZE, slide=SLIDE), algorithm="pabf",
        epsilon=epsilon, options={"preselect": True},
    )  # fmt: skip
    table = pa.table({"x": values, "row": np.arange(len(values))})
    monitor, left = sb.Monitor(query), 0
    for start in range(0, len(values), 4 * SIZE):
        for answer in monitor.push(table.slice(start, 4 * SIZE)):
            true = -np.sort(-values[answer.start : answer.end])[:K]
            gap = true - np.asarray(answer.table["x"])
            assert ((gap >= 0) & (gap < epsilon)).all()
            left += 1
        monitor._check()
    assert left == len(values) // SLIDE


def test_preselect_is_true_or_false() -> None:
    query = sb.TopK(
        k=1, score="x", window=sb.CountWindow(5), algorithm="pabf", epsilon=1.0,
        options={"preselect": 1},
    )  # fmt: skip
    with pytest.raises(sb.QueryError, match="True or False"):
        sb.Monitor(query)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("share_of_range", [1e-6, 0.01, 0.3])
def test_narrow_and_wide_levels(name: str, share_of_range: float) -> None:
    values = scores(name)[:20_000]
    epsilon = share_of_range * float(values.max() - values.min() or 1.0)
    for largest in (True, False):
        share, _ = share_kept(values, epsilon, 2_000, 90, 15, largest=largest)
        assert share == 1.0


@pytest.mark.parametrize("slide", [1, 7])
def test_small_slides(slide: int) -> None:
    for name in ("uniform", "falling", "crowded"):
        share, _ = share_kept(scores(name)[:4_000], 0.01, 500, slide, 10)
        assert share == 1.0


@pytest.mark.parametrize("epsilon", [0.1, 1e-30, 5e-324, 1e300])
def test_levels_at_the_edge_of_floats(epsilon: float) -> None:
    rng = np.random.default_rng(2)
    values = np.concatenate([rng.random(300) * 10.0**p for p in (-300, -3, 0, 9, 17, 300)])
    values = rng.permutation(np.concatenate([values, -values, [np.inf, -np.inf, 0.0, -0.0] * 9]))
    for largest in (True, False):
        query = sb.TopK(
            k=8, score="x", window=sb.CountWindow(200, slide=20), algorithm="pabf",
            epsilon=epsilon, largest=largest,
        )  # fmt: skip
        for answer in sb.watch([pa.table({"x": values})], query):
            live = np.sort(values[answer.start : answer.end])
            true = live[::-1][:8] if largest else live[:8]
            got = np.asarray(answer.table["x"])
            equal = got == true
            gap = np.abs(true[~equal].astype(np.longdouble) - got[~equal].astype(np.longdouble))
            assert (gap < epsilon).all()


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.int8(), pa.float32()])
@pytest.mark.parametrize("epsilon", [1.0, 2.5, 1000.0])
def test_score_types(kind: pa.DataType, epsilon: float) -> None:
    rng = np.random.default_rng(6)
    shift = {pa.int64(): -(2**62), pa.uint64(): 2**63, pa.int8(): -100, pa.float32(): 0}[kind]
    values = [int(v) + shift for v in rng.integers(0, 100, 2_000)]
    table = pa.table({"x": pa.array(values, kind)})
    query = sb.TopK(
        k=5, score="x", window=sb.CountWindow(300, slide=30), algorithm="pabf", epsilon=epsilon
    )
    for answer in sb.watch([table], query):
        true = sorted(values[answer.start : answer.end], reverse=True)[:5]
        for got, best in zip(answer.table["x"].to_pylist(), true, strict=True):
            assert 0 <= best - int(got) < epsilon


def test_a_shorter_window_can_be_read() -> None:
    values = scores("noisy sine")
    query = sb.TopK(
        k=K, score="x", window=sb.CountWindow(SIZE, slide=SLIDE), algorithm="pabf", epsilon=0.01
    )
    monitor = sb.Monitor(query)
    for start in range(0, ROWS, 5 * SLIDE):
        monitor.push(pa.table({"x": values[start : start + 5 * SLIDE]}))
        end = start + 5 * SLIDE
        for last in (SLIDE, 7 * SLIDE, SIZE):
            true = np.sort(values[max(0, end - last) : end])[::-1][:K]
            gap = true - np.asarray(monitor.peek(last=last).table["x"])
            assert (gap >= 0).all()
            assert (gap < 0.01).all()


def trades() -> Scores:
    folder = os.environ.get("SKYBAND_DATA")
    path = Path(folder or ".") / "us_equity_trades.parquet"
    if folder is None or not path.exists():
        pytest.skip("SKYBAND_DATA names no folder with us_equity_trades.parquet")
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["price", "volume"]).slice(0, 200_000)
    return np.asarray(pc.multiply(table["price"], pc.cast(table["volume"], pa.float64())))


@pytest.mark.parametrize("filter_name", list(FILTERS))
def test_real_trades(filter_name: str) -> None:
    values = trades()
    spread = float(values.max() - values.min())
    for epsilon in (0.0001 * spread, 0.001 * spread):
        share, _ = share_kept(
            values, epsilon, 10_000, 500, 50, delta=0.99, options={"filter": filter_name}
        )
        assert share == 1.0


def test_integers_of_all_widths_are_one_type_to_the_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be compiled for each width, seconds each time."""
    seen, run = set(), pabf_filter.filter_runs

    def recorded(score: Any, *rest: Any) -> Any:
        seen.add(str(score.dtype))
        return run(score, *rest)

    monkeypatch.setattr(pabf_filter, "filter_runs", recorded)
    window = sb.CountWindow(100, slide=20)
    query = sb.TopK(k=2, score="x", window=window, algorithm="pabf", epsilon=1.0)
    values = np.random.default_rng(1).integers(0, 100, 400)
    want = sb.rank(pa.table({"x": values}), query)["x"].to_pylist()
    for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
        table = sb.rank(pa.table({"x": values.astype(kind)}), query)
        assert table["x"].to_pylist() == want
        assert table.schema.field("x").type == kind
    assert seen == {"int64"}


def test_filters_stop_most_rows_and_rescan_as_often_as_delta_says() -> None:
    values = np.random.default_rng(0).random(400_000)
    for name in ("stationary", "time", "none-known", "auto"):
        _, stats = share_kept(
            values, 0.001, 20_000, 1_000, 50, delta=0.95, options={"filter": name}
        )
        assert stats["filter_panes"] >= 400  # a pane that spans two batches is filtered twice
        assert stats["filter_survivors"] < 0.2 * 400 * 1_000
        assert stats["filter_rescans"] <= 0.12 * 400


def test_the_time_filter_follows_a_curve_that_the_stationary_one_cannot() -> None:
    values = np.sin(np.arange(400_000) * np.pi / 40_000)
    values += 0.01 * np.random.default_rng(0).random(len(values))
    _, time = share_kept(values, 0.001, 20_000, 1_000, 50, delta=0.95, options={"filter": "time"})
    _, still = share_kept(
        values, 0.001, 20_000, 1_000, 50, delta=0.95, options={"filter": "stationary"}
    )
    work = [stats["filter_survivors"] + 1_000 * stats["filter_rescans"] for stats in (time, still)]
    assert work[0] < 0.5 * work[1]


@pytest.mark.parametrize("name", ["none", "", None, 3])
def test_unknown_filters_are_refused(name: object) -> None:
    with pytest.raises(sb.QueryError, match="stationary"):
        sb.Monitor(
            sb.TopK(
                k=1, score="x", window=sb.CountWindow(5), algorithm="pabf", epsilon=1.0,
                options={"filter": name},
            )
        )  # fmt: skip


def test_unknown_options_are_refused() -> None:
    with pytest.raises(sb.QueryError, match="filter"):
        sb.Monitor(
            sb.TopK(
                k=1, score="x", window=sb.CountWindow(5), algorithm="pabf", epsilon=1.0,
                options={"sieve": "off"},
            )
        )  # fmt: skip


def test_falling_scores_keep_few_rows_of_a_level() -> None:
    values = scores("falling")
    _, stats = share_kept(values, 0.05, SIZE, SLIDE, K)
    assert stats["retained"] <= (0.1 / 0.05 + 3) * K + 32 * K
