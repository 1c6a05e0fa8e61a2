"""The report on streams of one attribute each, written from made-up results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.experiments import fused, fused_common, fused_figures, fused_open
from lab.experiments.fused_claims import CLAIMS
from lab.experiments.fused_runs import ALGORITHMS, HALF, Bytes, Measured, Recurring
from lab.experiments.seeds import Sample


def test_the_report_of_made_up_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs that come out otherwise give two reports with other words."""
    pytest.importorskip("matplotlib")
    often = Recurring(*map(Sample.of, (6, 2.5, 3, 36.0, 1.0)))
    monkeypatch.setattr(fused_figures, "undominated", lambda n, width, _: 5 + n * width)
    monkeypatch.setattr(fused_open, "data_folder", lambda: None)
    monkeypatch.setattr(fused_open, "correlated_reports", lambda *_, **__: None)
    monkeypatch.setattr(fused_open, "recurring", lambda *_: often)
    held = {
        name: Bytes(*map(Sample.of, (1000 - 100 * at, 100, 50, 77 - at)))
        for at, name in enumerate(ALGORITHMS)
    }
    monkeypatch.setattr(fused_open, "state_bytes", lambda *_, **__: held)
    reports = []
    for slope in (0.0, 0.5):

        def synthetic(
            window: int, _: int, recent: int, slope: float = slope, **__: Any
        ) -> Measured:
            right = 1 - slope * recent / 1000
            kept = {n: Sample.of(window / (at + 2)) for at, n in enumerate((*ALGORITHMS, HALF))}
            precise = Sample((right - 0.01, right + 0.01))
            return Measured(kept, dict.fromkeys(kept, precise), Sample.of(0.01))

        monkeypatch.setattr(fused_common, "synthetic", synthetic)
        fused.reproduce(0.01, tmp_path, lambda _: None)
        reports.append((tmp_path / "fused.md").read_text())
    assert "precision stays at" in reports[0]
    assert "precision falls from" in reports[1]
    # C is calibrated on one figure: the precision of a window of 1,000.
    assert "C = 50 comes nearest" in reports[0]
    assert "C = 250 comes nearest" in reports[1]
    assert "0.875 ± 0.127" in reports[1]
    assert all(claim.says in report for claim in CLAIMS for report in reports)
    assert all("6.0 times the maximum" in report for report in reports)
    # Bytes with what explains them: the claim is missed at 800 of 900 bytes.
    shown = "| 200 | eaa-approx | 75 ± 0 | 800 ± 0 | 100 ± 0 | 50 ± 0 | 700 ± 0 |"
    assert all(shown in report for report in reports)
    said = "EAA holds 76 ± 0 reports and the approximation 75 ± 0; its sketches are 50 ± 0 of 800"
    assert all(said in report for report in reports)
