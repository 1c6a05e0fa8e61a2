"""Moves: changes of one or several sessions that happen all together or not at all.

A move has three stages, and every session completes a stage before any begins the next:

    begin      take rows and advance the clock; everything it changes can be undone
    folded     fold the sealed panes into the synopses, first those that keep a savepoint
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

__all__ = ["Move", "make_moves"]


@dataclass(frozen=True, eq=False)
class Move:
    """What a session is about to do."""

    session: Session
    fold: Fold
    begin: Callable[[Fold], Step | None]

    def mark(self) -> tuple[Any, ...]:
        """The state to which ``rewind`` returns."""
        return self.fold.mark(), dict(self.session.rows)

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Undo this move."""
        self.fold.rewind(mark[0])
        self.session.rows = mark[1]


def make_moves(moves: Sequence[Move]) -> list[Answers | None]:
    """Make all moves and return the answers of each; if one raises, undo all of them."""
    marks = [move.mark() for move in moves]
    order = sorted(range(len(moves)), key=lambda i: marks[i][0][-1] is None)  # savepoints first
    try:
        steps = []
        for move in moves:
            with move.session.named():
                steps.append(move.begin(move.fold))
        for move, step in zip(moves, steps, strict=True):
            if step is not None and len(moves) > 1:
                move.fold.synopsis.expect(marks, step.windows)
        finished: list[Any] = [None] * len(moves)
        for i in order:
            with moves[i].session.named():
                finished[i] = moves[i].fold.folded(steps[i])
    except BaseException:
        for i in reversed(order):  # a savepoint may call the user's function, which may fail again
            moves[i].rewind(marks[i])
        raise
    return [
        move.fold.answered(step, runs)
        for move, step, runs in zip(moves, steps, finished, strict=True)
    ]
