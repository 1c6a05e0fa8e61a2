"""Workers that run the tests start with different families, and every test runs once."""

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


def test_long_tests_come_first_in_both_halves() -> None:
    tests = [f"tests/a.py::test[{kind}-{n}]" for n in range(5) for kind in ("TopK", "Skyline")]
    tests += [f"tests/long.py::test[{n}]" for n in range(3)]
    found = shares.in_two(tests, key=str, is_long=lambda test: "long" in test)
    assert sorted(found) == sorted(tests)
    assert [n for n, test in enumerate(found) if "long" in test] == [0, 1, 7]


@pytest.mark.parametrize("workers", [3, 4, 5])
@pytest.mark.parametrize("long", [0, 3, 9])
def test_every_worker_starts_with_its_share_of_long_tests(workers: int, long: int) -> None:
    tests = [f"tests/a.py::test[{kind}-{n}]" for n in range(20) for kind in ("TopK", "Skyline")]
    tests += [f"tests/long.py::test[{n}]" for n in range(long)]
    found = shares.in_shares(tests, workers, key=str, is_long=lambda test: "long" in test)
    assert sorted(found) == sorted(tests)
    left, shorts = list(found), list[list[bool]]()
    for worker in range(workers):
        size = len(left) // (workers - worker)
        shorts.append(["long" not in test for test in left[:size]])
        left = left[size:]
    counts = [each.count(False) for each in shorts]
    assert sum(counts) == long
    assert max(counts) - min(counts) <= 1
    assert all(each == sorted(each) for each in shorts), "the long ones come first"


def test_long_tests_of_a_group_stay_together() -> None:
    tests = [f"tests/a.py::test[{kind}-{n}]" for n in range(5) for kind in ("TopK", "Skyline")]
    tests[3:3] = [f"tests/{name}.py::test[{n}]" for n in range(2) for name in ("one", "two", "own")]
    found = shares.in_two(
        tests,
        key=str,
        is_long=lambda test: "/a.py" not in test,
        group_of=lambda test: None if "own" in test else "server",
    )
    assert sorted(found) == sorted(tests)
    assert [n for n, test in enumerate(found) if "/one" in test or "/two" in test] == [0, 1, 2, 3]
    assert [n for n, test in enumerate(found) if "/own" in test] == [9, 10]


def test_a_group_has_one_of_several_workers() -> None:
    tests = [f"tests/a.py::test[{n}]" for n in range(18)]
    tests += [f"tests/{'server' if n % 2 else 'own'}.py::test[{n}]" for n in range(6)]
    found = shares.in_shares(
        tests,
        3,
        key=str,
        is_long=lambda test: "/a.py" not in test,
        group_of=lambda test: "server" if "server" in test else None,
    )
    assert sorted(found) == sorted(tests)
    workers = [found[first : first + 8] for first in (0, 8, 16)]
    assert sorted(sum("server" in test for test in each) for each in workers) == [0, 0, 3]
    assert sorted(sum("own" in test for test in each) for each in workers) == [0, 1, 2]
