"""What kernels do to their arrays first, to compile for fewer types and count no references.

Numba counts references to arrays with atomic operations, and a call that takes eight arrays costs
about 100 ns for that alone. A borrowed array has no owner: nothing is counted, and nothing keeps it
alive. So borrow the arguments of a kernel at its top, only if Python calls it, and never return a
borrowed array. An array made in a kernel is freed after the last use of its name; if it is
borrowed, the kernel must return the original.

With ``touch``, a kernel that jumps about in memory asks for data some steps before it needs them.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils as _cgutils
from numba.core import types
from numba.extending import intrinsic
from numba.np import arrayobj as _arrayobj
from numpy.typing import NDArray

Item = TypeVar("Item", bound=np.generic)
cgutils: Any = _cgutils  # untyped
arrayobj: Any = _arrayobj


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
    """The array itself: what `borrowed` is without the JIT."""
    return array


def _ownerless(_context: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = arrayobj.make_array(signature.args[0])(context, builder, arguments[0])
        owner: Any = types.MemInfoPointer
        view.meminfo = context.get_constant_null(owner(types.voidptr))
        view.parent = context.get_constant_null(types.pyobject)
        return view._getvalue()  # noqa: SLF001 - numba's own way to build a value

    return array(array), generate


def _not_touched(array: NDArray[Item], at: int) -> None:
    """Nothing: what `touch` is without the JIT."""


def _prefetch(_context: Any, array: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = arrayobj.make_array(signature.args[0])(context, builder, arguments[0])
        place = context.cast(builder, arguments[1], signature.args[1], types.intp)
        step = cgutils.unpack_tuple(builder, view.strides)[0]
        address = builder.add(builder.ptrtoint(view.data, place.type), builder.mul(place, step))
        pointer = builder.inttoptr(address, cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # To be read, and kept in all levels of the data cache.
        builder.call(prefetch, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, at), generate


_config: Any = numba.config
_plain = bool(_config.DISABLE_JIT)
borrowed: Any = _same if _plain else intrinsic(_ownerless)
"""The same array without an owner; see the module."""
touch: Any = _not_touched if _plain else intrinsic(_prefetch)
"""Bring the item (the row) of an array at a place, which need not exist, into the cache."""
borrowed.plain, touch.plain = _same, _not_touched  # for kernels that are interpreted at first
