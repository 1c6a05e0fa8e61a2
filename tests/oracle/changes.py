"""What changed from one answer to the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oracle.windows import Row, groups


def changes(
    previous: Iterable[Row], current: Iterable[Row], by: Sequence[str], key_columns: Sequence[str]
) -> list[Row]:
    """The rows that enter, move and leave, in the order of the groups.

    Within a group: first the rows that enter or move, by their new rank, then those that leave, by
    their old one. Skylines have no ranks, so nothing moves in them and the ranks are None.
    """
    before = dict(groups(previous, by))
    after = dict(groups(current, by))
    log: list[tuple[tuple[Any, ...], str, tuple[Any, ...], int | None, int | None]] = []
    for group in sorted(before.keys() | after.keys()):
        old = numbered(before.get(group, []), key_columns)
        new = numbered(after.get(group, []), key_columns)
        for key, to_rank in new.items():
            if key not in old:
                log.append((group, "enter", key, None, to_rank))
            elif old[key] != to_rank:
                log.append((group, "move", key, old[key], to_rank))
        for key, from_rank in old.items():
            if key not in new:
                log.append((group, "leave", key, from_rank, None))
    return [
        {
            **dict(zip(by, group, strict=True)),
            "change": change,
            **dict(zip(key_columns, key[:-1], strict=True)),
            "from_rank": from_rank,
            "to_rank": to_rank,
        }
        for group, change, key, from_rank, to_rank in log
    ]


def numbered(table: Iterable[Row], key_columns: Sequence[str]) -> dict[tuple[Any, ...], int | None]:
    """The rank of each key. Equal keys are numbered in the order of the table, by rank."""
    ranks: dict[tuple[Any, ...], int | None] = {}
    for row in table:
        values = tuple(row[column] for column in key_columns)
        occurrence = 0
        while (*values, occurrence) in ranks:
            occurrence += 1
        ranks[*values, occurrence] = row.get("rank")
    return ranks
