"""Runs the service of a job or of a stream, with its page, until it is stopped."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.errors import EngineError, how_to_install
from skyband.jobs import Job, check_ready
from skyband.jobs.job import JobSection
from skyband.query import Query
from skyband.serve.access import check_host
from skyband.serve.page import Page
from skyband.serve.service import Service, StreamSource
from skyband.serve.status import Schemas

PORT = 8470
TOKEN = "SKYBAND_TOKEN"  # noqa: S105  (the name of a variable)


def require_packages() -> None:
    """Raise EngineError if the extra ``serve`` is not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as missing:
        raise EngineError(f"serve needs {missing.name}: {how_to_install('serve')}") from None


def serve_job(
    job: Job,
    host: str = "127.0.0.1",
    port: int = PORT,
    names: tuple[str, ...] = (),
    started: Callable[[str], None] | None = None,
) -> None:
    """Run a job and show it."""
    _ready(host)
    check_ready(job, serving=True)
    from skyband.serve.server import listen

    kinds = {name: section.kind for name, section in job.sources.items()}
    with listen(host, port) as taken, ExitStack() as stack:
        engine, shown = "local", None
        if job.engine == "spark":
            from skyband.serve.on_spark import on_spark

            remote = "://" in job.checkpoint  # then what is shown is not kept
            aside = tempfile.TemporaryDirectory(prefix="skyband-") if remote else nullcontext()
            folder = stack.enter_context(aside) or Path(job.checkpoint) / "serve"
            engine, shown = "spark", stack.enter_context(on_spark(job, Path(folder)))
        _serve(
            shown or Service(job),
            kinds,
            job.title or job.name,
            taken,
            host,
            names,
            started,
            engine,
        )


def serve_stream(
    title: str,
    queries: Mapping[str, Query],
    schema: pa.Schema,
    batches: Iterator[pa.Table],
    host: str = "127.0.0.1",
    port: int = PORT,
    started: Callable[[str], None] | None = None,
) -> None:
    """Show queries over a stream that this process reads; nothing is kept after it ends."""
    with _for_a_while(host, port) as (taken, folder):
        sources = {"": JobSection("stream", {})}
        job = Job(title, str(folder), queries, sources, {}, alone=False, ahead="none")
        service = Service(job, sources={"": StreamSource(batches, schema)})
        _serve(service, {"": "stream"}, title, taken, host, (), started)


def serve_answers(
    title: str,
    query: Query,
    schemas: Schemas,
    answers: Callable[[Page], None],
    host: str = "127.0.0.1",
    port: int = PORT,
    started: Callable[[str], None] | None = None,
    engine: str = "local",
) -> None:
    """Show the answers of a query that runs elsewhere: ``answers`` is a thread's work."""
    with _for_a_while(host, port) as (taken, folder):
        shown = Page({title: query}, schemas, folder)
        threading.Thread(target=answers, args=(shown,), name="skyband-answers", daemon=True).start()
        _serve(shown, dict.fromkeys(schemas, "files"), title, taken, host, (), started, engine)


@contextmanager
def _for_a_while(host: str, port: int) -> Iterator[tuple[Any, Path]]:
    """An address to listen on, and a folder that is removed at the end."""
    _ready(host)
    from skyband.serve.server import listen

    with listen(host, port) as taken, tempfile.TemporaryDirectory(prefix="skyband-") as folder:
        yield taken, Path(folder)


def _ready(host: str) -> None:
    require_packages()
    check_host(host, os.environ.get(TOKEN))


def _serve(
    service: Page,
    kinds: dict[str, str],
    title: str,
    taken: Any,
    host: str,
    names: tuple[str, ...],
    started: Callable[[str], None] | None,
    engine: str = "local",
) -> None:
    from skyband.serve.app import make_app
    from skyband.serve.server import make_server

    app = make_app(service, kinds, title, engine, host, os.environ.get(TOKEN), names)
    make_server(app, taken, service.limits, started).run(sockets=[taken])
