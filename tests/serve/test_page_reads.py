"""What a first-time reader sees on the page: dates, units, words, the place of cards, groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs import CardView
from skyband.jobs.ddl import arrow_schema
from skyband.serve.page import Page
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


# Answers that are made up, shown by a page without an engine --------------------------------------


TYPES = arrow_schema("", SCHEMA)


@dataclass
class Window:
    """An answer of one window, an hour after the one before."""

    query: Any
    hour: int
    rows: list[dict[str, Any]]
    name: str
    exact: bool = True
    bounds: dict[str, Any] = field(default_factory=dict)
    changes: pa.Table = field(default_factory=lambda: pa.table({}))
    total: int = 3_600_000

    @property
    def start(self) -> datetime:
        return datetime(2025, 8, 30, self.hour, tzinfo=UTC)

    @property
    def end(self) -> datetime:
        return self.start + timedelta(hours=1)

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows)


def ranked(*names: str, **more: Any) -> list[dict[str, Any]]:
    """Rows of a ranking, in this order; ``more`` are columns that all of them have."""
    return [
        {"rank": i + 1, "host": name, "count": 9_000_000_000 - i * 1_000_000, "error": 0.0} | more
        for i, name in enumerate(names)
    ]


def made_up(folder: Path, *queries: str, **cards: CardView) -> Page:
    given = {name: hosts(sb.TimeWindow("1 hour")) for name in queries}
    return Page(given, {"": TYPES}, folder, cards=cards)


def show(shown: Page, name: str, hour: int, rows: list[dict[str, Any]], **more: Any) -> None:
    made: Any = Window(shown.queries[name], hour, rows, name, **more)
    shown.show([made])


def test_small_errors_are_none_and_others_have_a_unit(chromium: Any, tmp_path: Path) -> None:
    shown = made_up(tmp_path, "tiny", "large", "others")
    show(shown, "tiny", 1, ranked("a", "b", error=1e-22), exact=False, bounds={"mu": 10})
    show(shown, "large", 1, ranked("a", "b", error=84e6), exact=False, bounds={"mu": 10})
    show(shown, "others", 1, ranked("a", "b"), exact=False, bounds={"mu": 9.5e9})
    with served.serving(shown) as client:
        page = opened(chromium, client)
        wait_text(page, ".about", "within")
        wait_text(page, ".exact", "exact")
        wait_text(page, ".about", "not shown")
        words = {name: card(page, name).locator(".facts span").first for name in shown.queries}
        assert words["tiny"].inner_text() == "exact to 6 digits"
        assert words["tiny"].get_attribute("class") == "exact"
        assert words["large"].inner_text() == "within 84 MB"
        assert words["others"].inner_text() == "an item not shown may have 9.5 GB"
        sums = card(page, "tiny").locator(".sums")
        assert sums.inner_text().split("\n") == [
            "3.6 MB",
            "bytes in the window",
            "60 kB per minute",
        ]
        assert card(page, "tiny").locator("tbody .value").first.inner_text() == "9 GB"
        assert page.problems == []
        page.close()


def test_a_finished_job_is_finished(chromium: Any, tmp_path: Path) -> None:
    shown = made_up(tmp_path, "hosts")
    show(shown, "hosts", 1, ranked("a"))
    shown.status.counted("", 2_770_000)
    shown.status.finished = True
    shown.status.heard[""] -= 60
    with served.serving(shown) as client:
        page = opened(chromium, client)
        wait_text(page, "#live", "finished")
        said = page.locator("#status").inner_text()
        assert said.startswith("2.77M rows")
        for wrong in ("rows/s", "behind", "no rows"):
            assert wrong not in page.locator("header.top").inner_text()
        page.close()


def test_bad_rows_can_be_looked_at(chromium: Any, tmp_path: Path) -> None:
    board = {"hosts": hosts(sb.TimeWindow("2 s"))}
    service = served.new_service(tmp_path, board, schema=SCHEMA, on_bad="skip")
    with served.serving(service) as client:
        rows = [row(f"2025-08-30T01:00:0{i}", size=None if i % 4 == 3 else 1) for i in range(8)]
        assert client.post(rows).json["bad"] == 2
        page = opened(chromium, client)
        wait_text(page, "#bad summary", "Bad rows, left out: 2 of 8 (25%)")
        assert not page.locator("#bad li").is_visible()
        page.locator("#bad summary").click()
        text = page.locator("#bad li").inner_text()
        why = "The first: column 'bytes', row 3: the weight is null (None)"
        assert text == f"hosts: 2 of 8 rows (25%). {why}"
        page.close()


@pytest.mark.parametrize(("width", "lines"), [(1920, [2, 3]), (1200, [1, 1, 2, 1]), (390, [1] * 5)])
def test_cards_leave_no_holes(chromium: Any, tmp_path: Path, width: int, lines: list[int]) -> None:
    names = ["one", "two", "three", "four", "five"]
    cards = {"two": CardView("The second", wide=True), "five": CardView(unit="requests")}
    shown = made_up(tmp_path, *names, **cards)
    for i, name in enumerate(names):
        for hour in (1, 2):
            show(shown, name, hour, ranked(*"abcdefgh"[: 2 + i]))
    with served.serving(shown) as client:
        page = opened(chromium, client, viewport={"width": width, "height": 2_000})
        page.locator("tbody tr").nth(19).wait_for(timeout=15_000)
        page.wait_for_timeout(700)
        boxes = [each.bounding_box() for each in page.locator("section.card").all()]
        heads = page.locator("section.card h2").all_inner_texts()
        assert heads == ["one", "The second", "three", "four", "five"]
        found: dict[float, list[Any]] = {}
        for box in boxes:
            found.setdefault(round(box["y"]), []).append(box)
        assert [len(line) for line in found.values()] == lines
        left, right = boxes[0]["x"], max(box["x"] + box["width"] for box in boxes)
        for line in found.values():
            assert line[0]["x"] == left
            assert line[-1]["x"] + line[-1]["width"] == pytest.approx(right, abs=1)
            assert len({round(box["height"]) for box in line}) == 1
        ranking, chart = (card(page, "The second").locator(c) for c in (".list", ".chart"))
        beside = chart.bounding_box()["x"] > ranking.bounding_box()["x"] + 300
        assert beside == (width == 1200)  # alone in its line, it need not be as high as others
        if width == 1920:
            assert boxes[1]["width"] == pytest.approx(2 * boxes[0]["width"] + 18, abs=1)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        cut = "(all) => all.filter((e) => e.getBoundingClientRect().bottom > " \
            "e.closest('section').getBoundingClientRect().bottom + 1).length"  # fmt: skip
        assert page.locator("section.card .more").evaluate_all(cut) == 0
        assert "9B requests" in card(page, "five").locator("tbody").inner_text()
        page.close()


def test_what_the_ranking_does_not_show_is_a_bar_of_its_own(chromium: Any, tmp_path: Path) -> None:
    service = served.new_service(
        tmp_path, {"hosts": hosts(sb.TimeWindow("1 hour"), k=2)}, schema=SCHEMA
    )
    with served.serving(service) as client:
        sizes = {"a": 4000, "b": 3000, "c": 1500, "d": 500}
        first = [row("2025-08-30T10:00:00", host, size) for host, size in sizes.items()]
        assert client.post([*first, row("2025-08-30T11:00:00", "a", 7)]).status == 200
        page = opened(chromium, client)
        other = page.locator(".other")
        other.wait_for(timeout=15_000)
        assert other.inner_text() == "other 2 kB"
        assert other.locator(".rest").evaluate("(e) => e.style.transform") == "scaleX(0.5)"
        assert client.post([row("2025-08-30T12:00:00", "a", 7)]).status == 200
        other.wait_for(state="hidden", timeout=15_000)
        page.close()


def test_long_ids_keep_the_end_that_differs(chromium: Any, tmp_path: Path) -> None:
    shown = made_up(tmp_path, "hosts")
    names = [f"/a/long/way/down/to/the/very/same/object/in/the/cache#11706{i}" for i in range(3)]
    for hour in (1, 2):
        show(shown, "hosts", hour, ranked(*names))
    with served.serving(shown) as client:
        page = opened(chromium, client, viewport={"width": 390, "height": 900})
        cells = page.locator("tbody .n")
        cells.nth(2).wait_for(timeout=15_000)
        for cell, name in zip(cells.all(), names, strict=True):
            text = cell.inner_text()
            assert text.startswith("…")
            assert text.endswith(name[-7:])
            assert cell.get_attribute("aria-label") == name
            right = "(e) => e.getBoundingClientRect().right"
            assert cell.locator("span").last.evaluate(right) <= cell.evaluate(right) - 6
            assert cell.evaluate("(e) => e.scrollWidth <= e.clientWidth")
        whole = page.locator(".full")
        assert not whole.is_visible()
        cells.nth(1).hover()
        assert whole.inner_text() == names[1]
        page.mouse.move(0, 0)
        assert not whole.is_visible()
        page.locator("tbody tr").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        assert whole.is_visible()
        assert whole.inner_text() == names[2]
        labels = page.locator(".chart text.name")
        labels.nth(2).wait_for(state="attached", timeout=15_000)
        assert [text[0] + text[-7:] for text in labels.all_text_contents()] == [
            f"…{name[-7:]}" for name in names
        ]
        inside = "(all) => all.every((e) => e.getBBox().x + e.getBBox().width <= " \
            "e.ownerSVGElement.viewBox.baseVal.width)"  # fmt: skip
        assert labels.evaluate_all(inside)
        page.close()


def test_cut_names_can_be_told_apart(chromium: Any, tmp_path: Path) -> None:
    """Also where they differ in the middle."""
    shown = made_up(tmp_path, "hosts")
    names = [
        f"/a/way/to/object/d{part} · some-agent-or-other · {site}-and-the-rest-of-the-name"
        for part, site in [("651063", "Houston"), ("110065", "Houston"), ("651063", "Kansas")]
    ]
    names.append("/a/way/to/object/d7 · an-agent · elsewhere")
    for hour in (1, 2):
        show(shown, "hosts", hour, ranked(*names))
    with served.serving(shown) as client:
        page = opened(chromium, client, viewport={"width": 390, "height": 900})
        cells = page.locator("tbody .n")
        cells.nth(3).wait_for(timeout=15_000)
        texts = cells.all_inner_texts()
        assert all("…" in text for text in texts)
        assert [text.startswith("…651") for text in texts] == [True, False, True, False]
        assert texts[1].startswith("…110")
        page.close()


def test_names_in_the_chart_do_not_overlap_where_ranks_are_shared(
    chromium: Any, tmp_path: Path
) -> None:
    shown = made_up(tmp_path, "hosts")
    tied = [each | {"rank": 1} for each in ranked("a", "b", "c")]
    for hour in (1, 2):
        show(shown, "hosts", hour, tied)
    with served.serving(shown) as client:
        page = opened(chromium, client)
        page.locator(".chart text.name").nth(2).wait_for(timeout=15_000)
        ys = page.locator(".chart text.name").evaluate_all("(all) => all.map((e) => e.getBBox().y)")
        assert all(after - before > 11.9 for before, after in pairwise(ys)), ys
        page.close()


def test_what_leaves_is_gone_before_another_takes_its_place(chromium: Any, tmp_path: Path) -> None:
    shown = made_up(tmp_path, "hosts")
    show(shown, "hosts", 1, ranked("a", "b", "c"))
    hold = """() => {
        const moving = (each) => each.effect.target.matches(".ghost, tr");
        const all = document.getAnimations().filter(moving);
        all.forEach((each) => each.pause());
        return all.length >= 2;
    }"""
    opacities = """(time) => {
        document.getAnimations().forEach((each) => { each.currentTime = time; });
        const of = (each) => Number(getComputedStyle(each).opacity);
        return [of(document.querySelector(".ghost")), of(document.querySelectorAll("tbody tr")[1])];
    }"""
    with served.serving(shown) as client:
        page = opened(chromium, client)
        page.locator("tbody tr").nth(2).wait_for(timeout=15_000)
        page.wait_for_timeout(300)
        show(shown, "hosts", 2, ranked("a", "new", "c"))
        page.wait_for_function(hold, timeout=15_000)
        line = page.locator(".ghost").first.evaluate(
            "(e) => getComputedStyle(e).textDecorationLine"
        )
        assert line == "none"
        seen = [page.evaluate(opacities, time) for time in range(0, 500, 25)]
        assert seen[0][0] > 0.5
        assert seen[-1][1] > 0.5
        assert not any(leaving > 0 and arriving > 0 for leaving, arriving in seen)
        page.close()


def test_an_id_has_one_colour_and_no_other_row_of_its_card(chromium: Any, tmp_path: Path) -> None:
    shown = made_up(tmp_path, "one", "two", "three")
    show(shown, "one", 1, ranked("a", "b", "c"))
    show(shown, "two", 1, ranked("x", "y", "z"))
    show(shown, "three", 1, ranked(*[f"n{i}" for i in range(20)]))
    colours = """() => [...document.querySelectorAll("section.card")].map((card) =>
        Object.fromEntries([...card.querySelectorAll("tbody tr")].map((row) =>
            [row.dataset.id, getComputedStyle(row.querySelector(".dot")).backgroundColor])))"""
    with served.serving(shown) as client:
        page = opened(chromium, client, reduced_motion="reduce")
        page.locator("tbody tr").nth(25).wait_for(timeout=15_000)
        show(shown, "one", 2, ranked("a", "x", "b", "y"))
        wait_text(page, "section:first-child tbody", "x")
        page.wait_for_timeout(500)
        one, two, three = page.evaluate(colours)
        assert set(one) == set("axby")
        for each in (one, two, three):
            assert len(set(each.values())) == len(each)
        assert all(one[id_] == two[id_] for id_ in "xy")
        ends = page.locator("section:first-child .chart circle").evaluate_all(
            "(all) => all.map((e) => getComputedStyle(e).fill)"
        )
        assert ends == list(one.values())
        page.close()


def test_groups_by_size_unknown_ones_and_empty_windows(chromium: Any, tmp_path: Path) -> None:
    board = {"hosts": hosts(sb.TimeWindow("2 s"), by=("service",), weight=None)}
    service = served.new_service(tmp_path, board, schema=SCHEMA)
    with served.serving(service) as client:
        many = [row("2025-08-30T01:00:00", service=s) for s in ["web", *["dns"] * 3, *["ntp"] * 2]]
        client.post([*many, row("2025-08-30T01:00:03", service="ntp")])
        client.post([row("2025-08-30T01:00:07")])
        page = opened(chromium, client, "#end=2025-08-30T01:00:02%2B00:00")
        field = page.locator(".pick input")
        wait_text(page, "tbody", "3")
        counted = page.locator(".sums").inner_text().split("\n")
        assert counted[:2] == ["6", "rows in the window, every service"]
        assert field.input_value() == "dns"
        options = page.locator("datalist option")
        labels = options.evaluate_all("(all) => all.map((e) => e.label)")
        assert labels == ["dns · 3 rows shown", "ntp · 2 rows shown", "web · 1 row shown"]
        field.fill("gopher")
        field.press("Enter")
        assert page.locator(".pick output").inner_text() == "no service “gopher” in this window"
        page.evaluate("document.activeElement.blur()")
        assert field.input_value() == "dns"
        page.keyboard.press("ArrowRight")
        wait_text(page, ".empty", "No rows of dns in this window.")
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => document.querySelector('time').textContent.includes(':04')")
        assert page.locator(".empty").inner_text() == "No rows of dns in this window."
        assert page.locator("tbody tr").count() == 0
        page.close()


def test_words_of_the_tools(chromium: Any, tmp_path: Path) -> None:
    shown = made_up(tmp_path, "hosts")
    for hour in range(3):
        show(shown, "hosts", hour, ranked("a"))
    with served.serving(shown) as client:
        page = opened(chromium, client)
        wait_text(page, "#when", "Windows kept: 3")
        wait_text(page, ".facts", "Windows kept: 3")
        assert page.locator("#theme option").all_inner_texts() == ["System", "Light", "Dark"]
        labels = page.locator(".tools label").all_inner_texts()
        assert [label.split()[0] for label in labels] == ["Time", "Theme"]
        assert page.get_by_label("Theme").count() == 1
        assert page.get_by_label("Time zone").count() == 1
        page.keyboard.press("Space")
        wait_text(page, "#pause", "Resume")
        assert (
            card(page, "hosts").locator(".asks").inner_text() == "Top 3 host by bytes · each hour"
        )
        page.close()


@pytest.mark.parametrize("look", ["light", "dark"])
def test_axe_has_nothing_to_say(chromium: Any, tmp_path: Path, look: str) -> None:
    """About bad rows, a finished job, groups, cut names and a wide card, as about the rest."""
    axe = pytest.importorskip("axe_playwright_python")
    script = Path(axe.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    board = {
        "hosts": hosts(sb.TimeWindow("2 s"), by=("service",)),
        "best": sb.TopK(k=3, score="bytes", id="host", time="ts", window=sb.TimeWindow("2 s")),
    }
    cards = {"best": CardView("The best", "bytes", wide=True)}
    service = served.new_service(tmp_path, board, schema=SCHEMA, on_bad="skip", cards=cards)
    with served.serving(service) as client:
        long = "a-host-with-a-name-that-is-far-too-long-for-the-place-that-it-has-in-a-card-"
        rows = [
            row(f"2025-08-30T01:00:0{i}", f"{long}{i}", None if i == 1 else i) for i in range(8)
        ]
        client.post(rows)
        service.status.finished = True
        page = opened(
            chromium, client, bypass_csp=True, color_scheme=look, reduced_motion="reduce",
            viewport={"width": 900, "height": 900},
        )  # fmt: skip
        wait_text(page, "#live", "finished")
        wait_text(page, "tbody", "…")
        page.locator("#bad summary").click()
        page.locator(".pick input").fill("gopher")
        page.locator(".pick input").press("Enter")
        page.locator("tbody tr").first.focus()
        page.evaluate(script)
        found = page.evaluate("async () => (await axe.run(document)).violations")
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
        assert page.problems == []
        page.close()


def test_an_id_of_several_columns_is_found_as_it_is_shown(chromium: Any, tmp_path: Path) -> None:
    board = {"pairs": hosts(sb.TimeWindow("4 s", slide="2 s"), item=("host", "service"))}
    with served.serving(served.new_service(tmp_path, board, schema=SCHEMA)) as client:
        client.post([row(f"2025-08-30T01:00:0{i}", "ab"[i % 2], i) for i in range(6)])
        page = opened(chromium, client)
        wait_text(page, "tbody", "b · web")
        field, said = page.locator(".find input"), page.locator(".find output")
        found = {"a": "write it as host · service", "a · web": "2 of 2, with ", "a · dns": "not in"}
        for text, wanted in found.items():
            field.fill(text)
            field.press("Enter")
            said.get_by_text(wanted).wait_for(timeout=15_000)
        page.close()
