"""``--plot FILE.png``: a picture of the answers, next to whatever else a verb writes."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyband.cli.explain import say
from skyband.errors import EngineError, QueryError
from skyband.query import Query

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.answers.answer import Answer

__all__ = ["Picture", "refuse_with_serve"]

_WINDOWS = 240
"""Windows that a picture shows: the last ones."""
_ANSWERS = 5_000
"""Answers that are kept for it; with groups in count windows there is one per group and window."""


class Picture:
    """Collects answers and draws them at the end; without a path it does nothing."""

    def __init__(self, query: Query, path: Path | None, kind: str | None, verb: str) -> None:
        self.query = query
        self.path = path
        self.verb = verb
        self._kept: deque[Any] = deque(maxlen=_ANSWERS)
        if path is None:
            if kind is not None:
                raise QueryError("--plot-as says how to draw; give --plot FILE.png, too")
            return
        from skyband.plot.files import KINDS, check_path, kind_of

        self.kind = kind or kind_of(query)
        if self.kind not in KINDS:
            raise QueryError(f"--plot-as {kind}: choose one of {', '.join(KINDS)}")
        check_path(path)
        if (self.kind in ("bump", "bars")) > query.ranked:
            raise QueryError(f"--plot-as {kind}: {query.kind} has no ranks; use skyline, timeline")

    def take(self, piece: Answer | pa.Table) -> None:
        """Remember an answer, or a table of answers."""
        if self.path is not None:
            self._kept.append(piece)

    def close(self) -> None:
        """Draw what was taken."""
        if self.path is None:
            return
        import pyarrow as pa

        from skyband.plot.files import save

        pieces: Any = list(self._kept)
        if pieces and isinstance(pieces[0], pa.Table):
            pieces = pa.concat_tables(pieces)
        last = {"last": _WINDOWS} if self.kind in ("bump", "totals", "timeline") else {}
        save(self.path, pieces, kind=self.kind, query=self.query, title=self.title, **last)
        say(f"picture written to {self.path}")

    @property
    def title(self) -> str:
        """What was asked, in a few words."""
        query = self.query
        what = getattr(query, "score", None) or getattr(query, "weight", None) or ""
        named = ", ".join(query.key)
        window = query.window
        size = getattr(window, "size", None) or getattr(window, "half_life", None)
        parts = [self.verb, f"{named} by {what}" if named and what else named or str(what)]
        if size is not None:
            parts.append(f"over {size:,} rows" if window.sort == "sized" and isinstance(size, int)
                         and query.time is None else f"over {size}")  # fmt: skip
        return " · ".join(part for part in parts if part)


def refuse_with_serve(path: Path | None) -> None:
    """A served verb has no end at which a picture could be drawn."""
    if path is not None:
        raise EngineError("--plot draws the answers at the end; leave it out with --serve")
