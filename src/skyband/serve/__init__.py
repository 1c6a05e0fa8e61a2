"""The board in a browser: a small service that takes rows, keeps answers and shows them.

    POST /api/rows ──► read ──► queue ──► engine: push, journal, one sync ──► reply
                                             │
                                             ▼ answers
                                          history ──► /api/answers, /api/events ──► the page

``service`` is the heart; ``app`` puts HTTP around it and ``doors`` guards it. Needs the extra
``serve`` (starlette and uvicorn) only for ``app`` and ``server``.

Imports ``jobs``, ``spark`` and ``embedded``; imported by ``cli``.
"""
