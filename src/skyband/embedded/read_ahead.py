"""Reads ahead: the next batches are read and decoded by other threads while one is summarised.

Batches come in the order of their loads, whatever the number of threads. Memory is bounded: besides
the batch that is in use, at most ``AHEAD_BYTES`` of decoded batches are held or being read, but
always one. With one thread nothing is read ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pyarrow as pa

AHEAD_BYTES = 128 << 20
"""How many bytes of decoded batches are read ahead."""

Load = Callable[[], pa.Table]
"""Reads and decodes one batch, in any thread."""


def read_ahead(loads: Iterator[Load], threads: int) -> Iterator[pa.Table]:
    """The batches of the loads, in their order."""
    if threads < 2:
        for load in loads:
            yield load()
        return
    reading: deque[Future[pa.Table]] = deque()
    depth = 2  # how many loads are under way; known better once the size of a batch is
    pool = ThreadPoolExecutor(threads, thread_name_prefix="skyband-read")
    waits, more = True, True

    def submit() -> None:
        nonlocal more
        while more and len(reading) < depth:
            try:
                load = next(loads, None)
            except Exception as error:  # noqa: BLE001  raised in its turn
                load = partial(_fail, error)
            more = load is not None
            if load is not None:
                reading.append(pool.submit(load))

    try:
        submit()
        while reading:
            table = reading.popleft().result()
            if table.num_rows:
                fit = AHEAD_BYTES // max(table.nbytes, 1)
                depth = int(min(max(fit, 1), threads + 1))
            submit()  # so that the threads are busy while this one is used
            yield table
    except GeneratorExit:
        # The garbage collector may be at work here, while another thread starts, which would wait
        # for ever for this one. Threads that still read are joined when the process ends.
        waits = False
        raise
    finally:
        pool.shutdown(wait=waits, cancel_futures=True)


def _fail(error: Exception) -> pa.Table:
    raise error
