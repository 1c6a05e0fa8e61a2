"""The six queries: frozen specs that validate themselves and do not say how they are answered.

Imports only ``window``, ``registry`` and ``errors``; everything above may import it.
"""

from __future__ import annotations

from skyband.query.base import KINDS, Query, from_spec
from skyband.query.frequency import HeavyHitters
from skyband.query.fused import FusedTopK
from skyband.query.skyline import Skyline, SkylineJoin
from skyband.query.topk import TopK
from skyband.query.uncertain import UncertainTopK

__all__ = [
    "KINDS",
    "FusedTopK",
    "HeavyHitters",
    "Query",
    "Skyline",
    "SkylineJoin",
    "TopK",
    "UncertainTopK",
    "from_spec",
]
