"""Reads a topic with librdkafka, the C library inside confluent-kafka, called by its C interface.

The Python interface makes an object of each record, which takes longer than all the rest of a job.
Here the library fills an array of addresses, and a kernel copies the records from there to columns.
``docs/decisions/0029-kafka-by-the-c-interface.md`` says more.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import time
from collections.abc import Mapping
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Ints, pooled
from skyband.jobs.local.topic_reader import (
    REFUSED,
    REMOVED,
    UNREACHABLE,
    UNREADABLE,
    ReaderError,
    Records,
    ends_of,
)
from skyband.jobs.places import require_kafka
from skyband.kernels.core.messages import FAULT, take_messages

__all__ = ["LibraryReader", "why_not"]

_CONSUMER = 1
_END_OF_PARTITION, _FATAL, _NO_OFFSET, _UNKNOWN_TOPIC = -191, -150, -140, -188
_STEP = 1 << 13
"""Messages that are copied at a time: what was just taken is still in the processor's cache."""
_ROWS = 1 << 18
"""Rows that the columns of a batch begin with, at most."""
_TEXT = 1 << 28
"""Bytes after which a batch has enough, whatever the number of its rows."""


class _Partition(Structure):
    _fields_ = [
        ("number", c_int32),
        ("error", c_int),
        ("leader", c_int32),
        ("replicas", c_int),
        ("replica", c_void_p),
        ("in_step", c_int),
        ("in_step_ones", c_void_p),
    ]


class _Topic(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("partitions", c_int),
        ("partition", POINTER(_Partition)),
        ("error", c_int),
    ]


class _Metadata(Structure):
    _fields_ = [
        ("brokers", c_int),
        ("broker", c_void_p),
        ("topics", c_int),
        ("topic", POINTER(_Topic)),
        ("asked", c_int32),
        ("asked_name", c_char_p),
    ]


_FUNCTIONS: dict[str, tuple[Any, ...]] = {  # what each returns, and its arguments
    "assign": (c_int, c_void_p, c_void_p),
    "conf_destroy": (None, c_void_p),
    "conf_new": (c_void_p,),
    "conf_set": (c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t),
    "consume_batch_queue": (ctypes.c_ssize_t, c_void_p, c_int, c_void_p, c_size_t),
    "consumer_close": (c_int, c_void_p),
    "destroy": (None, c_void_p),
    "err2str": (c_char_p, c_int),
    "fatal_error": (c_int, c_void_p, c_char_p, c_size_t),
    "message_destroy": (None, c_void_p),
    "metadata": (c_int, c_void_p, c_int, c_void_p, POINTER(POINTER(_Metadata)), c_int),
    "metadata_destroy": (None, c_void_p),
    "new": (c_void_p, c_int, c_void_p, c_char_p, c_size_t),
    "poll_set_consumer": (c_int, c_void_p),
    "query_watermark_offsets": (
        *(c_int, c_void_p, c_char_p, c_int32),
        *(POINTER(c_int64), POINTER(c_int64), c_int),
    ),
    "queue_destroy": (None, c_void_p),
    "queue_get_consumer": (c_void_p, c_void_p),
    "topic_destroy": (None, c_void_p),
    "topic_new": (c_void_p, c_void_p, c_char_p, c_void_p),
    "topic_partition_list_add": (c_void_p, c_void_p, c_char_p, c_int32),
    "topic_partition_list_destroy": (None, c_void_p),
    "topic_partition_list_new": (c_void_p, c_int),
    "topic_partition_list_set_offset": (c_int, c_void_p, c_char_p, c_int32, c_int64),
}


def _functions(path: str) -> SimpleNamespace:
    """The functions of the library that are used here, by their names without the prefix."""
    whole, found = ctypes.CDLL(path), {}
    for name, (returned, *arguments) in _FUNCTIONS.items():
        found[name] = getattr(whole, f"rd_kafka_{name}")
        found[name].restype, found[name].argtypes = returned, arguments
    return SimpleNamespace(**found)


@functools.cache
def library() -> SimpleNamespace | str:
    """The library that confluent-kafka uses; or why it cannot be called."""
    if ctypes.sizeof(c_void_p) != 8 or sys.byteorder != "little":
        return "its messages are laid out differently on this machine"
    require_kafka()
    try:
        # Its symbols are found through the module that is linked with it, wherever it lies.
        return _functions(sys.modules["confluent_kafka.cimpl"].__file__ or "")
    except (OSError, AttributeError, KeyError) as problem:
        return f"the library cannot be called: {problem}"


def why_not(options: Mapping[str, Any]) -> str | None:
    """Why a topic with these options cannot be read this way; None if it can."""
    for name, value in options.items():
        if not isinstance(value, str | int | float) or "oauth" in name:
            return f"the option {name!r} needs the Python client"
    found = library()
    return found if isinstance(found, str) else None


class LibraryReader:
    """A consumer of librdkafka."""

    client = "librdkafka"

    def __init__(self, topic: str, options: Mapping[str, Any]) -> None:
        found = library()
        assert isinstance(found, SimpleNamespace), found
        self.topic = topic
        self.ended: dict[int, int] = {}
        self._library = found
        self._name = topic.encode()
        self._places: dict[int, int] = {}
        """The next offset of each partition that is read."""
        self._destroy = int(ctypes.cast(found.message_destroy, c_void_p).value or 0)
        self._messages = np.zeros(_STEP, np.int64)
        self._faults = np.zeros((_STEP, FAULT), np.int64)
        self._room = 1 << 16
        """Bytes that the text of the next batch begins with."""
        self._handle = self._open(options)
        self._queue = self._library.queue_get_consumer(self._handle)
        self._closed = False

    def _open(self, options: Mapping[str, Any]) -> int:
        call, reason = self._library, ctypes.create_string_buffer(512)
        settings = call.conf_new()
        for name, value in options.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if call.conf_set(settings, name.encode(), text.encode(), reason, len(reason)):
                call.conf_destroy(settings)
                raise ReaderError(f"{REFUSED}: {_text(reason)}")
        handle = call.new(_CONSUMER, settings, reason, len(reason))
        if not handle:
            call.conf_destroy(settings)  # otherwise the handle owns them
            raise ReaderError(f"{REFUSED}: {_text(reason)}")
        error = call.poll_set_consumer(handle)  # there is none without a group
        if error:
            call.destroy(handle)
            raise ReaderError(f"{REFUSED}: {self._reason(error)}")
        return int(handle)

    # Places ---------------------------------------------------------------------------------------

    def partitions(self, seconds: float) -> list[int]:
        """The partitions of the topic."""
        call, told = self._library, POINTER(_Metadata)()
        topic = call.topic_new(self._handle, self._name, None)
        try:
            self._check(call.metadata(self._handle, 0, topic, byref(told), _ms(seconds)))
        finally:
            if topic:
                call.topic_destroy(topic)
        try:
            found = told.contents.topic[0] if told.contents.topics else _Topic(error=_UNKNOWN_TOPIC)
            if found.error:
                reason = self._reason(found.error)
                raise ReaderError(f"the topic {self.topic!r} cannot be read: {reason}")
            return [found.partition[i].number for i in range(found.partitions)]
        finally:
            call.metadata_destroy(told)

    def edges(self, partition: int, seconds: float) -> tuple[int, int]:
        """The first offset of a partition, and the one after its last."""
        low, high = c_int64(), c_int64()
        asked = self._handle, self._name, partition, byref(low), byref(high), _ms(seconds)
        self._check(self._library.query_watermark_offsets(*asked))
        return low.value, high.value

    def assign(self, places: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on."""
        self.ended.clear()
        self._places = dict(places)
        call = self._library
        listed = call.topic_partition_list_new(len(places))
        try:
            for part, row in places.items():
                call.topic_partition_list_add(listed, self._name, part)
                call.topic_partition_list_set_offset(listed, self._name, part, row)
            self._check(call.assign(self._handle, listed))
        finally:
            call.topic_partition_list_destroy(listed)

    # Records --------------------------------------------------------------------------------------

    def fetch(self, most: int, seconds: float, until: Mapping[int, int] | None) -> Records:
        """The next records, at most so many."""
        columns = _Columns(min(max(most, _STEP), _ROWS), self._room)
        latest = time.monotonic() + seconds
        while not (full := columns.rows == most or columns.used >= _TEXT):
            wanted = min(_STEP, most - columns.rows)
            taken = self._take(wanted, 0.0)
            if not taken:
                if until is not None and self._is_at(until):
                    break
                # If there is an end to notice, any message wakes it up; otherwise many at a time.
                left = max(0.0, latest - time.monotonic())
                taken = self._take(wanted if until is None else 1, left)
            if not taken:
                break
            before = columns.rows
            self._note(columns.add(self._messages[:taken], self._faults, self._destroy))
            added = slice(before, columns.rows)
            self._places |= ends_of(columns.partition[added], columns.offset[added])
        self._room = max(self._room, columns.used + (columns.used >> 3))
        return columns.records(full)

    def _is_at(self, ends: Mapping[int, int]) -> bool:
        """Whether everything before these offsets was taken."""
        return all(
            self._places.get(part, end) >= end or self.ended.get(part, -1) >= end
            for part, end in ends.items()
        )

    def _take(self, most: int, seconds: float) -> int:
        """Take messages that are there, or wait for some; returns their number."""
        where = self._messages.ctypes.data
        taken = self._library.consume_batch_queue(self._queue, _ms(seconds), where, most)
        return max(0, int(taken))

    def _note(self, faults: int) -> None:
        for code, part, row in self._faults[:faults].tolist():
            if code == _END_OF_PARTITION:
                self.ended[part] = row
            elif code == _NO_OFFSET:
                raise ReaderError(REMOVED)
            elif code == _FATAL:
                reason = ctypes.create_string_buffer(512)
                self._library.fatal_error(self._handle, reason, len(reason))
                raise ReaderError(f"{UNREADABLE}: {_text(reason)}")

    def close(self) -> None:
        """Leave the brokers; once, because the memory is gone afterwards."""
        if not self._closed:
            self._closed = True
            self._library.queue_destroy(self._queue)
            self._library.consumer_close(self._handle)
            self._library.destroy(self._handle)

    def _check(self, error: int) -> None:
        if error:
            raise ReaderError(f"{UNREACHABLE}: {self._reason(error)}")

    def _reason(self, error: int) -> str:
        return str(self._library.err2str(error).decode())


class _Columns:
    """The columns of a batch, which messages are added to."""

    def __init__(self, rows: int, size: int) -> None:
        self.rows = 0
        self.text = pooled(size, np.uint8)
        self.ends = pooled(rows + 1, np.int32)
        self.ends[0] = 0
        self.valid = pooled(rows, np.bool_)
        self.partition = pooled(rows, np.int32)
        self.offset = pooled(rows, np.int64)

    @property
    def used(self) -> int:
        """Bytes of the values so far."""
        return int(self.ends[self.rows])

    def add(self, messages: Ints, faults: Ints, destroy: int) -> int:
        """Add messages, and give them back to the client; returns the number of faults."""
        needed = self.rows + len(messages)
        if needed > len(self.offset):
            most = max(needed, 2 * len(self.offset))
            self.ends = _longer(self.ends, most + 1)
            self.valid = _longer(self.valid, most)
            self.partition = _longer(self.partition, most)
            self.offset = _longer(self.offset, most)
        others = self.ends, self.valid, self.partition, self.offset, faults, destroy
        rows, wrong = take_messages(messages, self.rows, self.text, *others)
        if wrong < 0:  # `rows` is the length that the text needs
            self.text = _longer(self.text, max(rows, 2 * len(self.text)))
            rows, wrong = take_messages(messages, self.rows, self.text, *others)
        self.rows = rows
        return int(wrong)

    def records(self, full: bool) -> Records:
        """What was added."""
        rows = self.rows
        valid = self.valid[:rows]
        bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [bits, pa.py_buffer(self.ends[: rows + 1]), pa.py_buffer(self.text[: self.used])]
        values = pa.Array.from_buffers(pa.binary(), rows, buffers)
        return Records(values, self.partition[:rows], self.offset[:rows], full)


def _longer(column: Array, length: int) -> Array:
    longer = pooled(length, column.dtype)
    longer[: len(column)] = column
    return longer


def _ms(seconds: float) -> int:
    """Whole milliseconds, at least one unless there is no time."""
    return max(int(seconds > 0), round(1000 * seconds))


def _text(reason: Any) -> str:
    """What the library wrote into a buffer."""
    return str(reason.value.decode().strip())
