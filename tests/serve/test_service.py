"""The heart of the service: journal, snapshots, keys, history; without HTTP."""

from __future__ import annotations

import gc
import json
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.errors import EngineError
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.local.journal import BLOCK
from skyband.jobs.local.posts import PostRefused, Request
from skyband.serve.bodies import read_body
from skyband.serve.history import Event, History
from skyband.serve.limits import ServiceLimits
from skyband.serve.service import Service
from support import served
from support.served import abandon

SCHEMA = arrow_schema("[source]", served.SCHEMA)


def request(first: int, count: int, key: str | None = None) -> Request:
    table = read_body("json", served.ndjson(served.rows(first, count)), SCHEMA)
    return Request("", table, 100, key, f"{first}-{count}")


def apply(service: Service, *given: Any) -> dict[str, Any]:
    return service.inbox.submit(request(*given)).result(20)


def journal(folder: Path) -> Path:
    """The journal of a checkpoint; there is always one."""
    (path,) = folder.glob("journal-*")
    return path


def everything(service: Service) -> Any:
    stats = {
        name: {what: found[what] for what in ("rows_in", "rows_late", "rows_bad", "windows_out")}
        for name, found in service.job.stats.items()
    }
    kept = {name: service.history.newest(name, 1_000) for name in service.queries}
    return stats, kept, service.number, dict(service.status.rows), dict(service.status.seen)


def test_a_killed_service_goes_on_from_its_journal(tmp_path: Path) -> None:
    service = served.new_service(tmp_path)
    for i in range(6):
        assert apply(service, 5 * i, 5, f"key-{i}") == {"rows": 5}
    before = everything(service)
    abandon(service)
    again = served.new_service(tmp_path)
    assert everything(again) == before
    assert apply(again, 25, 5, "key-5") == {"rows": 5}  # known, so not applied again
    assert everything(again) == before
    again.close()
    third = served.new_service(tmp_path)
    assert everything(third) == before
    third.close()


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_record_that_was_cut_off_is_dropped(tmp_path: Path, cut: int) -> None:
    service = served.new_service(tmp_path)
    apply(service, 0, 9)
    before = everything(service)
    apply(service, 9, 9, "cut")
    abandon(service)
    path = journal(tmp_path)
    whole = path.read_bytes().rstrip(b"\0")  # an Arrow stream ends with at most eight zeros
    path.write_bytes(whole[:-cut])
    again = served.new_service(tmp_path)
    assert everything(again) == before
    assert apply(again, 9, 9, "cut") == {"rows": 9}
    assert again.job.stats["busiest"]["rows_in"] == 18
    again.close()


def test_snapshots_bound_the_journal(tmp_path: Path) -> None:
    service = served.new_service(tmp_path, limits=ServiceLimits(journal_bytes=10_000))
    for i in range(30):
        apply(service, 5 * i, 5)
        assert service.journal_bytes < 10_000 + 3 * BLOCK  # one group is on its way
    until = time.monotonic() + 20  # a snapshot may be on its way, after the reply to the last post
    while len(list(tmp_path.glob("journal-*"))) > 1 and time.monotonic() < until:
        time.sleep(0.01)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert journal(tmp_path).name != "journal-0"
    assert names == ["answers", journal(tmp_path).name, "lock", "skyband.json", "snapshot"]
    before = everything(service)
    abandon(service)
    again = served.new_service(tmp_path)
    assert everything(again) == before
    again.close()


@pytest.mark.parametrize("point", ["history", "snapshot", "journal"])
def test_a_kill_while_a_snapshot_is_taken(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = served.new_service(tmp_path)
    apply(service, 0, 15)
    before = everything(service)

    class Killed(BaseException):
        pass

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if point == "history":
            patch.setattr("skyband.jobs.local.checkpoint.pack", killed)
        elif point == "snapshot":
            patch.setattr(Path, "replace", killed)
        else:
            patch.setattr(Path, "unlink", killed)
        with pytest.raises(Killed):
            service.job._save()
    abandon(service)
    again = served.new_service(tmp_path)
    assert everything(again) == before
    again.close()


def test_a_query_is_added_to_a_board_and_one_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = served.new_service(tmp_path)
    apply(service, 0, 21)
    last = service.history.last
    kept = [event.text for event in service.history.newest("busiest", 99)]
    abandon(service)  # killed: the journal is applied again
    board = served.board()
    fresh = sb.TopK(k=1, score="bytes", id="flow", time="ts", window=served.WINDOW)
    again = served.new_service(tmp_path, {"busiest": board["busiest"], "fresh": fresh})
    assert "query 'fresh' is new" in caplog.text
    assert "query 'talkers' was removed" in caplog.text
    assert [event.text for event in again.history.newest("busiest", 99)] == kept
    assert again.history.since(last) is None  # numbers mean other answers now
    apply(again, 21, 10)
    again.close()
    caplog.clear()
    third = served.new_service(tmp_path, {"busiest": board["busiest"], "fresh": fresh})
    assert not caplog.records
    whole = served.new_service(tmp_path / "whole")
    apply(whole, 0, 31)
    assert [e.text for e in third.history.newest("busiest", 99)] == [
        e.text for e in whole.history.newest("busiest", 99)
    ]
    third.close()
    whole.close()


def test_a_changed_board_is_refused(tmp_path: Path) -> None:
    service = served.new_service(tmp_path)
    apply(service, 0, 5)
    service.close()
    other = served.board() | {
        "busiest": sb.TopK(k=4, score="bytes", id="flow", time="ts", window=served.WINDOW)
    }
    with pytest.raises(EngineError, match="busiest changed since"):
        served.new_service(tmp_path, other)
    served.new_service(tmp_path).close()  # the folder was let go


@pytest.mark.parametrize("ticks", [1 << 60, -(1 << 60), -(1 << 63)])
def test_a_time_that_python_cannot_name_is_a_bad_row(tmp_path: Path, ticks: int) -> None:
    service = served.new_service(tmp_path)
    far = request(0, 3)
    times = pa.array([0, ticks, 0]).cast(pa.timestamp("us", "UTC"))
    far.table = far.table.set_column(0, "ts", times)
    reply = service.inbox.submit(far).result(20)
    assert (reply["rows"], reply["bad"]) == (3, 1)
    assert str(ticks) in reply["reason"]
    assert apply(service, 3, 5) == {"rows": 5}
    service.close()


def test_two_services_cannot_share_a_folder(tmp_path: Path) -> None:
    service = served.new_service(tmp_path)
    with pytest.raises(EngineError, match="another process uses"):
        served.new_service(tmp_path)
    service.close()


def test_a_refused_request_leaves_no_trace(tmp_path: Path) -> None:
    service = served.new_service(tmp_path, on_bad="raise")
    apply(service, 0, 5)
    size = service.journal_bytes
    bad = request(5, 3, "bad")
    bad.table = bad.table.set_column(3, "bytes", [[None, 1, 2]])
    bad.table = bad.table.cast(SCHEMA)
    with pytest.raises(PostRefused) as found:
        service.inbox.submit(bad).result(20)
    assert (found.value.row, found.value.column) == (0, "bytes")
    assert service.journal_bytes == size
    assert len(service.keys) == 0
    assert service.job.stats["talkers"]["rows_in"] == 5
    service.close()


def test_the_file_of_answers_stays_small(tmp_path: Path) -> None:
    history = History(["a", "b"], 5, tmp_path / "answers")
    for number in range(1, 4_001):
        history.add([Event(number, "ab"[number % 2], str(number), "{}")], number)
        if not number % 50:
            history.write()
    assert len((tmp_path / "answers").read_bytes().splitlines()) < 1_200
    again = History(["a", "b"], 5, tmp_path / "answers")
    assert again.newest("a", 9) == history.newest("a", 9)
    assert (again.last, again.dropped) == (history.last, history.dropped) == (4_000, 3_990)
    assert again.since(3_989) is None
    assert [event.number for event in again.since(3_995) or []] == list(range(3_996, 4_001))


def test_a_burst_of_windows_keeps_the_last_ones(tmp_path: Path) -> None:
    service = served.new_service(tmp_path, history=3)
    apply(service, 0, 60)
    kept = service.history.newest("busiest", 99)
    assert [event.end for event in kept] == [
        f'"2026-01-05T08:00:{second}+00:00"' for second in (54, 56, 58)
    ]
    assert service.history.since(1) is None
    before = everything(service)
    abandon(service)
    again = served.new_service(tmp_path, history=3)
    assert everything(again) == before
    again.close()


def test_an_arrow_body_may_have_its_columns_in_another_order(tmp_path: Path) -> None:
    """After a kill it is read again from the journal."""
    table = read_body("json", served.ndjson(served.rows(0, 12)), SCHEMA)
    turned = table.select(list(reversed(table.column_names)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, turned.schema) as writer:
        writer.write_table(turned)
    body = bytes(sink.getvalue())
    service = served.new_service(tmp_path)
    with served.serving(service) as client:
        kind = "application/vnd.apache.arrow.stream"
        assert client.post(body, content_type=kind).json == {"rows": 12}
        before = everything(service)
        copy = tmp_path / "copy"  # as a kill would leave it
        copy.mkdir()
        for each in ("skyband.json", journal(tmp_path).name):
            (copy / each).write_bytes((tmp_path / each).read_bytes())
    again = served.new_service(copy)
    assert everything(again) == before
    again.close()


def test_requests_are_applied_while_others_are_made_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = served.new_service(tmp_path)
    held, syncing = threading.Event(), threading.Event()
    log = service.job.checkpoint._journal
    assert log is not None
    sync = log.sync

    def slow() -> None:
        syncing.set()
        assert held.wait(20)
        sync()

    monkeypatch.setattr(log, "sync", slow)
    first = service.inbox.submit(request(0, 5))
    assert syncing.wait(20)
    second = service.inbox.submit(request(5, 5))
    until = time.monotonic() + 20
    while service.status.rows[""] < 10 and time.monotonic() < until:
        time.sleep(0.01)
    assert service.status.rows[""] == 10  # applied
    assert not first.done()
    assert not second.done()  # but not acknowledged
    assert service.history.last == 0
    held.set()
    assert (first.result(20), second.result(20)) == ({"rows": 5}, {"rows": 5})
    assert service.waiting == (0, 0)
    service.close()


class Text(str):
    """Text that can be watched: of a plain one, nobody is told when it is gone."""


def test_what_is_not_kept_is_not_held_for_the_file_either(tmp_path: Path) -> None:
    # Between two snapshots many times the kept answers may come.
    history = History(["a", "b"], 3, tmp_path / "answers")
    watched: list[weakref.ref[Text]] = []

    def add(number: int, name: str) -> None:
        text = Text(f'{{"n":{number}}}')
        watched.append(weakref.ref(text))
        history.add([Event(number, name, str(number), text)], number)

    for number in range(1, 21):
        add(number, "b" if number == 2 else "a")
    gc.collect()
    assert [each() for each in watched if each() is not None] == [
        f'{{"n":{n}}}' for n in (2, 18, 19, 20)
    ]
    history.write()
    lines = (tmp_path / "answers").read_text().splitlines()
    assert [json.loads(line).get("id") for line in lines] == [None, 2, 18, 19, 20]
    for number in range(21, 26):
        add(number, "a")
    history.write()
    add(26, "b")
    history.write()
    found = History(["a", "b"], 3, tmp_path / "answers")
    assert [event.number for event in found.newest("a", 9)] == [23, 24, 25]
    assert [event.number for event in found.newest("b", 9)] == [2, 26]
    assert (found.last, found.dropped) == (26, 22)
