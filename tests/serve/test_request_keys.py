"""Idempotency keys: which are remembered, and what is saved of them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

from skyband.jobs.local.posts import AppliedPost, PostKeys


def test_keys_are_forgotten_by_number_and_by_age() -> None:
    keys = PostKeys(most=3, seconds=1e9)
    for i in range(5):
        keys.add(f"k{i}", AppliedPost(str(i), 2e9, {"rows": i}))
    assert [keys.check(f"k{i}", str(i)) is not None for i in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    old = PostKeys()
    old.add("old", AppliedPost("d", 0.0, {}))
    assert old.check("old", "d") is None
    saved = PostKeys()
    saved.load(keys.save())
    assert saved.check("k4", "4") == AppliedPost("4", 2e9, {"rows": 4})


def test_keys_may_expire_while_they_are_saved() -> None:
    """Another request looks for its key while a snapshot is taken; old keys go after it."""
    keys = PostKeys()

    class Looking(AppliedPost):
        def __iter__(self) -> Iterator[Any]:  # called when it is its turn to be saved
            looking = threading.Thread(target=keys.check, args=("c", "d"), daemon=True)
            looking.start()
            looking.join(0.2)
            return super().__iter__()

    now = time.time()
    for key in "abc":
        keys.add(key, (Looking if key == "a" else AppliedPost)("d", now, {"rows": 1}))
    keys.seconds = 0.0
    assert len(json.loads(keys.save())) == 3
