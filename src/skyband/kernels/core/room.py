"""Arrays that grow while a kernel writes to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.kernels.core.jit import jit


@jit
def with_room(array: Any, used: int, needed: int) -> Any:
    """The array if it has ``needed`` rows, else a copy of the ``used`` ones with more room."""
    if needed <= len(array):
        return array
    more = np.zeros((max(needed, 2 * len(array)), *array.shape[1:]), array.dtype)
    more[:used] = array[:used]
    return more
