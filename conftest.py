"""What every test and example needs, those in Markdown pages too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from skyband import registry


@pytest.fixture(autouse=True)
def registry_as_it_was() -> Iterator[None]:
    """Forget the algorithms that an example or a test registered."""
    algorithms = registry._ALGORITHMS  # noqa: SLF001
    before = {kind: dict(known) for kind, known in algorithms.items()}
    yield
    algorithms.clear()
    algorithms.update(before)
