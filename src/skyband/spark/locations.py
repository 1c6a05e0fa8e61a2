"""Where files are: the file systems that workers open by themselves, by the scheme of a URI."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.fs

from skyband.errors import EngineError

__all__ = ["SCHEMES", "check_scheme", "open_location"]

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
            "spark.readStream or spark.read in place of files(...)"
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

    told = urlsplit(uri)
    if scheme in ("s3", "gs"):
        kind = pa.fs.S3FileSystem if scheme == "s3" else pa.fs.GcsFileSystem
        return kind(**storage), unquote(told.netloc + told.path)
    if scheme == "hdfs":
        return pa.fs.HadoopFileSystem(
            told.hostname or "default", told.port or 0, **storage
        ), unquote(told.path)
    raise EngineError(f"{uri!r}: storage= is for s3:, gs: and hdfs:, not for {scheme}:")


def _scheme(path: str) -> str | None:
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", path)
    return None if found is None else found[1].lower()
