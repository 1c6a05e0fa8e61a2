"""``python -m lab.site``: stage the pages, build them with Zensical or MkDocs, check the result."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from lab.site.check import broken_links
from lab.site.stage import stage

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Build the site; exit with 1 if anything in it is wrong."""
    parser = argparse.ArgumentParser(prog="python -m lab.site", description=__doc__)
    parser.add_argument("--to", type=Path, default=ROOT / "build", help="folder to build in")
    parser.add_argument("--generator", choices=("zensical", "mkdocs"), default="zensical")
    parser.add_argument("--stage-only", action="store_true", help="write the pages, build nothing")
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    settings = stage(ROOT, given.to)
    if given.stage_only:
        return
    site = given.to / "site"
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", given.generator, "build", "--strict", "-f", str(settings)]
    done = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(done.returncode)
    broken = broken_links(site)
    for line in broken:
        print(f"error: {line}", file=sys.stderr)
    if broken:
        raise SystemExit(1)
    print(f"{len(list(site.rglob('*.html')))} pages in {site}")


if __name__ == "__main__":
    main()
