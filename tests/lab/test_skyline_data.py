"""Generators of points and of pairs of streams; the experiments' settings."""

from __future__ import annotations

import numpy as np
import pytest

from lab.datasets.skyline import DISTRIBUTIONS, points, two_streams


@pytest.mark.parametrize("dimensions", [2, 3, 5])
def test_distributions_are_what_they_are_called(dimensions: int) -> None:
    found = {}
    for name in DISTRIBUTIONS:
        made = points(name, 4000, dimensions, np.random.default_rng(3))
        assert made.shape == (4000, dimensions)
        assert ((made >= 0) & (made <= 1)).all()
        correlation = np.asarray(np.corrcoef(made.T))[np.triu_indices(dimensions, 1)]
        found[name] = correlation
    assert (found["correlated"] > 0.5).all()
    assert (np.abs(found["independent"]) < 0.1).all()
    assert (found["anti-correlated"] < -0.15).all()


def test_unknown_distributions_are_refused() -> None:
    with pytest.raises(ValueError, match="anti-correlated"):
        points("diagonal", 3, 2, np.random.default_rng(1))


def test_rows_join_at_the_rate_asked_for() -> None:
    streams = two_streams(2000, join_rate=0.05, dimensions=3, seed=5)
    keys = [streams[side]["key"].to_numpy() for side in ("left", "right")]
    assert abs((keys[0][:, None] == keys[1][None]).mean() - 0.05) < 0.005
    assert streams["right"].column_names == ["ts", "key", "b0", "b1", "b2"]
    again = two_streams(2000, join_rate=0.05, dimensions=3, seed=5)
    assert all(streams[side].equals(again[side]) for side in streams)
