"""The page in a real browser: what single answers, the status line and the tools show."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skyband as sb
from skyband.jobs.ddl import arrow_schema
from support import browser, served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytestmark = pytest.mark.browser

WINDOW = sb.TimeWindow("4 s", slide="2 s")
BOARD = {
    "sketch": sb.HeavyHitters(
        k=3, item="host", weight="bytes", time="ts", window=WINDOW, algorithm="ss", capacity=3
    ),
    "likely": sb.UncertainTopK(
        k=2, score="bytes", probability="p", id="host", time="ts", window=WINDOW
    ),
}
SCHEMA = "ts timestamp, host string, bytes bigint, p double"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.browsing() as found:
        yield found


def rows(second: int, **sizes: int) -> list[dict[str, Any]]:
    return [
        {"ts": f"2026-01-05T08:00:{second:02}Z", "host": host, "bytes": size, "p": 1 / (i + 1)}
        for i, (host, size) in enumerate(sizes.items())
    ]


def text_of(page: Any, name: str, has: str) -> None:
    page.wait_for_function(
        "([id, has]) => document.getElementById(id).textContent.includes(has)",
        arg=[name, has],
        timeout=20_000,
    )


def test_errors_probabilities_and_taking_away(chromium: Any, tmp_path: Path) -> None:
    with served.serving(served.new_service(tmp_path, BOARD, schema=SCHEMA)) as client:
        client.post(rows(0, a=4_500, b=400, c=30, d=20, e=10))
        client.post(rows(2, a=1))
        context = chromium.new_context(
            locale="de-DE", timezone_id="Asia/Tokyo", permissions=["clipboard-read"]
        )
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{client.port}/")
        sketch = page.locator("section.card").nth(0)
        likely = page.locator("section.card").nth(1)
        likely.locator("tbody tr").nth(1).wait_for(timeout=20_000)
        whiskers(sketch, client)
        shades = likely.locator(".bar").evaluate_all("(bars) => bars.map((b) => +b.style.opacity)")
        chances = [row["p"] for row in client.answers("likely")[-1]["rows"]]
        assert shades == pytest.approx([0.35 + 0.65 * chance for chance in chances])
        assert len(set(shades)) == 2
        likely.get_by_role("button", name="Copy CSV").click()
        likely.get_by_role("button", name="Copied").wait_for(timeout=20_000)
        lines = page.evaluate("navigator.clipboard.readText()").splitlines()
        assert lines[0] == "window_start,window_end,rank,host,bytes,p,topk_probability"
        assert [line.split(",")[2:4] for line in lines[1:]] == [["1", "a"], ["2", "b"]]
        # Numbers follow the locale; times the zone of the reader, or the one that is chosen.
        assert "4,5 kB" in likely.locator("tbody").inner_text()
        assert likely.locator("time").inner_text().endswith("17:00:02")
        page.locator("#zone").select_option("UTC")
        page.wait_for_function(
            "() => document.querySelector('time').textContent.endsWith('08:00:02')"
        )
        announced(page, client)
        sparkline(sketch, client)
        context.close()


def test_copied_cells_are_no_formulas(chromium: Any, tmp_path: Path) -> None:
    hosts = ['=HYPERLINK("http://evil.example")', "+1+1", "-1+1", "@SUM(A1)", "\t=1", "a=b", "-12"]
    query = sb.TopK(k=9, score="bytes", id="host", time="ts", window=sb.TimeWindow("2 s"))
    service = served.new_service(tmp_path, {"top": query}, schema=SCHEMA)
    with served.serving(service) as client:
        client.post(rows(0, **{host: 1 - i for i, host in enumerate(hosts)}))
        client.post(rows(2, z=1))
        context = chromium.new_context()
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{client.port}/")
        page.locator("tbody tr").nth(len(hosts) - 1).wait_for(timeout=20_000)
        page.get_by_role("button", name="Copy CSV").click()
        page.get_by_role("button", name="Copied").wait_for(timeout=20_000)
        text = page.evaluate("navigator.clipboard.readText()")
        head, *lines = csv.reader(io.StringIO(text, newline=""))
        copied = [line[head.index("host")] for line in lines]
        assert copied == [*(f"'{host}" for host in hosts[:5]), "a=b", "-12"]
        assert [line[head.index("bytes")] for line in lines] == [str(1 - i) for i in range(7)]
        context.close()


def whiskers(card: Any, client: served.Client) -> None:
    """An error is drawn from the least to the greatest count that is possible."""
    answer = client.answers("sketch")[-1]
    errors = [row["error"] for row in answer["rows"]]
    assert any(errors), "the sketch was meant to be too small"
    card.locator(".whisker").first.wait_for(state="attached", timeout=20_000)
    shown = card.locator(".whisker").evaluate_all("(all) => all.map((each) => !each.hidden)")
    assert shown == [error > 0 for error in errors]
    most = max(row["count"] for row in answer["rows"])
    row = next(row for row in answer["rows"] if row["error"])
    place = card.locator(".whisker:not([hidden])").first.evaluate(
        "(each) => [parseFloat(each.style.left), parseFloat(each.style.right)]"
    )
    low = max(0, (row["count"] - row["error"]) / most) * 100
    assert place == pytest.approx([low, (1 - row["count"] / most) * 100], abs=0.01)
    assert card.locator(".facts .about").inner_text().startswith("within")


def announced(page: Any, client: served.Client) -> None:
    """A new leader is told politely, ten seconds after the last one at the earliest."""
    assert page.locator("#said").get_attribute("aria-live") == "polite"
    client.post(rows(4, z=99_000))
    client.post(rows(6, z=1))
    text_of(page, "said", "z is now first")


def sparkline(card: Any, client: served.Client) -> None:
    """The totals of the kept windows, left to right, the greatest at the top."""
    totals = [answer["total"] for answer in client.answers("sketch")]
    assert len(set(totals)) > 2
    path = card.locator("svg.spark path").last.get_attribute("d")
    points = [tuple(map(float, each.split(","))) for each in path.lstrip("M").split("L")]
    steps = len(totals) - 1
    drawn = [(96 * i / steps, 20 - 17 * each / max(totals)) for i, each in enumerate(totals)]
    assert [x for point in points for x in point] == pytest.approx(
        [x for point in drawn for x in point], abs=0.06
    )
    shown = f"{float(f'{totals[-1] / 1000:.3g}'):g}".replace(".", ",")
    assert card.locator(".sums b").inner_text() == f"{shown} kB"


def test_trouble_is_said_plainly_and_a_lost_connection_alone(chromium: Any, tmp_path: Path) -> None:
    query = sb.SkylineJoin(
        left="trades", right="risks", on="stock", prefer={"price": "min", "risk": "min"},
        time="ts", window=WINDOW,
    )  # fmt: skip
    schemas = {
        "trades": arrow_schema("", "ts timestamp, stock string, price double"),
        "risks": arrow_schema("", "ts timestamp, stock string, risk double"),
    }
    service = served.new_service(tmp_path, {"best": query}, schema=schemas)
    with served.serving(service) as client:
        at = "2026-01-05T08:00:{:02}Z"
        trades = [{"ts": at.format(i), "stock": "s", "price": 1.0} for i in range(50)]
        client.post(trades, "trades")
        client.post([{"ts": at.format(i), "stock": "s", "risk": 1.0} for i in range(9)], "risks")
        page = chromium.new_page()
        page.goto(f"http://127.0.0.1:{client.port}/")
        text_of(page, "trouble", "Source risks holds the others back by 41 s")
        assert page.locator("#trouble").get_attribute("role") == "status"
        for name in service.status.heard:
            service.status.heard[name] -= 40
        text_of(page, "trouble", "No rows for 4")
        text_of(page, "status", "0 late")
    text_of(page, "trouble", "The connection was lost at")
    said = page.locator("#trouble").inner_text()
    assert re.fullmatch(r"The connection was lost at [\d:]+( [AP]M)?; trying again", said)
    assert page.locator("#live").inner_text() == "reconnecting"
    page.close()


def test_a_page_that_has_not_all_windows_knows_their_number(chromium: Any, tmp_path: Path) -> None:
    """It loads the rest when somebody goes back."""
    board = {"likely": BOARD["likely"]}
    with served.serving(served.new_service(tmp_path, board, schema=SCHEMA)) as client:
        found = [
            {"ts": f"2026-01-05T08:{i // 60:02}:{i % 60:02}Z", "host": "a", "bytes": i, "p": 0.5}
            for i in range(160)
        ]
        client.post(found)
        page = chromium.new_page()
        page.goto(f"http://127.0.0.1:{client.port}/")
        kept = f"Windows kept: {len(client.answers('likely'))}"
        text_of(page, "when", f"Showing now · {kept}")
        text_of(page, "cards", kept)
        page.wait_for_function("() => document.getElementById('slider').max === '59'")
        page.keyboard.press("ArrowLeft")
        text_of(page, "when", "1 window ago")
        page.keyboard.press("n")
        text_of(page, "when", f"Showing now · {kept}")
        page.close()


def test_a_new_row_gets_a_colour_that_no_other_has(chromium: Any, tmp_path: Path) -> None:
    window = sb.TimeWindow("2 s")
    board = {"best": sb.TopK(k=10, score="bytes", id="host", time="ts", window=window)}
    with served.serving(served.new_service(tmp_path, board, schema=SCHEMA)) as client:
        client.post(rows(0, **{f"n{i}": 100 - i for i in range(10)}))
        client.post(rows(2, n0=2, another=1))
        page = chromium.new_page()
        page.goto(f"http://127.0.0.1:{client.port}/")
        count = "(n) => document.querySelectorAll('tbody tr').length === n"
        page.wait_for_function(count, arg=10, timeout=20_000)
        client.post(rows(4, n0=1))
        page.wait_for_function(count, arg=2, timeout=20_000)
        dots = page.locator("tbody .dot").evaluate_all(
            "(all) => all.map((e) => e.style.background)"
        )
        assert len(set(dots)) == 2
        page.close()


def test_a_tall_page_of_medium_width(chromium: Any, tmp_path: Path) -> None:
    """The title is not cut to make room for the tools, and cards follow one another closely."""
    service = served.new_service(tmp_path, BOARD, schema=SCHEMA)
    with served.serving(service, title="the whole network") as client:
        client.post(rows(0, a=5_000, b=400))
        client.post(rows(2, a=1))
        page = chromium.new_page(viewport={"width": 800, "height": 2_400})
        page.goto(f"http://127.0.0.1:{client.port}/")
        cards = page.locator("section.card")
        cards.nth(1).locator("tbody tr").first.wait_for(timeout=20_000)
        cut = page.locator("h1").evaluate("(title) => title.scrollWidth > title.clientWidth")
        assert not cut
        first, second = (cards.nth(i).bounding_box() for i in range(2))
        assert 0 < second["y"] - (first["y"] + first["height"]) < 30
        page.close()
