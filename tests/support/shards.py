"""Answers made as on a cluster: rows are distributed to shards, summaries are packed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable
from skyband.engine.clock import clock_for
from skyband.engine.fold import Fold
from skyband.engine.intake import Intake, refuse
from skyband.engine.per_group import make_synopsis
from support import conformance, results


def sharded(query: sb.Query, batches: list[Any], shards: int) -> list[results.Seen]:
    """The answers of every window, from as many folds as there are shards."""
    reader = make_synopsis(query)
    intake = Intake(query, reader)
    workers = [make_synopsis(query) for _ in range(shards)]
    taken = [
        intake.take(source, part)
        for batch in batches
        for source, part in (batch.items() if isinstance(batch, dict) else [("", batch)])
    ]
    groups = GroupTable(query.groups, next(iter(intake.bound.values())))
    sources = tuple(intake.bound)
    folds = []
    for worker in workers:
        for source, schema in intake.bound.items():
            worker.bind(source, schema)
        folds.append(Fold([query], worker, groups, refuse, sources))
    for each in taken:
        where = reader.shard(each.source, each.batch, shards)
        for shard, fold in enumerate(folds):
            mine = np.flatnonzero(where == shard)
            part = intake.take(each.source, each.batch.take(pa.array(mine)))
            clock = clock_for(query, [query], sources)
            placed = clock.place(part, reader.axes.get(each.source), groups)
            if placed.rows is not None:
                runs, _ = Runs.unpack(reader.summarise(placed.rows).pack())
                fold.take(runs)
    last = max(each.greatest for each in taken if each.greatest is not None)
    panes = query.window.panes
    found = []
    for number in range(panes.last_window_ending_by(last) + 2):
        steps = [fold.begin(int(panes.end_of(number))) for fold in folds]
        parts = [f.folded(s)[0] for f, s in zip(folds, steps, strict=True) if s is not None]
        partials = [part for part in parts if part is not None]
        if partials:
            windows = folds[0].windows(np.array([number]))
            found.append(conformance._seen(folds[0].answer(0, partials, windows).views()[0]))
    return found
