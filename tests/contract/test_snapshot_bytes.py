"""A snapshot depends on the state alone: it holds no memory that nobody has written to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

import skyband as sb
from contract.test_conformance import WINDOW, pushes
from skyband import registry
from support import conformance
from support.suites import settings_of

ALGORITHMS = [(kind, name) for kind in registry.kinds() for name in registry.algorithms(kind)]
_config: Any = numba.config


def filled(make: Callable[..., Any], byte: int) -> Callable[..., Any]:
    """A version of ``np.empty`` or ``np.empty_like`` whose arrays hold this byte everywhere."""

    def made(*args: Any, **named: Any) -> Any:
        array = make(*args, **named)
        if array.size and not array.dtype.hasobject and array.flags.c_contiguous:
            array.reshape(-1).view(np.uint8)[:] = byte
        return array

    return made


@pytest.mark.nojit
@pytest.mark.skipif(not _config.DISABLE_JIT, reason="compiled kernels do not call numpy's empty")
@pytest.mark.parametrize(("kind", "algorithm"), ALGORITHMS)
def test_same_state_same_bytes(
    kind: str, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(kind, algorithm, 0)
    given = pushes(kind, settings)[:4]
    table = next(iter(given[0].values())) if isinstance(given[0], dict) else given[0]
    query = conformance.query_of(kind, WINDOW, settings, table)
    empty, like = np.empty, np.empty_like
    found = []
    for byte in (0x11, 0x2E):
        monkeypatch.setattr(np, "empty", filled(empty, byte))
        monkeypatch.setattr(np, "empty_like", filled(like, byte))
        monitor = sb.Monitor(query)
        blobs = []
        for batch in given:
            monitor.push(batch)
            blobs.append(monitor.snapshot())
        found.append(blobs)
    assert found[0] == found[1]
    for blob in found[0]:
        assert sb.Monitor.restore(blob).snapshot() == blob
