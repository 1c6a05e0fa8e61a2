"""Pictures of the demo's board for the documentation: ``make screenshots``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from skyband.cli.serving import demo_board, demo_stream
from support import browser, served

WIDE = {"width": 1360, "height": 1180}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": WIDE, "color_scheme": "light"},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 390, "height": 1180}},
}


def main(folder: Path) -> None:
    """Run the demo for some seconds and take its pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    stream = demo_stream(past=45)
    first = next(stream)
    with tempfile.TemporaryDirectory() as state, browser.browsing() as chromium:
        service = served.new_service(Path(state), demo_board(), schema=first.schema, batches=stream)
        with served.serving(service, title="demo") as client:
            for name, look in LOOKS.items():
                page = chromium.new_page(timezone_id="UTC", reduced_motion="reduce", **look)
                page.goto(f"http://127.0.0.1:{client.port}/")
                page.wait_for_selector("tbody tr", timeout=120_000)
                while (service.status.behind or 9) > 2:
                    page.wait_for_timeout(500)
                page.wait_for_timeout(1_500)
                if name == "dark":
                    travel(page)
                page.screenshot(path=folder / f"{name}.png")
                page.close()


def travel(page: Any) -> None:
    """A step into the past, with one row lit."""
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(1_500)  # until the last step is drawn
    page.locator("tbody tr").nth(2).hover()
    page.wait_for_timeout(800)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
