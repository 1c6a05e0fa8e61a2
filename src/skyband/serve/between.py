"""``GET /api/peek`` and ``GET /api/position``: what a query knows between two windows."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from skyband.contract.capabilities import IdRanking
from skyband.data.columns import output_type
from skyband.embedded.monitor import Monitor
from skyband.engine.session import Session
from skyband.errors import EngineError, QueryError
from skyband.jobs.local.posts import Busy
from skyband.serve.page import Page
from skyband.serve.payload import answer_text
from skyband.serve.replies import RequestProblem, busy, reply


def known_query(service: Page, request: Request) -> str:
    """The query that a request names."""
    name = str(request.path_params["name"])
    if name not in service.queries:
        known = ", ".join(service.queries)
        raise RequestProblem(404, f"there is no query of this name; choose from {known}")
    return name


class BetweenWindows:
    """Asks the engine of a service, which answers between two batches."""

    def __init__(self, service: Page) -> None:
        self.service = service

    async def peek(self, request: Request) -> Response:
        """What a query would answer now, over the panes that are sealed."""
        name = known_query(self.service, request)

        def question(monitor: Monitor) -> str:
            board = monitor.board
            session = board.session_of(None if board.alone else name)
            with _Refusals(able=session.synopsis.peeks):
                return answer_text(monitor.peek() if board.alone else monitor.peek(name))

        text = await self._ask(question)
        body = f'{{"name":{json.dumps(name)},"answers":[{text}]}}'
        return Response(body, media_type="application/json")

    async def position(self, request: Request) -> Response:
        """Where an id stands now, also beyond the best k."""
        name, given = known_query(self.service, request), request.query_params
        if "id" not in given:
            raise RequestProblem(400, "give the id, for example ?id=a")

        def question(monitor: Monitor) -> Any:
            board = monitor.board
            session = board.session_of(None if board.alone else name)
            able = isinstance(session.synopsis, IdRanking)
            with _Refusals(able):
                if not able:
                    return monitor.position(given["id"], (), None if board.alone else name)
                id_ = _values(session, "id", session.query.key, given["id"])
                group: Any = ()
                if "group" in given:
                    group = _values(session, "group", session.query.groups, given["group"])
                id_ = id_ if len(session.query.key) > 1 else id_[0]
                return monitor.position(id_, group, None if board.alone else name)

        position = await self._ask(question)
        if position is None:
            raise RequestProblem(404, "no row of this id is live")
        return reply({"name": name, **position._asdict()})

    async def _ask(self, question: Callable[[Monitor], Any]) -> Any:
        try:
            answer = self.service.ask(question)
        except Busy:
            raise busy() from None
        except EngineError as problem:
            status = 409 if self.service.failure is None else 503
            raise RequestProblem(status, str(problem)) from None
        try:
            return await asyncio.wrap_future(answer)
        except EngineError as problem:  # the service was closed meanwhile
            raise RequestProblem(503, str(problem)) from None


class _Refusals:
    """Turns what the engine refuses into replies: 409 if it never can, 404 if there is nothing."""

    def __init__(self, able: bool) -> None:
        self.status = 404 if able else 409

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, problem: BaseException | None, _: Any) -> None:
        if isinstance(problem, EngineError):
            raise RequestProblem(self.status, str(problem)) from None
        if isinstance(problem, QueryError):
            raise RequestProblem(400, str(problem)) from None


def _values(session: Session, role: str, names: tuple[str, ...], text: str) -> tuple[Any, ...]:
    """The values of an id or a group, in the types of their columns."""
    values: Any = [text]
    if len(names) > 1:
        try:
            values = json.loads(text)
        except ValueError:
            values = None
        if not isinstance(values, list) or len(values) != len(names):
            example = json.dumps([f"{name} ..." for name in names])
            raise RequestProblem(
                400, f"{role} must be a JSON list of {', '.join(names)}, such as {example}"
            )
    if not names or session.fold is None:
        return tuple(values)  # which the engine refuses
    schema = next(iter(session.synopsis.schemas.values()))
    kinds = [output_type(schema.field(name).type) for name in names]
    return tuple(map(_value, names, values, kinds))


def _value(name: str, value: Any, kind: pa.DataType) -> Any:
    """A value of JSON, or text, as one of this type."""
    if value is None:
        return None
    try:
        if pa.types.is_binary(kind):
            return base64.b64decode(str(value), validate=True)
        text = json.dumps(value) if isinstance(value, bool) else str(value)
        return pa.scalar(text).cast(kind)
    except (pa.ArrowException, NotImplementedError, binascii.Error):
        shown = f"{value!r} cannot be a value of column {name!r}, which has type {kind}"
        raise RequestProblem(400, shown) from None
