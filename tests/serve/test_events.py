"""Server-sent events: what a page hears, and how it resumes after a break or a restart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from support import served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[served.Client]:
    with served.serving(served.new_service(tmp_path, on_bad="raise")) as client:
        yield client


def test_events_begin_with_the_newest_and_go_on(client: served.Client) -> None:
    client.post(served.rows(0, 9))
    newest = {name: client.answers(name)[-1] for name in ("busiest", "talkers")}
    with client.events() as events:
        first = [next(events) for _ in range(3)]
        assert [kind for kind, _, _ in first] == ["answer", "answer", "status"]
        for _, _, data in first[:2]:
            assert newest[data.pop("name")] == data
        client.post(served.rows(9, 2))
        later = (each for each in events if each[0] == "answer")
        _, number, data = next(later)
        assert int(number) == int(first[1][1]) + 1
        assert data["name"] == "busiest"
        assert data["end"] == "2026-01-05T08:00:10+00:00"


def test_events_resume_without_a_gap(client: served.Client) -> None:
    client.post(served.rows(0, 9))
    client.post(served.rows(9, 8))
    with client.events(last_event_id="0") as events:
        every = [e for e in islice(events, 17) if e[0] == "answer"][:16]
    assert [int(number) for _, number, _ in every] == list(range(1, 17))
    with client.events(last_event_id="5") as events:
        resumed = [e for e in islice(events, 12) if e[0] == "answer"][:11]
    assert resumed == every[5:]


def test_events_too_old_or_unknown_are_reset(tmp_path: Path) -> None:
    with served.serving(served.new_service(tmp_path, history=2)) as client:
        client.post(served.rows(0, 30))
        for last in ("0", "9999", "nonsense"):
            with client.events(last_event_id=last) as events:
                kinds = [next(events)[0] for _ in range(3)]
            assert kinds == ["reset", "answer", "answer"], last
        assert len(client.answers("busiest")) == 2


def test_answers_and_numbers_survive_a_restart(tmp_path: Path) -> None:
    with served.serving(served.new_service(tmp_path)) as client:
        client.post(served.rows(0, 9), idempotency_key="a")
        before = client.answers("talkers")
        with client.events() as events:
            last = max(int(next(events)[1]) for _ in range(2))
    with served.serving(served.new_service(tmp_path)) as client:
        assert client.answers("talkers") == before
        assert client.post(served.rows(0, 9), idempotency_key="a").json == {"rows": 9}
        with client.events(last_event_id=str(last)) as events:
            client.post(served.rows(9, 2))
            numbers = [int(n) for kind, n, _ in islice(events, 3) if kind == "answer"]
        assert numbers
        assert min(numbers) == last + 1
