from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import clusters


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One small local session for all tests: a JVM takes seconds to start."""
    reason = clusters.missing()
    if reason:
        pytest.skip(reason)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = clusters.local_session()
    yield session
    session.stop()
