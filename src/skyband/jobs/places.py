"""Checks of a job's folders, tables and schema files; they need no Spark."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs

from skyband.errors import EngineError, QueryError, how_to_install
from skyband.jobs.secrets import hidden


def folder_of(where: str, path: str) -> tuple[Any, str]:
    """The file system of a folder, and the folder's path on it."""
    if "://" not in path:
        return pa.fs.LocalFileSystem(), str(Path(path).absolute())
    try:
        system, folder = pa.fs.FileSystem.from_uri(re.sub("^s3[an]:", "s3:", path))
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise QueryError(f"{where} path {hidden(path)!r} cannot be written to: {problem}") from None
    return system, folder


def check_unused(where: str, exists: Callable[[Path], bool], folder: Path) -> None:
    """Raise EngineError for a folder where Spark would ignore our files."""
    if exists(folder / "_spark_metadata"):
        raise EngineError(
            f"{where} the folder {str(folder)!r} contains _spark_metadata, written by Spark's own "
            "file sink, so Spark would ignore all other files there; give another folder"
        )


def check_table(where: str, table: str, parts: int = 2) -> None:
    """Raise QueryError unless this is a plain table name of at most so many parts."""
    if not re.fullmatch(rf"[A-Za-z_]\w*(\.[A-Za-z_]\w*){{0,{parts - 1}}}", table, re.ASCII):
        raise QueryError(f"{where} table must be a plain name, or schema.name, not {table!r}")


def check_url(where: str, url: str) -> None:
    """Raise QueryError unless this is an address that a message can be posted to."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise QueryError(f"{where} url must be an http:// or https:// address, not {hidden(url)!r}")


def check_dsn(where: str, dsn: str | None, dsn_env: str | None) -> None:
    """Raise QueryError unless a PostgreSQL sink has exactly one of the two."""
    if (dsn is None) == (dsn_env is None):
        raise QueryError(
            f"{where} needs either dsn, or dsn_env (the environment variable that holds it)"
        )


def dsn_of(where: str, dsn: str | None, dsn_env: str | None) -> str:
    """The connection string of a PostgreSQL sink."""
    check_dsn(where, dsn, dsn_env)
    address = dsn if dsn_env is None else os.environ.get(dsn_env)
    if address is None:
        raise QueryError(
            f"{where} the environment has no variable {dsn_env!r}; set it to the connection string"
        )
    if not address.strip():
        raise QueryError(f"{where} the connection string is empty")
    return address


def require_psycopg() -> Any:
    """The package psycopg; raises EngineError if it is missing."""
    return _package("psycopg", "the PostgreSQL sink needs the package psycopg", "postgres")


def client_options(section: Any) -> dict[str, Any]:
    """The ``options`` of a section, by the names that the Kafka client knows."""
    return {key.removeprefix("kafka."): v for key, v in (section["options"] or {}).items()}


def require_kafka() -> Any:
    """The package confluent_kafka; raises EngineError if it is missing."""
    return _package("confluent_kafka", "Kafka needs the package confluent-kafka", "kafka")


def _package(name: str, needs: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as problem:
        raise EngineError(f"{needs}; install it with: {how_to_install(extra)}") from problem
