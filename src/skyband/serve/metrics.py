"""Figures of a service in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Mapping

from skyband.data.prometheus import metric_name, prometheus_text
from skyband.serve.page import Page
from skyband.serve.status import ROWS

_COUNTERS = {
    "rows_in": "Rows that the query has read",
    "rows_late": "Rows that came too late for the query",
    "rows_bad": "Rows that the query found bad",
    "rows_unused": "Rows that no window of the query covers",
    "windows_out": "Windows that the query has answered",
}
_GAUGES = {
    "retained": "Items that the query's synopsis keeps",
    "state_bytes": "Bytes of the query's state",
}
_SOURCE = {
    "source_rows": ("counter", "Rows that a source has sent"),
    "seen_seconds": ("gauge", "The greatest event time of a source, in seconds since 1970"),
}
_WHOLE = {
    "watermark_seconds": ("gauge", "The time that all sources have reached, in seconds since 1970"),
    "answers": ("counter", "Answers of all queries"),
    "waiting_requests": ("gauge", "Requests that wait for the engine"),
    "waiting_bytes": ("gauge", "Bytes of the requests that wait for the engine"),
    "journal_bytes": ("gauge", "Bytes in the journal since the last snapshot"),
    "idempotency_keys": ("gauge", "Idempotency keys that are remembered"),
    "subscribers": ("gauge", "Open event streams"),
    "up": ("gauge", "1 while the engine runs"),
}


_KINDS: dict[str, tuple[str, str]] = {
    **{name: ("counter", text) for name, text in _COUNTERS.items()},
    **{name: ("gauge", text) for name, text in _GAUGES.items()},
    **_SOURCE,
    **_WHOLE,
}
NAMES = tuple(metric_name(name, kind) for name, (kind, _) in _KINDS.items())
"""Every metric there is."""


def prometheus(service: Page, subscribers: int) -> str:
    """All metrics as text."""
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {name: [] for name in _KINDS}
    for query, stats in service.stats.items():
        for name in (*_COUNTERS, *_GAUGES):
            found[name].append(({"query": query}, stats.get(name, 0)))
    status = service.status
    for source, rows in status.rows.items():
        label = {"source": source or ROWS}
        found["source_rows"].append((label, rows))
        seen = status.seconds(status.seen.get(source))
        if seen is not None:
            found["seen_seconds"].append((label, seen))
    requests, waiting = service.waiting
    whole = {
        "watermark_seconds": status.seconds(status.watermark()),
        "answers": service.number,
        "waiting_requests": requests,
        "waiting_bytes": waiting,
        "journal_bytes": service.journal_bytes,
        "idempotency_keys": len(service.keys),
        "subscribers": subscribers,
        "up": int(service.failure is None),
    }
    for name, value in whole.items():
        if value is not None:
            found[name].append(({}, value))
    return prometheus_text((name, *_KINDS[name], values) for name, values in found.items())
