"""Transactions: changes of one or several sessions that happen all together or not at all.

A transaction has three stages, and every session completes a stage before any begins the next:

    begin      take rows and advance the clock; everything it changes can be undone
    finished   fold the sealed panes into the synopses, first those that keep a savepoint
    answered   make the answers

A synopsis without a savepoint does not raise once its fold has changed something. So whichever
session raises, all of them can go back to where they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skyband.answers.answer import Answers
from skyband.engine.fold import Fold, Step

if TYPE_CHECKING:
    from skyband.engine.session import Session

__all__ = ["Transaction", "commit"]


@dataclass(frozen=True, eq=False)
class Transaction:
    """What a session is about to do."""

    session: Session
    fold: Fold
    begin: Callable[[Fold], Step | None]

    def mark(self) -> tuple[Any, ...]:
        """The state to which ``rewind`` returns."""
        return self.fold.mark(), dict(self.session.rows)

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Undo this transaction."""
        self.fold.rewind(mark[0])
        self.session.rows = mark[1]


def commit(transactions: Sequence[Transaction]) -> list[list[Answers | None]]:
    """Carry out all transactions; the answers of each one's readers. If one raises, undo all."""
    marks = [each.mark() for each in transactions]
    order = sorted(range(len(marks)), key=lambda i: marks[i][0][-1] is None)  # savepoints first
    try:
        steps: list[Step | None] = []
        for each in transactions:
            with each.session.named():
                steps.append(each.begin(each.fold))
        finished: list[Any] = [None] * len(steps)
        for i in order:
            step = steps[i]
            if step is not None:
                with transactions[i].session.named():
                    finished[i] = transactions[i].fold.finished(step)
    except BaseException:
        for i in reversed(order):  # a savepoint may call the user's function, which may fail again
            transactions[i].rewind(marks[i])
        raise
    return [
        [] if step is None else each.fold.answered(step, runs)
        for each, step, runs in zip(transactions, steps, finished, strict=True)
    ]
