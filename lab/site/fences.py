"""A griffe extension: doctests in docstrings become fenced code, which Markdown shows as it is."""

from __future__ import annotations

import importlib
import re
from contextlib import suppress
from typing import Any

Extension: Any = object  # only the docs extra has griffe; the function below works without
with suppress(ImportError):
    Extension = importlib.import_module("griffe").Extension

__all__ = ["Fences", "fenced"]

_BLOCK = re.compile(r"^( *)>>> .*(?:\n(?! *\n).*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """A docstring with a fence around every doctest."""
    return _BLOCK.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)


class Fences(Extension):  # type: ignore[misc]
    """Puts fences into every docstring that is shown."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called by griffe for each object that it has loaded."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
