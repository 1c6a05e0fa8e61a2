"""Types of numpy arrays, under the names that the code uses; every module may import them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Codes", "Floats", "Hashes", "Ints", "Mask"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
"""Dense numbers of groups, items or objects."""
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
