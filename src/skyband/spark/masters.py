"""Where a session runs: on how many cores of this machine, or on a cluster."""

from __future__ import annotations

import os
import re

__all__ = ["local_cores", "master_of"]


def master_of(told: str | None) -> str:
    """The master of a session, all cores of this machine by default."""
    return told or os.environ.get("SPARK_MASTER") or "local[*]"


def local_cores(master: str | None = None) -> int | None:
    """The cores that a master uses on this machine; None for a cluster.

    >>> local_cores("local[4]"), local_cores("spark://host:7077")
    (4, None)
    """
    local = re.fullmatch(r"local(?:\[(\*|\d+).*\])?", master_of(master))
    if local is None:
        return None
    told = local[1] or "1"
    return (os.cpu_count() or 1) if told == "*" else int(told)
