"""Memory that nobody has written to, made visible.

``np.empty`` returns whatever the memory held before, which is mostly zeros in a short test. Where
kernels are interpreted (``NUMBA_DISABLE_JIT=1``), it can be filled with a byte of our choice: 0xFF
makes every float NaN and every signed integer -1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numba
import numpy as np

_config: Any = numba.config
VISIBLE = bool(_config.DISABLE_JIT)
"""Compiled kernels do not call numpy's functions, so there it stays invisible."""


@contextmanager
def filled(byte: int) -> Iterator[None]:
    """Within this context, new arrays without values hold this byte everywhere."""
    empty = mock.patch.object(np, "empty", _filling(np.empty, byte))
    like = mock.patch.object(np, "empty_like", _filling(np.empty_like, byte))
    with empty, like:
        yield


def _filling(make: Callable[..., Any], byte: int) -> Callable[..., Any]:
    def made(*args: Any, **named: Any) -> Any:
        array = make(*args, **named)
        if array.size and not array.dtype.hasobject and array.flags.c_contiguous:
            array.reshape(-1).view(np.uint8)[:] = byte
        return array

    return made
