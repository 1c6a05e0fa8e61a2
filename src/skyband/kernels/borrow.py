"""What kernels do to their arrays first, to compile for fewer types and count no references.

Numba counts references to arrays with atomic operations, and a call that takes eight arrays costs
about 100 ns for that alone. A borrowed array has no owner: nothing is counted, and nothing keeps it
alive. So borrow the arguments of a kernel at its top, only if Python calls it, and never return a
borrowed array. An array made in a kernel is freed after the last use of its name; if it is
borrowed, the kernel must return the original.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numba
import numpy as np
from numba.extending import intrinsic
from numpy.typing import NDArray

from skyband.kernels.jit import PLAIN

Item = TypeVar("Item", bound=np.generic)


def frozen(array: NDArray[Item]) -> NDArray[Item]:
    """A contiguous, read-only view.

    Arrow's buffers are read-only, which numba treats as a separate type. A kernel whose arrays all
    pass through here is compiled only once.
    """
    array = np.ascontiguousarray(array)
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _same(array: NDArray[Item]) -> NDArray[Item]:
    """The same array without an owner, see the module; without our compiler, the array itself."""
    return array


def _assigned(target: Any, source: Any, rows: int) -> None:
    """Copy the first rows (or items) of one array into another of the same type.

    Both are contiguous. In a kernel the slices below would take numba two seconds to compile: they
    include the text of an error message.
    """
    target[:rows] = source[:rows]


_config: Any = numba.config
if _config.DISABLE_JIT:
    borrowed: Any = _same
    copy_rows: Any = _assigned
elif PLAIN:
    borrowed, copy_rows = numba.njit(_same), numba.njit(_assigned)
else:
    from skyband.kernels.compiler import copied, ownerless

    borrowed, copy_rows = intrinsic(ownerless), intrinsic(copied)
    # For kernels that are interpreted at first.
    borrowed.plain, copy_rows.plain = _same, _assigned
