"""States as flat arrays, saved and restored attribute by attribute.

What is restored may have been forged, and kernels do not check their indices. So every array is
compared with what its state declares: its type, its length and the range of its values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skyband.arrays import Saved, State
from skyband.data.packing import prefixed, under
from skyband.errors import EngineError

Parts = tuple[tuple[str, str], ...]
"""Pairs of a prefix of names in a snapshot, and the attribute whose state has this prefix."""


class Form(NamedTuple):
    """What is known of an array in a snapshot, besides its type."""

    length: int | str
    """Its length; a name stands for the same length wherever it is used."""
    low: int | None = None
    """Its least value."""
    below: int | str | None = None
    """What all its values are less than: a number, or a length by name."""
    ascends: bool = False
    """Whether no value is less than the one before it."""


_FAR = 1 << 62
Forms = Mapping[str, Form]


def require(is_so: Any, what: str) -> None:
    """Refuse a snapshot if something that its state relies on is not so."""
    if not is_so:
        raise EngineError(
            f"the snapshot is inconsistent ({what}) and not as Skyband wrote it; use another copy"
        )


def whole(value: Any, least: int = 0) -> int:
    """A whole number from the header of a snapshot."""
    require(type(value) is int and least <= value <= _FAR, f"{value!r} is no number")
    return int(value)


def admitted(arrays: Saved, like: Mapping[str, Any], forms: Forms, **lengths: int) -> State:
    """Copies of saved arrays, if they have the types of those in ``like`` and these forms.

    ``lengths`` are lengths that are known by name.
    """
    for name, model in like.items():
        require(name in arrays, f"{name} is missing")
        array = arrays[name]
        alike = array.dtype == model.dtype and array.ndim == model.ndim
        alike = alike and array.shape[1:] == model.shape[1:]
        require(alike, f"{name} is {array.dtype}{array.shape}")
        form = forms.get(name)
        if form is not None:
            known = form.length
            if isinstance(known, str):
                known = lengths.setdefault(known, len(array))
            require(len(array) == known, f"{name} has length {len(array)}, not {known}")
    for name, form in forms.items():
        array = arrays[name]
        below = lengths[form.below] if isinstance(form.below, str) else form.below
        if not len(array):
            continue
        require(form.low is None or array.min() >= form.low, f"{name} is below {form.low}")
        require(below is None or array.max() < below, f"{name} is not below {below}")
        require(not form.ascends or (array[1:] >= array[:-1]).all(), f"{name} descends")
    return {name: arrays[name].copy() for name in like}


class FlatState:
    """The state of an object: the attributes that its class names."""

    saved_arrays: ClassVar[tuple[str, ...]] = ()
    """Attributes that hold an array or an integer, each saved under its own name."""
    saved_forms: ClassVar[Forms] = {}
    """What is known of these arrays."""
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
    like = {name: np.array(getattr(owner, name), ndmin=1) for name in owner.saved_arrays}
    for name, array in admitted(arrays, like, owner.saved_forms).items():
        if isinstance(getattr(owner, name), int):
            require(len(array) == 1, f"{name} is no number")
            setattr(owner, name, int(array[0]))
        else:
            setattr(owner, name, array)
    for prefix, name in owner.saved_parts:
        getattr(owner, name).restore(under(arrays, prefix))


def bytes_of(owner: Any) -> int:
    """Bytes of the attributes that the owner's class names."""
    names = (*owner.saved_arrays, *(name for _, name in owner.saved_parts))
    held = [getattr(owner, name) for name in names]
    return sum(int(each.nbytes) for each in held if not isinstance(each, int))
