"""Arrays without an owner, for kernels that call others in their inner loops.

Numba counts references to arrays with atomic operations, and a call that takes eight arrays costs
about 100 ns for that alone. A borrowed array has no owner, so nothing is counted. It must not outlive
the array it was made from: borrow at the top of a kernel that Python calls, and never return one.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numba
from numba.core import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

__all__ = ["borrowed"]

Array = TypeVar("Array")


def _same(array: Array) -> Array:
    """The array itself: what `borrowed` is without the JIT."""
    return array


@intrinsic
def _ownerless(_context: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = make_array(signature.args[0])(context, builder, arguments[0])
        view.meminfo = context.get_constant_null(types.MemInfoPointer(types.voidptr))
        view.parent = context.get_constant_null(types.pyobject)
        return view._getvalue()

    return array(array), generate


borrowed: Any = _same if numba.config.DISABLE_JIT else _ownerless
"""The same array without an owner; see the module."""
