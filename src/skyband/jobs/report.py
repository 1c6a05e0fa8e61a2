"""What a running job tells after each batch; the same on both engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from skyband.embedded.snapshots import BoardDiff


@dataclass(frozen=True)
class Report:
    """A job after a batch; counts are totals since it was started."""

    batch: int
    rows: int
    rate: float | None = None
    """Rows per second in the last batch."""
    late: int | None = None
    bad: int | None = None
    windows: int = 0
    state_bytes: int | None = None
    watermark: float | None = None
    """In seconds since 1970."""
    lag: float | None = None
    """Seconds between the greatest time seen and the watermark."""
    answers: Mapping[str, pa.Table] = field(default_factory=dict)
    """The newest window of each query that has answered."""


_UNKNOWN = "–"
Tell = Callable[[Report], None]


def report_line(report: Report) -> str:
    """A report in one line.

    >>> report_line(Report(batch=3, rows=12_000, rate=4_000.0, late=0, bad=2, windows=7))
    'batch 3  12,000 rows  4,000 rows/s  0 late  2 bad  7 windows'
    """
    known = {name: text for name, text in figures(report).items() if text != _UNKNOWN}
    parts = [f"batch {report.batch}", f"{known.pop('rows')} rows"]
    if "behind" in known:
        known["watermark"] += f" ({known.pop('behind')} behind)"
    for name, text in known.items():
        parts.append(f"{name} {text}" if name in ("watermark", "state") else f"{text} {name}")
    return "  ".join(parts)


def figures(report: Report) -> dict[str, str]:
    """All figures of a report by name; a dash stands for what is not known.

    >>> figures(Report(batch=3, rows=12_000, rate=4_000.0, late=0, bad=2, windows=7))["rows/s"]
    '4,000'
    """
    values = {
        "rows/s": None if report.rate is None else f"{report.rate:,.0f}",
        "rows": f"{report.rows:,}",
        "watermark": None if report.watermark is None else _moment(report.watermark),
        "behind": None if report.lag is None else f"{report.lag:,.3g} s",
        "late": None if report.late is None else f"{report.late:,}",
        "bad": None if report.bad is None else f"{report.bad:,}",
        "windows": f"{report.windows:,}",
        "state": None if report.state_bytes is None else _size(report.state_bytes),
    }
    return {name: _UNKNOWN if value is None else value for name, value in values.items()}


def newest_window(table: pa.Table) -> pa.Table:
    """The rows of the last window of an answer."""
    ends = table.column("window_end")
    return table.filter(pc.equal(ends, pc.max(ends)))


def _moment(seconds: float) -> str:
    """A time as text; as a number of seconds if it is after the year 9999."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"{seconds:,.0f} s"


def _size(value: float) -> str:
    for unit in ("B", "kB", "MB"):
        if value < 1_000:
            return f"{value:,.3g} {unit}"
        value /= 1_000
    return f"{value:,.3g} GB"


def changed_lines(changed: BoardDiff) -> list[str]:
    """What is said about queries that were added to a running board, or removed."""
    lines = []
    for name, start in changed.added.items():
        begins = f"its first window starts at {start}" if start is not None else ""
        lines.append(f"query {name!r} is new; {begins or 'it starts with the next rows'}")
    return lines + [f"query {name!r} was removed, along with its state" for name in changed.removed]
