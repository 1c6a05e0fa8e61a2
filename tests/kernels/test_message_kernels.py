"""The kernel that copies Kafka's messages to columns, over messages laid out as the client does."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skyband.kernels.core import messages, patient
from skyband.kernels.core.patient import interpreted

pytestmark = pytest.mark.nojit


class Message(ctypes.Structure):
    """``rd_kafka_message_t`` of the client's header."""

    _fields_ = [
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_char_p),
        ("len", c_size_t),
        ("key", c_char_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("_private", c_void_p),
    ]


def message(offset: int, value: bytes | None, partition: int = 0, err: int = 0) -> Message:
    size = len(value or b"")
    return Message(err, 1, partition, value, size, b"k", 1, offset, None)


SENT = [
    message(7, b'{"a": 1}', partition=2),
    message(8, None),
    message(9, b"why it failed", partition=3, err=-191),
    message(10, b""),
    message(2**40, "é".encode() * 50, partition=2**31 - 1),
    message(11, b"last"),
]


def test_the_layout() -> None:
    assert Message.partition.offset == messages.PARTITION
    assert Message.payload.offset == messages.PAYLOAD
    assert Message.len.offset == messages.LENGTH
    assert Message.offset.offset == messages.OFFSET


@pytest.mark.parametrize("compiled", [True, False])
def test_messages_become_columns(compiled: bool) -> None:
    destroyed: list[int] = []
    destroy = ctypes.CFUNCTYPE(None, c_void_p)(destroyed.append)
    run = messages.take_messages
    kernel = getattr(run, "__wrapped__", run)
    run = kernel if compiled or not hasattr(kernel, "py_func") else interpreted(kernel)
    addresses = np.array([ctypes.addressof(each) for each in SENT], np.int64)
    text, ends = np.zeros(103, np.uint8), np.full(20, -1, np.int32)
    text[:2], ends[:2] = (ord("x"), ord("y")), (0, 2)  # there is a row already
    valid, partition, offset = np.ones(20, np.bool_), np.zeros(20, np.int32), np.zeros(20, np.int64)
    faults = np.zeros((20, messages.FAULT), np.int64)
    address = int(ctypes.cast(destroy, c_void_p).value or 0)
    rest = ends, valid, partition, offset, faults, address
    needed = 2 + len(b'{"a": 1}') + 100 + len(b"last")
    assert run(addresses, 1, text, *rest) == (needed, -1)  # one byte is missing
    assert not destroyed
    assert ends[2] == -1
    text = np.append(text, np.zeros(needed - len(text), np.uint8))
    assert run(addresses, 1, text, *rest) == (6, 1)
    assert destroyed == addresses.tolist()
    assert faults[0].tolist() == [-191, 3, 9]
    bits = np.packbits(valid[:6], bitorder="little")
    buffers = [pa.py_buffer(bits), pa.py_buffer(ends[:7]), pa.py_buffer(text)]
    values = pa.Array.from_buffers(pa.binary(), 6, buffers).to_pylist()
    assert values == [b"xy", b'{"a": 1}', None, b"", "é".encode() * 50, b"last"]
    assert partition[1:6].tolist() == [2, 0, 0, 2**31 - 1, 0]
    assert offset[1:6].tolist() == [7, 8, 10, 2**40, 11]


def test_it_is_compiled_ahead_as_a_reader_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = pytest.importorskip("skyband.jobs.local.librdkafka")
    kernel: Any = getattr(messages.take_messages, "__wrapped__", None)
    if kernel is None or not hasattr(kernel, "signatures"):
        pytest.skip("nothing is compiled without the JIT")
    monkeypatch.setitem(patient._told, "hurry", True)
    assert messages.take_no_messages() == (0, 0)
    known = list(kernel.signatures)
    columns = reader._Columns(1 << 18, 1 << 21)
    assert columns.add(np.zeros(8, np.int64)[:0], np.zeros((8, messages.FAULT), np.int64), 0) == 0
    assert list(kernel.signatures) == known
