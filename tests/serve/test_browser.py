"""The page in a real browser, over a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skyband as sb
from skyband.serve.service import Service
from support import browser, served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytestmark = pytest.mark.browser

WINDOW = sb.TimeWindow("4 s", slide="2 s")
BOARD = {
    "talkers": sb.HeavyHitters(k=4, item="host", weight="bytes", time="ts", window=WINDOW),
    "best": sb.TopK(k=3, score="bytes", id="host", time="ts", window=WINDOW),
    "by service": sb.HeavyHitters(k=2, item="host", time="ts", by=("service",), window=WINDOW),
    "skyline": sb.Skyline(
        prefer={"ms": "min", "bytes": "max"}, id="host", time="ts", window=WINDOW
    ),
}
SCHEMA = "ts timestamp, host string, service string, bytes bigint, ms double"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.browsing() as found:
        yield found


def service(folder: Path) -> Service:
    return served.new_service(folder, BOARD, schema=SCHEMA)


def rows(second: int, **sizes: int) -> list[dict[str, Any]]:
    """One row per host, all in one second."""
    return [
        {
            "ts": f"2026-01-05T08:00:{second:02}Z",
            "host": host,
            "service": "web" if i % 2 else "dns",
            "bytes": size,
            "ms": size / 10 + i,
        }
        for i, (host, size) in enumerate(sizes.items())
    ]


def opened(chromium: Any, client: served.Client, **given: Any) -> Any:
    page = chromium.new_page(**({"viewport": {"width": 1280, "height": 900}} | given))
    page.problems = []
    page.on("pageerror", lambda problem: page.problems.append(str(problem)))
    page.on(
        "console",
        lambda said: page.problems.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.goto(f"http://127.0.0.1:{client.port}/")
    page.wait_for_selector("section.card")
    return page


def card(page: Any, name: str) -> Any:
    return page.locator("section.card", has=page.get_by_role("heading", name=name, exact=True))


def names(page: Any, name: str) -> list[str]:
    texts: list[str] = card(page, name).locator("tbody .n > span:not(.dot)").all_inner_texts()
    return texts


def wait_for(page: Any, name: str, wanted: list[str]) -> None:
    page.wait_for_function(
        """([name, wanted]) => {
          const card = [...document.querySelectorAll("section.card")]
            .find((each) => each.querySelector("h2").textContent === name);
          const found = [...(card?.querySelectorAll("tbody .n > span:not(.dot)") || [])];
          return found.map((each) => each.textContent).join() === wanted.join();
        }""",
        arg=[name, wanted],
        timeout=15_000,
    )


def test_the_page(chromium: Any, tmp_path: Path) -> None:
    with served.serving(service(tmp_path)) as client:
        client.post(rows(0, a=50, b=30, c=10))
        client.post(rows(2, a=40, b=90, c=20))
        page = opened(chromium, client)
        wait_for(page, "talkers", ["a", "b", "c"])
        heads = card(page, "talkers").locator("thead th").all_inner_texts()
        assert [head.lower() for head in heads] == ["rank", "change", "host", "sum of bytes"]
        finds(page)
        moves(page, client)
        groups(page)
        skyline(page)
        travel(page, client)
        keyboard(page)
        dark(page)
        takes_away(page)
        assert page.problems == []
        page.close()
        for look in ("light", "dark"):
            no_serious_findings(chromium, client, look)


def finds(page: Any) -> None:
    """A search field says where an id stands; a query that does not know has none."""
    field = card(page, "talkers").get_by_label("host to find in talkers")
    field.fill("c")
    field.press("Enter")
    said = card(page, "talkers").locator("output")
    said.get_by_text("3 of 3, with 10 B").wait_for(timeout=15_000)
    field.fill("")
    field.press("Enter")
    assert said.inner_text() == ""
    assert card(page, "best").locator("output").count() == 0


def moves(page: Any, client: served.Client) -> None:
    """Ranks move, an id enters, another leaves."""
    client.post(rows(4, d=5))
    wait_for(page, "talkers", ["b", "a", "c"])
    talkers = card(page, "talkers")
    chips = [each for each in talkers.locator(".chip").all_inner_texts() if each]
    assert chips == ["▲1", "▼1"]
    client.post(rows(6, d=5, e=500))
    wait_for(page, "talkers", ["b", "a", "c", "d"])
    assert "new" in talkers.locator("tbody tr").nth(3).inner_text()
    client.post(rows(8, e=1))
    wait_for(page, "talkers", ["e", "d"])
    values = talkers.locator("tbody .value").all_inner_texts()
    assert values == ["500 B", "10 B"]
    assert talkers.locator(".exact").inner_text() == "exact"
    assert talkers.locator("svg.bump path.line").count() == 5
    assert talkers.get_by_role("table").count() == 1


def groups(page: Any) -> None:
    found = card(page, "by service")
    assert found.locator(".pick input").input_value() == "dns"
    wait_for(page, "by service", ["d"])
    found.get_by_role("button", name="Next service").click()
    wait_for(page, "by service", ["e"])
    assert "group.by+service=" in page.url
    found.locator(".pick input").fill("dns")
    wait_for(page, "by service", ["d"])
    page.evaluate("document.activeElement.blur()")  # in a field, arrow keys move in its text


def skyline(page: Any) -> None:
    points = card(page, "skyline").locator("g.point:not(.leaving)")
    assert points.count() >= 1
    label = points.first.get_attribute("aria-label")
    assert label is not None
    assert re.fullmatch(r"\w+: ms [\d.,]+ ms, bytes [\d.,]+ k?B", label)
    path = card(page, "skyline").locator("path.stairs").get_attribute("d")
    assert path is not None
    assert path.startswith("M")


def travel(page: Any, client: served.Client) -> None:
    """The past is said to be the past, can be linked to, and one key returns to now."""
    page.keyboard.press("ArrowLeft")
    wait_for(page, "talkers", ["b", "a", "c", "d"])
    page.wait_for_function("() => document.getElementById('when').textContent.includes('the past')")
    page.keyboard.press("ArrowLeft")
    wait_for(page, "talkers", ["b", "a", "c"])
    assert page.locator("#live").inner_text() == "the past"
    client.post(rows(10, f=7))  # what comes meanwhile does not move the past
    page.wait_for_timeout(150)
    assert names(page, "talkers") == ["b", "a", "c"]
    other = page.context.browser.new_page()
    other.goto(page.url)
    wait_for(other, "talkers", ["b", "a", "c"])
    other.close()
    page.keyboard.press("ArrowRight")
    wait_for(page, "talkers", ["b", "a", "c", "d"])
    page.keyboard.press("n")
    wait_for(page, "talkers", ["e", "d"])
    assert page.locator("#live").inner_text() == "live"
    page.keyboard.press("Space")
    page.wait_for_function("() => document.getElementById('pause').textContent === 'Resume'")
    page.keyboard.press("Space")
    page.wait_for_function("() => document.getElementById('pause').textContent === 'Pause'")


def keyboard(page: Any) -> None:
    """Rows are reached with the arrow keys, and a focused row is lit in every card."""
    first = card(page, "talkers").locator("tbody tr").first
    first.focus()
    assert "lit" in (first.get_attribute("class") or "")
    lit = card(page, "best").locator("tbody tr.lit .n > span:not(.dot)")
    assert lit.all_inner_texts() == ["e", "e (2)"]  # an id may have several rows
    assert card(page, "talkers").locator("path.line.lit").count() == 1
    page.keyboard.press("ArrowDown")
    assert card(page, "talkers").locator("tbody tr.lit .n").inner_text().strip() == "d"
    page.keyboard.press("Enter")
    assert "row=d" in page.url
    page.keyboard.press("Enter")
    assert "row=" not in page.url
    page.evaluate("document.activeElement.blur()")


def dark(page: Any) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.keyboard.press("d")
    assert page.evaluate(colour) != light
    assert "theme=dark" in page.url
    page.keyboard.press("d")
    assert page.evaluate(colour) == light
    page.locator("#zone").select_option("UTC")
    assert "zone=UTC" in page.url


def takes_away(page: Any) -> None:
    with page.expect_download() as found:
        card(page, "talkers").get_by_role("button", name="Download").click()
    text = Path(found.value.path()).read_text()
    assert text.splitlines()[0] == "window_start,window_end,rank,host,count,error"
    assert text.splitlines()[1].endswith(",1,e,501,0") or ",1,e," in text


def no_serious_findings(chromium: Any, client: served.Client, look: str) -> None:
    """What axe-core finds; it has to be put into the page, which the page's policy forbids."""
    axe = pytest.importorskip("axe_playwright_python")
    script = Path(axe.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    calm = {"color_scheme": look, "reduced_motion": "reduce"}
    page = opened(chromium, client, bypass_csp=True, **calm)
    wait_for(page, "talkers", ["e", "d"])
    page.evaluate(script)
    found = page.evaluate("async () => (await axe.run(document)).violations")
    serious = [(each["id"], each["nodes"][0]["html"]) for each in found]
    assert serious == []
    page.close()


def test_a_reconnect_after_the_server_was_gone(chromium: Any, tmp_path: Path) -> None:
    with served.serving(service(tmp_path)) as client:
        client.post(rows(0, a=50, b=30))
        client.post(rows(2, a=1))
        page = opened(chromium, client)
        wait_for(page, "talkers", ["a", "b"])
        port = client.port
    page.wait_for_function("() => document.getElementById('live').textContent === 'reconnecting'")
    with served.serving(service(tmp_path), port=port) as client:
        client.post(rows(4, c=99))
        client.post(rows(6, c=1))
        wait_for(page, "talkers", ["c", "a"])
        assert page.locator("#live").inner_text() == "live"
        # Nothing is missing in between: the chart has the windows that passed meanwhile.
        page.keyboard.press("ArrowLeft")
        wait_for(page, "talkers", ["a", "b"])
        page.close()


def test_answers_that_come_fast(chromium: Any, tmp_path: Path) -> None:
    """Charts wait then, but not for ever; rows stay in place, and the focus goes with its id."""
    ends = """() => [...document.querySelector("svg.bump").querySelectorAll("text.name")]
        .map((each) => each.textContent).join()"""
    with served.serving(service(tmp_path)) as client:
        client.post(rows(0, a=50, b=30))
        client.post(rows(2, a=1))
        client.post(rows(4, a=1))
        page = chromium.new_page()
        page.add_init_script("window.held = 1e4; performance.now = () => window.held;")
        page.goto(f"http://127.0.0.1:{client.port}/")
        wait_for(page, "talkers", ["a", "b"])
        page.wait_for_function(f"() => ({ends})() === 'a,b'")
        first = card(page, "talkers").locator("tbody tr").first
        first.focus()
        first.evaluate("(row) => { window.first = row; }")
        client.post([row for at in range(6, 58, 2) for row in rows(at, a=at % 7, b=1, c=at)])
        wait_for(page, "talkers", ["c", "a", "b"])
        kept = card(page, "talkers").locator(".facts span").last
        assert kept.inner_text() == f"Windows kept: {len(client.answers('talkers'))}"
        assert page.evaluate(ends) == "a,b"
        page.evaluate("() => { window.held += 2000; }")
        page.wait_for_function(f"() => ({ends})() === 'c,a,b'")
        assert first.evaluate("(row) => row === window.first")
        assert page.evaluate("document.activeElement.dataset.id") == "a"
        assert card(page, "talkers").locator("tr[tabindex='0'] .n").inner_text().strip() == "a"
        page.close()


def test_a_token_is_asked_for_in_the_page(chromium: Any, tmp_path: Path) -> None:
    with served.serving(service(tmp_path), token="s3cret") as client:
        page = chromium.new_page()
        page.goto(f"http://127.0.0.1:{client.port}/")
        page.locator("#token").fill("wrong")
        page.locator("#login-form button").click()
        page.wait_for_function("() => document.getElementById('login-problem').textContent")
        page.locator("#token").fill("s3cret")
        page.locator("#login-form button").click()
        page.wait_for_selector("section.card")
        page.close()


def test_narrow_and_calm(chromium: Any, tmp_path: Path) -> None:
    with served.serving(service(tmp_path)) as client:
        client.post(rows(0, a=50, b=30))
        client.post(rows(2, a=1))
        given: dict[str, Any] = {
            "viewport": {"width": 360, "height": 700},
            "reduced_motion": "reduce",
        }
        page = opened(chromium, client, **given)
        wait_for(page, "talkers", ["a", "b"])
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        client.post(rows(4, b=99))
        client.post(rows(6, b=1))
        wait_for(page, "talkers", ["b", "a"])
        assert page.evaluate("document.getAnimations().length") == 0
        assert page.problems == []
        page.close()
