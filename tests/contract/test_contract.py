"""The contract of an algorithm stays small, and no class stands on a tower of others."""

from __future__ import annotations

import inspect
import pkgutil
from abc import ABC
from importlib import import_module
from typing import Protocol

import pytest

import skyband
from skyband.contract import capabilities
from skyband.contract.synopsis import Synopsis

MOST_METHODS, MOST_FLAGS = 16, 6
DEEPEST = 3
OPTIONAL = ("skyband.spark", "skyband.serve", "skyband.jobs", "skyband.plot", "skyband.cli")
"""Folders whose modules need libraries that may be missing."""


def public(cls: type) -> set[str]:
    return {name for name, value in vars(cls).items() if callable(value) and name[0] != "_"}


def test_the_contract_has_few_methods_and_flags() -> None:
    flags = [name for name, kind in Synopsis.__annotations__.items() if kind == "bool"]
    assert 0 < len(public(Synopsis)) <= MOST_METHODS
    assert 0 < len(flags) <= MOST_FLAGS


@pytest.mark.parametrize("name", capabilities.__all__)
def test_a_capability_is_no_part_of_the_contract(name: str) -> None:
    methods = public(getattr(capabilities, name))
    assert methods
    assert not methods & public(Synopsis)


def depth(cls: type) -> int:
    """How many of our classes stand on top of one another, above one that is abstract by itself."""
    if not cls.__module__.startswith("skyband") or {ABC, Protocol} & set(cls.__bases__):
        return 0
    return 1 + max(map(depth, cls.__bases__))


def classes() -> set[type]:
    found: set[type] = set()
    for module in pkgutil.walk_packages(skyband.__path__, "skyband."):
        try:
            members = vars(import_module(module.name)).values()
        except ImportError:
            assert module.name.startswith(OPTIONAL)
            continue
        found |= {each for each in members if inspect.isclass(each)}
    return {cls for cls in found if cls.__module__.startswith("skyband")}


def test_inheritance_is_at_most_three_deep() -> None:
    every = classes()
    assert len(every) > 250
    deep = {cls.__qualname__ for cls in every if depth(cls) > DEEPEST}
    assert not deep


def test_depth_is_counted_above_the_abstract_class() -> None:
    class Base(Synopsis):  # type: ignore[type-arg]
        __module__ = "skyband.test"

    class Upper(Base):
        __module__ = "skyband.test"

    assert [depth(cls) for cls in (Synopsis, Base, Upper, dict)] == [0, 1, 2, 0]
