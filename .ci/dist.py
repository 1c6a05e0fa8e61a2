"""Build wheel and sdist twice; check that they are equal, what they hold, their size and metadata.

Needs the extra `release` (hatchling and twine). The time in the archives is that of the last
commit, or SOURCE_DATE_EPOCH if it is set.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

LARGEST_WHEEL = 1_000_000
PACKAGE = "skyband/"
NEEDED_IN_WHEEL = ("skyband/__init__.py", "skyband/py.typed", "skyband/serve/static/index.html")
NEEDED_IN_SDIST = (
    "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "conftest.py", "mkdocs.yml",
    "pyproject.toml", "docs/", "examples/", "lab/", "src/skyband/", "tests/",
)  # fmt: skip
UNWANTED = ("__pycache__/", ".nbi", ".nbc", ".pyc", "build/", ".venv")


def wheel_problems(names: list[str], size: int) -> list[str]:
    """What is wrong with the contents of a wheel."""
    strange = [n for n in names if not n.startswith(PACKAGE) and ".dist-info/" not in n]
    found = [f"the wheel holds {name}, which is no part of the package" for name in strange]
    found += [f"the wheel lacks {name}" for name in NEEDED_IN_WHEEL if name not in names]
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        found.append("the wheel lacks its licence")
    if size > LARGEST_WHEEL:
        found.append(f"the wheel has {size:,} bytes, and may have {LARGEST_WHEEL:,}")
    return found + _unwanted("wheel", names)


def sdist_problems(names: list[str]) -> list[str]:
    """What is wrong with the contents of an sdist, whose names are those below its folder."""
    found = [
        f"the sdist lacks {wanted}"
        for wanted in NEEDED_IN_SDIST
        if not any(name.startswith(wanted) for name in names)
    ]
    return found + _unwanted("sdist", names)


def _unwanted(kind: str, names: list[str]) -> list[str]:
    return [
        f"the {kind} holds {name}"
        for name in names
        if any(part in name if part.endswith("/") else name.endswith(part) for part in UNWANTED)
    ]


def built(folder: Path) -> dict[str, str]:
    """Build into a folder; returns the digest of every file that was made."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.suffix in (".whl", ".gz")
    }


def problems_of(folder: Path) -> list[str]:
    """What is wrong with the wheel and the sdist in a folder."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        found = wheel_problems(archive.namelist(), wheel.stat().st_size)
    with tarfile.open(sdist) as archive:
        found += sdist_problems([name.partition("/")[2] for name in archive.getnames()])
    return found


def main() -> None:
    """Build, compare and check."""
    if "SOURCE_DATE_EPOCH" not in os.environ:
        told = subprocess.run(
            ["git", "log", "-1", "--format=%ct"], capture_output=True, text=True, check=False
        )
        os.environ["SOURCE_DATE_EPOCH"] = told.stdout.strip() or "1577836800"
    first, second = built(Path("dist")), built(Path("build") / "dist-again")
    found = [f"{n} differs between two builds" for n in first if first[n] != second.get(n)]
    found += problems_of(Path("dist"))
    for line in found:
        print(f"error: {line}", file=sys.stderr)
    if found:
        raise SystemExit(1)
    files = [str(Path("dist") / name) for name in first]
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True)
    for name, digest in first.items():
        print(f"{digest}  {name}  {(Path('dist') / name).stat().st_size:,} bytes, the same twice")


if __name__ == "__main__":
    main()
