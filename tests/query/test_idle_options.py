"""Options that do nothing for a query are refused, not ignored."""

from __future__ import annotations

from typing import Any

import pytest

import skyband as sb


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
