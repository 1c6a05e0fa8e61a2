"""The functions that Spark runs for a board: what ``stages`` does for one query, for each of them.

State keys are (query, bucket, shard), where ``query`` is the label of a family, or the name of a
query that is in none: see ``family_plan``. Each partition with rows sends at least one packed row
to every key, so that a key without state in a later batch belongs to a query that was added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.errors import SkybandError
from skyband.spark.answer_bytes import answers_from
from skyband.spark.board_plan import BoardPlan, answer_rows
from skyband.spark.family_plan import FamilyPlan
from skyband.spark.letters import Carried, row_letters
from skyband.spark.parcels import schema_of
from skyband.spark.stages import (
    GIVEN_DDL,
    PIECE_DDL,
    batch_finisher,
    batch_folder,
    finisher,
    last_end,
    piece_of,
    unpacked,
)
from skyband.spark.summarise import COUNTS, FLUSH_BYTES, NOTHING, PACKED_DDL, Summariser, chunks

__all__ = [
    "BOARD_GIVEN_DDL", "BOARD_PACKED_DDL", "BOARD_PIECE_DDL", "board_batch_finisher",
    "board_batch_folder", "board_finisher", "board_summariser", "board_unpacker", "named",
]  # fmt: skip

BOARD_PACKED_DDL = f"query string, {PACKED_DDL}"
BOARD_PIECE_DDL = f"query string, {PIECE_DDL}"
BOARD_GIVEN_DDL = f"query string, {GIVEN_DDL}"
Batches = Iterator[pa.RecordBatch]


@contextmanager
def named(name: str) -> Iterator[None]:
    """Begin the messages of errors with a query's name."""
    try:
        yield
    except SkybandError as error:
        raise type(error)(f"query {name!r}: {error}") from error


def board_summariser(
    board: BoardPlan, source: str, carried: Carried = NOTHING
) -> Callable[[Batches], Batches]:
    """Summarise the rows of a source for every query, in one pass."""

    def run(batches: Batches) -> Batches:
        workers = {
            label: Summariser(board.plan_of(label), source, carried, board.families.get(label))
            for label in board.labels
        }
        for chunk in chunks(batches, board.schemas[source], carried.names):
            _take(board, workers, chunk)
            if sum(worker.nbytes for worker in workers.values()) > FLUSH_BYTES:
                yield from _flushed(board, workers)
        yield from _flushed(board, workers)

    return run


def _take(board: BoardPlan, workers: Mapping[str, Summariser], chunk: pa.Table) -> None:
    """Let every query summarise some rows; a bad row is one letter, with the reasons of all.

    The first query counts and keeps what could not be read, and it keeps the letters.
    """
    first = next(iter(workers.values()))
    rows = first.readable(chunk)
    told: dict[int, dict[str, str]] = {}
    for label, worker in workers.items():
        names = board.labels[label]
        with named(names[0]):
            faults = worker.summarise(rows)
        if faults is not None and first.carried.letters:
            bad = np.flatnonzero(faults.mask).tolist()
            for row, reason in zip(bad, worker.reasons(rows, faults), strict=True):
                told.setdefault(row, {}).update({n: f"{n}: {reason}" for n in names})
    if told:
        places = sorted(told)
        bad_rows = rows.take(pa.array(places, pa.int64()))
        reasons = ["; ".join(told[r][n] for n in board.plans if n in told[r]) for r in places]
        first.letters.append(row_letters(first.source, first.carried, bad_rows, reasons))


def _flushed(board: BoardPlan, workers: Mapping[str, Summariser]) -> Batches:
    """The packed rows of all queries; only those of the first query count the rows read."""
    for i, (label, worker) in enumerate(workers.items()):
        plan = board.plan_of(label)
        rows = worker.flush().to_pydict()
        given = len(rows["bucket"])
        if given:
            known = set(zip(rows["bucket"], rows["shard"], strict=True))
            keys = [(b, s) for b in range(plan.buckets) for s in range(plan.shards)]
            for bucket, shard in [key for key in keys if key not in known]:
                more = {"bucket": bucket, "shard": shard, "seen": rows["seen"][0]}
                more |= {"latest": rows["latest"][0], **dict.fromkeys(COUNTS, 0)}
                for column in rows:
                    rows[column].append(more.get(column))
        if i:
            rows["rows_in"] = [0] * len(rows["rows_in"])
        rows["query"] = [label] * len(rows["bucket"])
        yield pa.RecordBatch.from_pydict(rows, schema=schema_of(BOARD_PACKED_DDL))


def board_unpacker(board: BoardPlan) -> Callable[[Batches], Batches]:
    """Unpack the answers of all queries into rows of the board."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("query", "payload"))
            for name, blob in zip(*columns, strict=True):
                if blob is not None:
                    table = answers_from(blob, board.plans[name].output)
                    yield from answer_rows(board, name, table).to_batches()

    return run


def board_finisher(board: BoardPlan) -> Callable[[pa.Table], pa.Table]:
    """Merge one batch's pieces from all shards of a query's bucket."""

    def run(pieces: pa.Table) -> pa.Table:
        name = pieces.column("query")[0].as_py()
        found = finisher(board.plans[name])(pieces)
        return found.add_column(0, "query", pa.array([name] * found.num_rows, pa.string()))

    return run


def board_batch_folder(board: BoardPlan) -> Callable[[pa.Table], pa.Table]:
    """Fold all summaries of one label, bucket and shard of a batch DataFrame."""

    def run(packed: pa.Table) -> pa.Table:
        label = packed.column("query")[0].as_py()
        with named(board.labels[label][0]):
            if label in board.families:
                return family_batch_folder(board.families[label])(packed)
            piece = batch_folder(board.plans[label])(packed)
        return piece.add_column(0, "query", pa.array([label] * piece.num_rows, pa.string()))

    return run


def family_batch_folder(family: FamilyPlan) -> Callable[[pa.Table], pa.Table]:
    """Fold all summaries of a family, in one bucket and shard; one piece per query."""

    def run(packed: pa.Table) -> pa.Table:
        pieces = []
        for names in family.unions():
            union = family.of(names)
            session = union.session()
            session.resume(dict.fromkeys(names, (None, None)), {})
            newest: list[int] = []
            for runs in unpacked(packed, session.groups):
                starts = union.one_pass.starts(runs.stamp)
                session.take(runs.stamped(starts).ordered())
                newest.append(int(starts.max()))
            due = {}
            if newest:
                ends = {n: last_end(plan, max(newest)) for n, plan in union.plans.items()}
                due = session.seal(ends)
            for name, own in session.sessions.items():
                pieces.append(piece_of(packed, due.get(name), own.groups, query=name))
        return pa.Table.from_pylist(pieces, schema=schema_of(BOARD_PIECE_DDL))

    return run


def board_batch_finisher(board: BoardPlan) -> Callable[[Batches], Batches]:
    """Merge all pieces of a batch DataFrame into rows of the board, query by query."""

    def run(batches: Batches) -> Batches:
        pieces = pa.Table.from_batches(batches, schema=schema_of(BOARD_PIECE_DDL))
        for name, plan in board.plans.items():
            mine: Any = pa.compute.equal(pieces.column("query"), name)
            own = pieces.filter(mine).drop_columns(["query"])
            for batch in batch_finisher(plan)(iter(own.to_batches())):
                table = pa.Table.from_batches([batch])
                yield from answer_rows(board, name, table).to_batches()

    return run
