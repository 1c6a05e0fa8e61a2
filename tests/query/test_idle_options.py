"""Options that do nothing for a query are refused, not ignored."""

from __future__ import annotations

from typing import Any

import pytest

import skyband as sb
from skyband.query import from_spec


def fused(**more: Any) -> sb.FusedTopK:
    window = sb.TimeWindow(10)
    return sb.FusedTopK(
        k=1, id="id", stream="s", value="v", streams=("a", "b"), time="t", window=window, **more
    )


def test_a_guard_needs_a_number_of_recurrences() -> None:
    with pytest.raises(sb.QueryError, match="'guard' does nothing"):
        fused(recurrences="estimate", options={"guard": False})
    assert fused(recurrences=2, options={"guard": False}).options == {"guard": False}
    assert fused(recurrences="estimate").options == {}


def test_a_snapshot_of_such_a_query_by_version_0_1_can_still_be_read() -> None:
    spec = fused(recurrences="estimate").spec() | {"options": {"guard": True}}
    assert from_spec(spec) == fused(recurrences="estimate")
