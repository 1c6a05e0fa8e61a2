from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import clusters


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A JVM on a busy machine takes its time; a test that hangs is still ended.

    Tests that share the session stay in one process.
    """
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One small local session for all tests: a JVM takes seconds to start."""
    reason = clusters.missing()
    if reason:
        pytest.skip(reason)
    session = clusters.local_session()
    yield session
    session.stop()
