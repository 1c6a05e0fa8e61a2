"""The dashboard for Grafana asks for metrics that the service has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from skyband.serve.page import METRICS

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana" / "skyband.json"


@pytest.mark.skipif(not DASHBOARD.exists(), reason="only a checkout has the documentation")
def test_every_metric_of_the_dashboard_exists() -> None:
    told = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in told["panels"] for target in panel["targets"]]
    asked.append(told["templating"]["list"][1]["query"])
    used = {name for text in asked for name in re.findall(r"skyband_\w+", text)}
    assert len(used) > 10
    assert used <= set(METRICS)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in told["panels"]]
    assert len(set(places)) == len(places)
