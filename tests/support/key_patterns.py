"""Orders of keys that exercise kernels differently."""

from __future__ import annotations

import random
from collections.abc import Callable

PATTERNS: dict[str, Callable[[random.Random, int], int]] = {
    "uniform": lambda rng, _: rng.randint(-1000, 1000),
    "falling": lambda _, i: -i,
    "rising": lambda _, i: i,
    "sine": lambda _, i: abs(i % 80 - 40),
    "crowded": lambda rng, _: rng.randint(0, 3),
    "constant": lambda *_: 7,
    "alternating": lambda _, i: i % 2,
    "extreme": lambda rng, _: rng.choice([-(2**63), 2**63 - 1, 0, 1]),
    "skewed": lambda rng, _: 2 ** rng.randint(0, 60),
}
