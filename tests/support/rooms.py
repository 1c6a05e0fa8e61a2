"""Counts how often a reader changes folders and files while following one batch through the code.

Every call of a function of Skyband is a step. A change of room is a step in another folder of
``skyband`` than the step before. Not counted as steps are properties, functions without a name or
with double underscores, and what every room uses: ``data/``, ``query/``, ``kernels/``,
``arrays.py``, ``window.py`` with ``panes.py``, ``registry.py``, and the values
of ``contract/rows.py`` and ``contract/runs.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import skyband

_ROOT = Path(skyband.__file__).parent
_SHARED = (
    "data/", "query/", "kernels/", "arrays.py", "window.py", "panes.py", "local_days.py",
    "registry.py", "contract/r",
)  # fmt: skip


def walked(work: Callable[[], Any]) -> list[str]:
    """The file of each step, in order."""
    files: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(_ROOT) and not _is_detail(frame):
            place = path.relative_to(_ROOT).as_posix()
            if not place.startswith(_SHARED):
                files.append(place)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return files


def rooms_of(files: list[str]) -> list[str]:
    return [file.partition("/")[0] for file in files]


def changes(places: list[str]) -> int:
    return sum(one != other for one, other in pairwise(places))


def _is_detail(frame: FrameType) -> bool:
    *owners, name = frame.f_code.co_qualname.split(".")
    if name.startswith(("__", "<")):
        return True
    owner: Any = sys.modules.get(frame.f_globals.get("__name__", ""))
    for each in owners:
        owner = getattr(owner, each, None)
    classes = owner.__mro__ if isinstance(owner, type) else ()
    found = next((vars(each)[name] for each in classes if name in vars(each)), None)
    return isinstance(found, property | cached_property)
