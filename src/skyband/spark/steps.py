"""One step of a state key: advance its bucket, move its timer, save it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from skyband.spark.bucket import Bucket, Outcome, Store
from skyband.spark.family_bucket import FamilyBucket
from skyband.spark.family_plan import FamilyPlan
from skyband.spark.plan import Plan

__all__ = ["Timers", "family_step", "step"]


class Timers(Protocol):
    """The timers of the current state key, in milliseconds of event time; Spark's names."""

    def registerTimer(self, at: int) -> None: ...  # noqa: N802
    def deleteTimer(self, at: int) -> None: ...  # noqa: N802


def step(
    plan: Plan,
    store: Store,
    timers: Timers,
    watermark_ms: int,
    blobs: Sequence[bytes] = (),
    fired: bool = False,
    latest_ms: int | None = None,
    held_ms: int = 0,
    reached_ms: int | None = None,
    joins: bool = False,
) -> tuple[Bucket, Outcome]:
    """Answer what is due, then take new summaries; ``fired`` if a timer caused this step.

    A key has one timer, at the end of the next window that it has to answer. ``latest_ms`` is the
    greatest time of the rows behind the new summaries. On a board, the query's watermark is
    ``held_ms`` behind that of the sources, and so its timers are later by as much; ``reached_ms``
    says how far the query's watermark has come if it is less than that. ``joins`` means that a
    key without state belongs to a query that joins the board now, if the sources have been read
    before.
    """
    bucket = Bucket(plan, store)
    if joins and watermark_ms > 0 and bucket.new:
        bucket.join(watermark_ms * plan.tick_ms)
    reached = max(watermark_ms - held_ms, 0) if reached_ms is None else reached_ms
    outcome = bucket.step(reached * plan.tick_ms, blobs, latest_ms)
    end = bucket.next_end
    due_ms = None if end is None else end // plan.tick_ms + held_ms
    timer = _move_timer(timers, bucket.head["timer"], due_ms, watermark_ms, fired)
    bucket.save(timer, always=joins and bucket.new)
    return bucket, outcome


def family_step(
    family: FamilyPlan,
    store: Store,
    timers: Timers,
    watermark_ms: int,
    blobs: Sequence[bytes],
    fired: bool,
    latest_ms: int | None,
    reached_ms: Mapping[str, int],
    board: Collection[str],
) -> tuple[FamilyBucket, dict[str, Outcome]]:
    """The same for a family of a board: ``reached_ms`` says how far each query has come.

    A query without state joins the board now, if the sources have been read before. ``board`` are
    the names of all queries.
    """
    bucket = FamilyBucket(family, store, board)
    plan = family.first
    if watermark_ms > 0 and bucket.added:
        bucket.join(watermark_ms * plan.tick_ms)
    reached = {name: ms * plan.tick_ms for name, ms in reached_ms.items()}
    outcomes = bucket.step(reached, blobs, latest_ms)
    due = bucket.next_due
    due_ms = None if due is None else due // plan.tick_ms
    bucket.save(_move_timer(timers, bucket.head["timer"], due_ms, watermark_ms, fired))
    return bucket, outcomes


def _move_timer(
    timers: Timers, known: int | None, due_ms: int | None, watermark_ms: int, fired: bool
) -> int | None:
    """Set the timer of a key to when it has something to answer; ``known`` is where it stands."""
    timer = None if due_ms is None else max(due_ms, watermark_ms + 1)
    if timer != known:
        # Spark deletes a timer that has fired. Any other is deleted here, even if it is due: this
        # step has already answered its windows.
        if known is not None and not (fired and known <= watermark_ms):
            timers.deleteTimer(known)
        if timer is not None:
            timers.registerTimer(timer)
    return timer
