"""Arrays that grow while a kernel writes to them."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.core import cgutils as _cgutils
from numba.core import types
from numba.extending import intrinsic
from numba.np import arrayobj as _arrayobj

from skyband.kernels.core.jit import jit

cgutils: Any = _cgutils  # untyped
arrayobj: Any = _arrayobj


def _assigned(target: Any, source: Any, rows: int) -> None:
    """What `copy_rows` is without the JIT."""
    target[:rows] = source[:rows]


def _copied(_context: Any, target: Any, source: Any, rows: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        into = arrayobj.make_array(signature.args[0])(context, builder, arguments[0])
        out_of = arrayobj.make_array(signature.args[1])(context, builder, arguments[1])
        count = context.cast(builder, arguments[2], signature.args[2], types.intp)
        row = cgutils.unpack_tuple(builder, out_of.strides)[0]
        cgutils.raw_memmove(builder, into.data, out_of.data, count, row)
        return context.get_dummy_value()

    return types.void(target, source, rows), generate


_config: Any = numba.config
copy_rows: Any = _assigned if _config.DISABLE_JIT else intrinsic(_copied)
"""Copy the first rows (or items) of one array into another of the same type; both are contiguous.

``target[:rows] = source[:rows]`` does the same, but takes numba two seconds to compile: it includes
the text of an error message.
"""
copy_rows.plain = _assigned  # for kernels that are interpreted at first


@jit
def with_room(array: Any, used: int, needed: int) -> Any:
    """The array if it has ``needed`` rows, else a copy of the ``used`` ones with more room."""
    if needed <= len(array):
        return array
    more = np.zeros((max(needed, 2 * len(array)), *array.shape[1:]), array.dtype)
    copy_rows(more, array, used)
    return more
