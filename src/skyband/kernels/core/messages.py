"""Copies the records of a Kafka client from its memory to columns, without Python objects.

The client hands out an array of addresses, one per message. At each address lies a struct of its
public C interface (``rd_kafka_message_t``, on machines with 64 bits):

    byte   0       16         24       32      40   48          56      64
           error   partition  payload  length  key  key length  offset  the client's own

These kernels read and free memory that Python does not know, so every address must be valid.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils as _cgutils
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from skyband.arrays import Codes, Ints, Mask
from skyband.kernels.core.patient import kernel_of

cgutils: Any = _cgutils  # untyped

PARTITION, PAYLOAD, LENGTH, OFFSET = 16, 24, 32, 56
FAULT = 3
"""Columns of a fault: its code, its partition, its offset."""

_WORD = ir.IntType(64)
_HALF = ir.IntType(32)


# Memory -------------------------------------------------------------------------------------------


def _plain_word(address: int) -> int:
    return ctypes.c_int64.from_address(int(address)).value


def _plain_half(address: int) -> int:
    return ctypes.c_int32.from_address(int(address)).value


def _plain_copy(address: int, size: int, target: NDArray[np.uint8], at: int) -> None:
    if size:
        target[at : at + size] = np.frombuffer(ctypes.string_at(int(address), int(size)), np.uint8)


def _plain_call(function: int, address: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(int(address))


def _load_word(_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()))

    return types.int64(types.int64), generate


def _load_half(_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = builder.load(builder.inttoptr(arguments[0], _HALF.as_pointer()))
        return builder.sext(found, _WORD)

    return types.int64(types.int64), generate


def _copy_bytes(_context: Any, address: Any, size: Any, target: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, count, array, place = arguments
        view = context.make_array(signature.args[2])(context, builder, array)
        begin = builder.add(builder.ptrtoint(view.data, _WORD), place)
        cgutils.raw_memcpy(
            builder,
            builder.inttoptr(begin, cgutils.voidptr_t),
            builder.inttoptr(source, cgutils.voidptr_t),
            count,
            1,
        )
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, target, types.int64), generate


def _call_with(_context: Any, function: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t])
        called = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(called, [builder.inttoptr(arguments[1], cgutils.voidptr_t)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


_config: Any = numba.config
_plain = bool(_config.DISABLE_JIT)
word: Any = _plain_word if _plain else intrinsic(_load_word)
"""The 8 bytes at an address."""
half: Any = _plain_half if _plain else intrinsic(_load_half)
"""The 4 bytes at an address."""
copy_bytes: Any = _plain_copy if _plain else intrinsic(_copy_bytes)
"""Copy so many bytes from an address to an array of bytes, from a place on."""
call_with: Any = _plain_call if _plain else intrinsic(_call_with)
"""Call the C function at an address with one pointer."""
word.plain, half.plain = _plain_word, _plain_half  # for kernels that are interpreted at first
copy_bytes.plain, call_with.plain = _plain_copy, _plain_call


# Messages -----------------------------------------------------------------------------------------


def _messages(messages: Ints, *_: Any) -> int:
    """The work of a call: the columns are as long as a whole batch."""
    return len(messages)


@kernel_of(work=_messages)
def take_messages(
    messages: Ints, rows: int, text: NDArray[np.uint8], ends: Codes, valid: Mask, partition: Codes,
    offset: Ints, faults: Ints, destroy: int,
) -> tuple[int, int]:  # fmt: skip
    """Copy messages to the columns of a batch that has `rows` rows, and give them back.

    `ends` has the end of each value in `text`, after a 0. A message with an error becomes a row of
    `faults`. `destroy` is the address of the client's function. Returns the rows that the batch has
    now and the number of faults. If `text` is too short, nothing is done, and the length that it
    needs is returned with -1.
    """
    at = int(ends[rows])
    needed = at
    for i in range(len(messages)):
        if half(messages[i]) == 0:
            needed += word(messages[i] + LENGTH)
    if needed > len(text):
        return needed, -1
    wrong = 0
    for i in range(len(messages)):
        message = messages[i]
        error = half(message)
        if error == 0:
            size = word(message + LENGTH)
            payload = word(message + PAYLOAD)
            copy_bytes(payload, size, text, at)
            at += size
            ends[rows + 1] = at
            valid[rows] = payload != 0
            partition[rows] = half(message + PARTITION)
            offset[rows] = word(message + OFFSET)
            rows += 1
        else:
            faults[wrong, 0] = error
            faults[wrong, 1] = half(message + PARTITION)
            faults[wrong, 2] = word(message + OFFSET)
            wrong += 1
        call_with(destroy, message)
    return rows, wrong


def take_no_messages() -> tuple[int, int]:
    """Compile the kernel, if it has to be, as a job that reads a topic calls it."""
    none, numbers, valid = np.zeros(0, np.int64), np.zeros(1, np.int32), np.zeros(1, np.bool_)
    text, faults = np.zeros(1, np.uint8), np.zeros((1, FAULT), np.int64)
    return take_messages(none, 0, text, numbers, valid, numbers, none, faults, 0)
