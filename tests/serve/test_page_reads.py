"""What a first-time reader sees on the page: dates, units, words, the place of cards, groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skyband as sb
from support import browser, served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytestmark = pytest.mark.browser

SCHEMA = "ts timestamp, host string, service string, bytes bigint"
NEW_YORK = {"locale": "en-US", "timezone_id": "America/New_York"}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.browsing() as found:
        yield found


def row(at: str, host: str = "a", size: int | None = 1, service: str = "web") -> dict[str, Any]:
    return {"ts": f"{at}Z", "host": host, "service": service, "bytes": size}


def opened(chromium: Any, client: served.Client, fragment: str = "", **given: Any) -> Any:
    page = chromium.new_page(**(NEW_YORK | given))
    page.problems = []
    page.on("pageerror", lambda problem: page.problems.append(str(problem)))
    page.goto(f"http://127.0.0.1:{client.port}/{fragment}")
    page.wait_for_selector("section.card")
    return page


def card(page: Any, name: str) -> Any:
    return page.locator("section.card", has=page.get_by_role("heading", name=name, exact=True))


def wait_text(page: Any, selector: str, wanted: str) -> None:
    page.wait_for_function(
        "([selector, wanted]) => [...document.querySelectorAll(selector)]"
        ".some((each) => each.textContent.includes(wanted))",
        arg=[selector, wanted],
        timeout=15_000,
    )


def hosts(window: Any, **given: Any) -> sb.HeavyHitters:
    given = {"k": 3, "item": "host", "weight": "bytes", "time": "ts", "window": window} | given
    return sb.HeavyHitters(**given)


@pytest.mark.parametrize(
    ("window", "shown"),
    [
        (sb.TimeWindow("1 day"), "Aug 29, 2025, 8:00 PM – Aug 30, 2025, 8:00 PM"),
        (sb.TimeWindow("1 day", zone="America/New_York"), "Aug 30, 2025"),
        (sb.TimeWindow("2 hours", slide="1 hour"), "Aug 30, 2025, 8:00 – 10:00 PM"),
        (sb.TimeWindow("20 s", slide="10 s"), "Aug 30, 2025, 9:00:00 PM – 9:00:20 PM"),
    ],
)
def test_times_have_a_date_where_they_need_one(
    chromium: Any, tmp_path: Path, window: sb.TimeWindow, shown: str
) -> None:
    service = served.new_service(tmp_path, {"hosts": hosts(window)}, schema=SCHEMA)
    with served.serving(service) as client:
        hours = ["29T22:00:00", "30T10:00:00", "31T01:00:00", "31T01:00:11", "31T05:00:00"]
        assert client.post([row(f"2025-08-{at}") for at in hours]).status == 200
        page = opened(chromium, client)
        page.wait_for_function("() => document.querySelector('section time').textContent")
        found = []
        for _ in client.answers("hosts"):
            text = page.locator("section time").inner_text()
            found.append(" ".join(text.replace("\u2009", " ").split()))
            page.keyboard.press("ArrowLeft")
            page.wait_for_timeout(400)
        assert shown in found
        assert "2025" in page.locator("#status").inner_text()
        assert page.problems == []
        page.close()


def test_times_of_today_have_no_date(chromium: Any, tmp_path: Path) -> None:
    from datetime import UTC, datetime

    service = served.new_service(tmp_path, {"hosts": hosts(sb.TimeWindow("2 s"))}, schema=SCHEMA)
    now = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
    if now.hour in (0, 23):
        pytest.skip("the day may change meanwhile")
    with served.serving(service) as client:
        earlier = now.replace(hour=now.hour - 1)
        assert client.post([row(earlier.isoformat()), row(now.isoformat())]).status == 200
        page = opened(chromium, client, timezone_id="UTC")
        page.wait_for_function("() => document.querySelector('section time').textContent")
        assert str(now.year) not in page.locator("section time").inner_text()
        assert now.strftime("%b") not in page.locator("section time").inner_text()
        page.close()
