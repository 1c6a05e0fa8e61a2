"""Where files are: the file systems that workers open by themselves, by the scheme of a URI."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs

from skyband.errors import EngineError

_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
SCHEMES = ("file", "s3", "gs", "hdfs", "viewfs", "abfs", "abfss")
"""What pyarrow opens; ``s3a`` and ``s3n`` are Hadoop's names for ``s3``."""


def check_scheme(path: str) -> None:
    """Raise EngineError for a path that workers cannot open by themselves."""
    scheme = _scheme(path)
    if scheme is not None and _ALIASES.get(scheme, scheme) not in SCHEMES:
        raise EngineError(
            f"{path!r}: workers read {', '.join(f'{name}:' for name in SCHEMES)} themselves, but "
            f'not {scheme}:; read it through Spark: reader="spark" in a job, or a DataFrame of '
            "spark.readStream or spark.read instead of files(...)"
        )


def open_location(uri: str, storage: Mapping[str, Any]) -> tuple[Any, str]:
    """The file system of a file and its path there; ``storage`` are settings of the former.

    The settings are the keywords of pyarrow's class, such as ``region`` of ``S3FileSystem``.
    """
    scheme = _scheme(uri)
    if scheme in _ALIASES:
        uri = f"{_ALIASES[scheme]}:{uri.partition(':')[2]}"
        scheme = _ALIASES[scheme]
    if not storage or scheme in (None, "file"):
        found: tuple[Any, str] = pa.fs.FileSystem.from_uri(uri)
        return found
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(uri)
    if scheme in ("s3", "gs"):
        kind = pa.fs.S3FileSystem if scheme == "s3" else pa.fs.GcsFileSystem
        return kind(**storage), unquote(parts.netloc + parts.path)
    if scheme == "hdfs":
        return pa.fs.HadoopFileSystem(
            parts.hostname or "default", parts.port or 0, **storage
        ), unquote(parts.path)
    raise EngineError(f"{uri!r}: storage= is for s3:, gs: and hdfs:, not for {scheme}:")


def newest_here(path: str, most: int) -> list[str] | None:
    """The newest files of a path of this machine, as URIs; None if only Spark can list it.

    As for Spark, names that begin with a dot or an underscore are hidden.
    """
    scheme = _scheme(path)
    if scheme not in (None, "file") or any(mark in path for mark in "{%\\"):
        return None
    plain = re.sub("^file:/+", "/", path)
    root = Path(*takewhile(lambda part: not glob.has_magic(part), Path(plain).parts))
    found: set[Path] = set()
    for name in glob.glob(plain, recursive=True):  # noqa: PTH207  patterns may be absolute
        base = Path(name)
        inside = [base] if base.is_file() else [p for p in base.rglob("*") if p.is_file()]
        found |= {p for p in inside if not _hidden(p.relative_to(root).parts)}
    by_age = sorted(found, key=lambda p: (-p.stat().st_mtime_ns, str(p)))
    return [p.absolute().as_uri() for p in by_age[:most]]


def _hidden(parts: Sequence[str]) -> bool:
    return any(part.startswith((".", "_")) and "=" not in part for part in parts)


def _scheme(path: str) -> str | None:
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", path)
    return None if found is None else found[1].lower()
