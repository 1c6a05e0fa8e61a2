"""What a streaming query tells about itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Told:
    """What a run of a streaming query reported about itself."""

    rows: int
    speed: float
    """Rows per second after the first batch."""
    batch_seconds: float
    batches: int
    shuffled: int
    packed: int
    """Bytes of all summaries."""
    state_bytes: int
    parts: dict[str, float] = field(default_factory=dict)
    """Milliseconds per batch, by phase."""

    @property
    def mega(self) -> float:
        """Millions of rows per second."""
        return self.speed / 1e6


def spent(batches: list[Any]) -> dict[str, float]:
    """Where the milliseconds of a batch went, on average."""

    def mean(*names: str) -> float:
        total = sum(b.durationMs.get(n, 0) for b in batches for n in names)
        return float(total / len(batches))

    commits = [sum(o.commitTimeMs for o in batch.stateOperators) for batch in batches]
    return {
        "all": mean("triggerExecution"),
        "finding files": mean("latestOffset", "getBatch"),
        "planning": mean("queryPlanning"),
        "logs": mean("walCommit", "commitOffsets"),
        "work": mean("addBatch"),
        "of it state commits (all tasks)": sum(commits) / len(commits),
    }
