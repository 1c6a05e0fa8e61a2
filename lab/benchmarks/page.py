"""The page in Chromium: ten rankings of twenty rows at ten answers a second.

Processor time is read from the system for Chromium's processes. The renderer runs the page, and
draws its pieces on other threads; the others put the pieces together and talk to the network. There
is no graphics card here, so what it would do counts as well. Needs Playwright and the system's
Chromium.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from lab.bench import Progress
from lab.bench.server import Served, flows, ndjson, served
from skyband.errors import EngineError

NAMES = ("chromium", "chromium-browser", "google-chrome")
CARDS = "".join(
    f"""
[queries.card{i}]
kind = "HeavyHitters"
k = 20
item = "{item}"
{weight}
time = "ts"
window = {{ size = "{size} s", slide = "100 ms" }}
"""
    for i, (item, weight, size) in enumerate(
        (item, weight, size)
        for item in ("host", "flow")
        for weight in ("", 'weight = "bytes"')
        for size in (2, 5, 10)
    )
    if i < 10
)
_TICKS = os.sysconf("SC_CLK_TCK")


VIEWS = {"1600 × 1000": (1600, 1000), "2560 × 2100, all ten in sight": (2560, 2100)}
"""The screens: one of a desk, where three or four cards are in sight, and one of a wall."""


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    from playwright.sync_api import sync_playwright

    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        raise EngineError("the benchmark of the page needs Chromium on this machine")
    seconds = max(4.0, 20.0 * scale)
    with (
        tempfile.TemporaryDirectory(prefix="skyband-") as folder,
        served(Path(folder), CARDS) as server,
        sync_playwright() as playwright,
    ):
        feed = Feed(server)
        feed.start()
        try:
            found = []
            for name, (width, height) in VIEWS.items():
                progress(f"{seconds:g} s of ten cards, {name}")
                browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
                page = browser.new_page(viewport={"width": width, "height": height})
                page.goto(f"http://127.0.0.1:{server.port}/")
                found.append(
                    {"case": f"ten cards of k = 20, {name}", **_watched(page, seconds, feed)}
                )
                browser.close()
        finally:
            feed.stop.set()
            feed.join()
    return found


def _watched(page: Any, seconds: float, feed: Feed) -> dict[str, Any]:
    """What a page costs, from the time when it shows everything."""
    page.locator("tbody tr").nth(199).wait_for(state="attached", timeout=60_000)
    time.sleep(3)  # until the charts have their thirty windows
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable")
    before, used, sent, began = _metrics(client), _used(), feed.sent, time.perf_counter()
    time.sleep(seconds)
    after, now, took = _metrics(client), _used(), time.perf_counter() - began
    shares = {kind: (now[kind] - used.get(kind, 0.0)) / took for kind in now}

    def per_second(name: str) -> float:
        return (after[name] - before[name]) / took

    return {
        "rows shown": page.locator("tbody tr").count(),
        "answers per s": (feed.sent - sent) * 10 / took,
        "layouts per s": per_second("LayoutCount"),
        "renderer, share of a core": shares.get("renderer", 0.0),
        "main thread": per_second("TaskDuration"),
        "script": per_second("ScriptDuration"),
        "layout and style": per_second("LayoutDuration") + per_second("RecalcStyleDuration"),
        "other processes": sum(v for kind, v in shares.items() if kind != "renderer"),
        "target": 0.3,
    }


def _metrics(client: Any) -> dict[str, float]:
    found = client.send("Performance.getMetrics")["metrics"]
    return {each["name"]: each["value"] for each in found}


def _used() -> dict[str, float]:
    """Seconds of processor time of Chromium's processes that descend from us, by their kind."""
    found: dict[str, float] = {}
    for pid in _descendants(os.getpid()):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if b"chrom" not in command.partition(b" ")[0]:
            continue
        told = re.search(rb"--type=([\w-]+)", command)
        kind = "browser" if told is None else told[1].decode()
        found[kind] = found.get(kind, 0.0) + (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        parent = int(text.rsplit(")", 1)[1].split()[1])
        children.setdefault(parent, []).append(int(path.parent.name))
    found, left = [], [pid]
    while left:
        more = children.get(left.pop(), [])
        found += more
        left += more
    return found


class Feed(threading.Thread):
    """Posts ten bodies a second, each of which ends a window of every query."""

    def __init__(self, server: Served) -> None:
        super().__init__(daemon=True)
        self.server, self.stop = server, threading.Event()
        self.sent, self.took = 0, 0.0

    def run(self) -> None:
        """Post until ``stop`` is set."""
        connection, began = self.server.connection(), time.perf_counter()
        while not self.stop.is_set():
            body = ndjson(flows(self.sent / 10, 0.1, 300, seed=3))
            self.server.post(connection, body, "application/x-ndjson")
            self.sent += 1
            self.took = time.perf_counter() - began
            time.sleep(max(0.0, began + self.sent / 10 - time.perf_counter()))
