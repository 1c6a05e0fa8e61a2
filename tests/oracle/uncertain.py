"""UncertainTopK: each row exists with its probability, independently of the others.

A possible world is one choice of existing rows. Its best k rows in row order are its top-k; each
semantics asks a question about them:

    pk-topk   the k rows likeliest to be in the top-k
    pt-k      every row that is in the top-k with at least the threshold's probability
    u-kranks  for each rank the row likeliest to have it (a row may win twice)
    u-topk    the vector of exactly k rows likeliest to be the top-k
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from oracle.order import in_row_order
from oracle.windows import Row

# at_rank[i][r]: the probability that row i (in row order) has rank r + 1 in its world, for r < k.
# vector: the likeliest top-k as positions in row order, and its probability; None if there is none.
Chances = tuple[list[list[Any]], tuple[tuple[int, ...], Any] | None]


def uncertain(
    rows: Iterable[Row],
    k: int,
    *,
    score: str,
    probability: str,
    semantics: str = "pk-topk",
    threshold: Any = None,
    time: str | None = None,
    id: str | None = None,
    later: str | None = None,
    keep: Sequence[str] = (),
    largest: bool = True,
    number: Callable[[Any], Any] = Fraction,
    chances: Callable[[list[Any], int], Chances] | None = None,
) -> list[Row]:
    """The answer, in its semantics' order: id, score, probability, `topk_probability`, `keep`.

    `number=Fraction` computes with the exact values of the probabilities, so that ties are exact;
    `number=float` is for windows too large for that. If a row has a Fraction, so has its answer.
    """
    order: Row = {"later": later or time, "id": id, "probability": probability}
    ordered = in_row_order(rows, score, **order, largest=largest)
    columns = [column for column in (id, score, probability) if column is not None]
    at_rank, vector = (chances or by_recursion)([number(row[probability]) for row in ordered], k)
    in_topk: list[Any] = [sum(ranks) for ranks in at_rank]
    if number is float:
        # One of the first k rows is in the top-k whenever it exists: use its probability unrounded.
        in_topk[:k] = [number(row[probability]) for row in ordered[:k]]
    # Sorting is stable, so ties keep row order, and max takes the first of several equal values.
    likeliest_first = sorted(range(len(ordered)), key=lambda i: in_topk[i], reverse=True)

    chosen: list[tuple[int, Any]]  # positions in row order, each with its topk_probability
    if semantics == "pk-topk":
        chosen = [(i, in_topk[i]) for i in likeliest_first[:k]]
    elif semantics == "pt-k":
        chosen = [(i, in_topk[i]) for i in likeliest_first if in_topk[i] >= number(threshold)]
    elif semantics == "u-kranks":
        ranks = range(min(k, len(ordered)))
        winners = [max(range(len(ordered)), key=lambda i: at_rank[i][r]) for r in ranks]
        chosen = [(i, at_rank[i][r]) for r, i in zip(ranks, winners, strict=True)]
    elif semantics == "u-topk":
        chosen = [(i, vector[1]) for i in vector[0]] if vector else []
    else:
        raise ValueError(f"unknown semantics {semantics!r}")

    answer = []
    for i, chance in chosen:
        shown = chance if isinstance(ordered[i][probability], Fraction) else float(chance)
        answer.append(
            {column: ordered[i][column] for column in columns}
            | {"topk_probability": shown}
            | {column: ordered[i][column] for column in keep}
        )
    return answer


def uncertain_by_worlds(rows: Iterable[Row], **settings: Any) -> list[Row]:
    """The same by enumerating all 2^n possible worlds; feasible up to about 12 rows."""
    return uncertain(rows, chances=by_worlds, **settings)


def by_worlds(probabilities: Sequence[Any], k: int) -> Chances:
    """The definition: go through all worlds and record the rows in their top-k."""
    n = len(probabilities)
    at_rank = [[0] * k for _ in range(n)]
    vectors: dict[tuple[int, ...], Any] = {}
    for world in itertools.product((True, False), repeat=n):
        chance = math.prod(
            p if there else 1 - p for p, there in zip(probabilities, world, strict=True)
        )
        top = tuple(i for i in range(n) if world[i])[:k]
        for rank, i in enumerate(top):
            at_rank[i][rank] += chance
        if len(top) == k:
            vectors[top] = vectors.get(top, 0) + chance
    # Of equal vectors the first by row order: as tuples of positions, the smallest.
    first_by_row_order = sorted(vectors.items())
    return at_rank, max(first_by_row_order, key=lambda vector: vector[1], default=None)


def by_recursion(probabilities: Sequence[Any], k: int) -> Chances:
    """The same row by row, best first. After each row:

    before[j]    the probability that exactly j < k of the rows so far exist (Poisson binomial)
    prefixes[j]  the likeliest choice of j of the rows so far, the others absent; first of equals
    """
    at_rank: list[list[Any]] = []
    before: list[Any] = [1] + [0] * (k - 1)
    prefixes: dict[int, tuple[tuple[int, ...], Any]] = {0: ((), 1)}
    best: tuple[tuple[int, ...], Any] | None = None
    for i, p in enumerate(probabilities):
        at_rank.append([p * before[j] for j in range(k)])
        before = [before[j] * (1 - p) + (before[j - 1] * p if j else 0) for j in range(k)]

        with_i = {j + 1: ((*chosen, i), chance * p) for j, (chosen, chance) in prefixes.items()}
        without_i = {j: (chosen, chance * (1 - p)) for j, (chosen, chance) in prefixes.items()}
        best = likelier(best, with_i.pop(k, None))
        prefixes = {}
        for j in with_i.keys() | without_i.keys():
            prefix = likelier(with_i.get(j), without_i.get(j))
            if prefix is not None:
                prefixes[j] = prefix
    return at_rank, best


def likelier(
    a: tuple[tuple[int, ...], Any] | None, b: tuple[tuple[int, ...], Any] | None
) -> tuple[tuple[int, ...], Any] | None:
    """The vector with the greater probability; of equals the first by row order."""
    if a is None or b is None:
        return a or b
    return min(a, b, key=lambda vector: (-vector[1], vector[0]))
