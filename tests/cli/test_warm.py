"""``skyband warm`` runs every algorithm, so that every kernel is compiled."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("typer")

import skyband as sb
from skyband import registry
from skyband.cli import warm
from skyband.kernels import records
from support.command_line import bad, run

ALL = list(warm.cases(()))


def test_every_algorithm_is_compiled() -> None:
    found = {(query.kind, query.algorithm) for _, query in ALL}
    assert found == {(k, name) for k in registry.kinds() for name in registry.algorithms(k)}


def test_windows_and_groups_are_compiled() -> None:
    shapes = {(type(q.window).__name__, bool(q.groups)) for _, q in ALL if q.algorithm == "skyband"}
    assert shapes == {(w, by) for w in ("TimeWindow", "CountWindow") for by in (True, False)}


@pytest.mark.parametrize("name", ["topk mintopk", "skyline-join naive"])
def test_a_case_runs_and_answers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_ROWS", 200)
    query = next(query for verb, query in ALL if verb == name)
    answered: list[Any] = []
    flush = sb.Monitor.flush
    monkeypatch.setattr(sb.Monitor, "flush", lambda m: answered.append(flush(m)))
    warm._run(query, warm._table())
    assert answered[0]


def test_the_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[sb.Query] = []
    monkeypatch.setattr(warm, "_run", lambda query, table: ran.append(query))
    monkeypatch.setattr("skyband.kernels.patient.hurry", lambda: None)
    result = run("warm", "skyline")
    assert result.exit_code == 0
    assert {query.kind for query in ran} == {"Skyline"}
    assert "queries compiled in" in result.stderr
    assert "no query 'nothing'" in bad("warm", "nothing")


def test_what_jobs_need_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(warm, "cases", lambda names: [])
    monkeypatch.setattr("skyband.kernels.patient.hurry", lambda: None)
    own = records.match_records

    def matched(*given: Any) -> int:
        compiled.append("records")
        return own(*given)

    monkeypatch.setattr("skyband.data.record_layout.match_records", matched)
    assert run("warm").exit_code == 0
    assert set(compiled) == {"records"}
    compiled.clear()
    assert run("warm", "skyline").exit_code == 0
    assert not compiled
