"""States as flat arrays, saved and restored attribute by attribute."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from skyband.arrays import Saved, State
from skyband.data.packing import prefixed, under

__all__ = ["FlatState", "Parts", "bytes_of", "load", "save"]

Parts = tuple[tuple[str, str], ...]
"""Pairs of a prefix of names in a snapshot, and the attribute whose state has this prefix."""


class FlatState:
    """The state of an object: the attributes that its class names."""

    saved_arrays: ClassVar[tuple[str, ...]] = ()
    """Attributes that hold an array or an integer, each saved under its own name."""
    saved_parts: ClassVar[Parts] = ()
    """Attributes that have a state of their own."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays and parts."""
        return bytes_of(self)

    def state(self) -> State:
        """A copy of everything, as flat arrays."""
        return save(self)

    def restore(self, arrays: Saved) -> None:
        """Replace everything by what ``state`` returned."""
        load(self, arrays)


def save(owner: Any) -> State:
    """Copies of the attributes that the owner's class names."""
    found = {name: np.array(getattr(owner, name), ndmin=1) for name in owner.saved_arrays}
    for prefix, name in owner.saved_parts:
        found |= prefixed(prefix, getattr(owner, name).state())
    return found


def load(owner: Any, arrays: Saved) -> None:
    """Set the attributes that the owner's class names to copies of what was saved."""
    for name in owner.saved_arrays:
        is_number = isinstance(getattr(owner, name), int)
        setattr(owner, name, int(arrays[name][0]) if is_number else arrays[name].copy())
    for prefix, name in owner.saved_parts:
        getattr(owner, name).restore(under(arrays, prefix))


def bytes_of(owner: Any) -> int:
    """Bytes of the attributes that the owner's class names."""
    names = (*owner.saved_arrays, *(name for _, name in owner.saved_parts))
    held = [getattr(owner, name) for name in names]
    return sum(int(each.nbytes) for each in held if not isinstance(each, int))
