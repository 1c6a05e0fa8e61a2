"""Two workers that run the tests start with different families, and every test runs once."""

from __future__ import annotations

import pytest

from support import shares


@pytest.mark.parametrize(
    ("nodeid", "family"),
    [
        ("tests/contract/test_every_step.py::test_time_windows[UncertainTopK-bs-0]", "uncertain"),
        ("tests/contract/test_every_step.py::test_time_windows[TopK-sma-0]", "topk"),
        ("tests/contract/test_stats.py::test_it[SkylineJoin-lsj-1]", "skyline"),
        ("tests/kernels/test_kernels_topk.py::test_long_runs[3]", "topk"),
        ("tests/frequency/test_frequency.py::test_it", "frequency"),
        ("docs/fused.md::fused.md", "fused"),
        ("tests/data/test_keys.py::test_topk", None),
    ],
)
def test_the_family_of_a_test(nodeid: str, family: str | None) -> None:
    assert shares.family_of(nodeid) == family


@pytest.mark.parametrize("others", [0, 3, 100])
def test_each_half_starts_with_its_own_families(others: int) -> None:
    kinds = ("TopK", "HeavyHitters", "UncertainTopK", "FusedTopK", "Skyline", "SkylineJoin")
    tests = [f"tests/a.py::test[{kind}-{n}]" for n in range(7) for kind in kinds]
    tests += [f"tests/b.py::test[{n}]" for n in range(others)]
    found = shares.in_two(tests, key=str)
    assert sorted(found) == sorted(tests)
    families = [shares.family_of(test) for test in found]
    second = families.index(shares.SECOND[0])
    assert not {*families[:second]} & {*shares.SECOND}
    assert not {*families[second:]} & {*shares.FIRST}
    if others == 100:
        assert second == len(tests) // 2
