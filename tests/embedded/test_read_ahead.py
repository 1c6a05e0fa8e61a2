"""Reading ahead: what happens to threads whose reader is given up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pyarrow as pa

from skyband.embedded.read_ahead import read_ahead


def test_giving_up_waits_for_no_thread() -> None:
    """The garbage collector may do it while a thread starts: waiting would lock both up."""
    release = threading.Event()
    table = pa.table({"x": [1]})

    def slow() -> pa.Table:
        release.wait(60)
        return table

    def loads() -> Iterator[Callable[[], pa.Table]]:
        yield lambda: table
        yield slow
        yield slow

    reading = read_ahead(loads(), 2)
    assert next(reading).num_rows == 1
    closing = threading.Thread(target=reading.close)  # type: ignore[attr-defined]
    closing.start()
    closing.join(20)
    waited = closing.is_alive()
    release.set()
    closing.join(60)
    assert not waited
