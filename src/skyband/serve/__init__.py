"""The board in a browser: a local job that takes rows by HTTP, keeps its answers and shows them.

    POST /api/rows ──► read ──► inbox ──► the job (``jobs.local``): apply, enter, one sync ──► reply
                                             │
                                             ▼ answers
                                          history ──► /api/answers, /api/events ──► the page

``service`` runs and observes the job; ``app`` puts HTTP around it, and ``access`` guards it. Needs
the extra ``serve`` (starlette and uvicorn) only for ``app`` and ``server``.

Imports ``jobs``, ``spark`` and ``embedded``; imported by ``cli``.
"""
