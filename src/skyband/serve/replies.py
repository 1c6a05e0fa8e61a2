"""Replies as JSON: successes, problems, and failures that tell nothing of the inside."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from skyband.serve.payload import text_of


class RequestProblem(Exception):  # noqa: N818
    """A reply that is not a success; ``more`` are further fields of its body."""

    def __init__(
        self, status: int, error: str, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(error)
        self.status = status
        self.headers = headers or {}
        self.body = {"error": error} | {name: v for name, v in more.items() if v is not None}


def busy() -> RequestProblem:
    """The engine has too much to do."""
    return RequestProblem(
        429, "the engine is behind; send this again in a moment", {"Retry-After": "1"}
    )


async def problem_reply(_: Request, problem: RequestProblem) -> Response:
    """The reply to a problem that we raised."""
    return reply(problem.body, problem.status, problem.headers)


async def plain_reply(_: Request, problem: HTTPException) -> Response:
    """The reply to a path or method that is not there."""
    said = {404: "there is nothing here", 405: "this method is not allowed here"}
    headers = dict(problem.headers or {})
    error = said.get(problem.status_code, "the request cannot be answered")
    return reply({"error": error}, problem.status_code, headers)


async def failed_reply(_: Request, __: Exception) -> Response:
    """The reply to a failure of ours; it tells nothing about it."""
    return reply({"error": "something went wrong in the service; its log says more"}, 500)


def reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value as JSON."""
    return Response(text_of(value), status, headers, "application/json")
