"""How kernels are compiled: as little as possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba.core import codegen

from skyband.fused.kernels import guard
from skyband.kernels import hashing, sorting
from skyband.kernels import jit as jit_module
from skyband.kernels.arrange import with_room
from skyband.kernels.borrow import copy_rows
from skyband.kernels.jit import for_python, jit, piece
from skyband.kernels.patient import interpreted, kernel_of
from support.unwritten import VISIBLE

pytestmark = pytest.mark.skipif(VISIBLE, reason="nothing is compiled")


@jit
def _plus(x: int, y: int) -> int:
    return x + y


@piece
def _twice(x: int) -> int:
    return _plus(x, 0) + _plus(x, 1) - 1


def _sum_of_twice(values: Any) -> int:
    total = 0
    for i in range(len(values)):
        total += _twice(values[i])
    return total


def test_a_literal_is_no_type_and_parts_have_no_machine_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jit_module, "cache_folder", lambda: None)
    made: list[str] = []
    library: Any = codegen.JITCodeLibrary
    finish = library._finalize_specific

    def noted(self: Any) -> None:
        made.append(self.name)
        finish(self)

    monkeypatch.setattr(library, "_finalize_specific", noted)
    total: Any = for_python(_sum_of_twice)
    assert total(np.arange(5)) == 20
    parts: list[Any] = [_plus, _twice]
    assert [len(part.signatures) for part in parts] == [1, 1]
    assert "_sum_of_twice" in made
    assert not {"_plus", "_twice"} & set(made)
    # Python may call a part all the same: then it is compiled once more, in full.
    assert _plus(2, 3) == 5


def test_rows_are_copied_in_any_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_module, "cache_folder", lambda: None)

    def grown(array: Any, used: int) -> Any:
        more = with_room(array, used, len(array) + 1)
        copy_rows(more[used:], array, 1)
        return more

    compiled: Any = for_python(grown)
    for array in (np.arange(4.0), np.arange(12).reshape(4, 3)):
        found = compiled(array, 2)
        assert found.shape == (8, *array.shape[1:])
        assert np.array_equal(found[:2], array[:2])
        assert np.array_equal(found[2], array[0])
        assert not found[3:].any()


# Stand-ins ---------------------------------------------------------------------------------------


def _cases() -> dict[str, tuple[Any, list[tuple[Any, ...]]]]:
    rng = np.random.default_rng(3)
    words = rng.integers(0, 1 << 63, 100).astype(np.uint64)
    keys, ties = rng.integers(-2, 3, 60), rng.integers(0, 2, 60)
    extreme = np.array([-(1 << 63), (1 << 63) - 1, 0, -1, -(1 << 63)])
    offsets = np.array([0, 0, 7, 7, 40, 59, 60])
    return {
        "_hash_words": (hashing._hash_words, [(words,), (words[:0],)]),
        "combine_hashes": (hashing.combine_hashes, [(words, words[::-1].copy())]),
        "guard_keys": (guard.guard_keys, [(words, (ties[:50].repeat(2) - 1).astype(np.int32))]),
        "sort_runs": (
            sorting.sort_runs,
            [
                (keys, ties, offsets),
                (keys, ties, offsets[2:5]),
                (extreme, extreme, np.array([0, 5])),
                (keys[:0], ties[:0], np.array([0])),
            ],
        ),
    }


@pytest.mark.parametrize("name", _cases())
def test_a_stand_in_does_what_its_kernel_does(name: str) -> None:
    kernel, calls = _cases()[name]
    plain = interpreted(kernel.__wrapped__)
    for args in calls:
        results = []
        for run in (kernel.stand_in, plain):
            own = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
            with np.errstate(all="ignore"):
                results.append((run(*own), own))
        _same(*results)


def _same(one: Any, other: Any) -> None:
    if isinstance(one, (tuple, list)):
        for a, b in zip(one, other, strict=True):
            _same(a, b)
    else:
        np.testing.assert_array_equal(one, other)


def test_a_stand_in_runs_until_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    from skyband.kernels import patient

    monkeypatch.setattr(jit_module, "cache_folder", lambda: None)
    monkeypatch.setitem(patient._told, "hurry", False)
    total: Any = kernel_of(stand_in=lambda values: int(2 * values.sum()))(_sum_of_twice)
    many = np.arange(100_000)
    assert total(many) == 2 * many.sum()
    assert not total.__wrapped__.signatures
    monkeypatch.setattr(patient, "_PATIENCE", 0.0)
    total = kernel_of(stand_in=lambda values: -1)(_sum_of_twice)
    assert total(many) == 2 * many.sum()


def test_work_is_counted_as_a_kernel_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from skyband.kernels import patient

    monkeypatch.setattr(jit_module, "cache_folder", lambda: None)
    monkeypatch.setitem(patient._told, "hurry", False)
    monkeypatch.setattr(patient, "_PATIENCE", 60.0)
    total: Any = kernel_of(work=lambda values: len(values) // 100)(_sum_of_twice)
    many = np.arange(10_000)
    assert total(many) == 2 * many.sum()
    assert not total.__wrapped__.signatures
    few = kernel_of(work=lambda values: 1 << 20)(_sum_of_twice)
    assert few(np.arange(3)) == 6
    assert few.__wrapped__.signatures  # type: ignore[attr-defined]
