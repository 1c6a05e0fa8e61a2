"""Figures in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Metric = tuple[str, str, str, Iterable[tuple[Mapping[str, str], float]]]
"""The name of a figure, whether it is a counter or a gauge, what it says, its values by label."""


def metric_name(name: str, kind: str) -> str:
    """The full name of a figure."""
    return f"skyband_{name}" + ("_total" if kind == "counter" else "")


def prometheus_text(metrics: Iterable[Metric]) -> str:
    """All figures as text."""
    lines = []
    for name, kind, text, values in metrics:
        full = metric_name(name, kind)
        lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
        for labels, value in values:
            pairs = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
            lines.append(f"{full}{{{pairs}}} {value:.17g}" if pairs else f"{full} {value:.17g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
