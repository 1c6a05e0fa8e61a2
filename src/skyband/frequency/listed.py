"""Windows answered from the most frequent items of each pane; the others are not even looked up.

A fold may bring so many panes that most of them leave the window before it ends: a batch of an
hour, say, and windows of ten minutes. Most of their items are rare. Those with the greatest counts
of each pane are listed, and only they are counted in all panes:

    pane                  1       2       3
    listed                a 90    a 80    b 95     b has 6 in pane 2, where it is not listed
    most of any other     9       8       7        an item listed nowhere has at most 24 in all

If the last one of an answer has more than that, no other item can be in the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skyband.arrays import Array, Floats, Hashes, Ints, Mask
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs

if TYPE_CHECKING:
    from skyband.frequency.pane_sums import PaneSums

_FEWEST, _PER_RANK = 64, 4
"""Items listed per pane: so many, or so many for each rank of an answer if those are more."""
_WORTH = 1 << 15
"""Entries of panes that come and go, below which looking up all of them costs little."""
_RARE = 8
"""Panes must have so many times more entries than are listed."""
_TRIAL = 2
"""If there are more than so many times the panes of a window, one window is tried first."""
_BITS = 16
_SURE = 1 + 1e-9
"""Sums of counts are compared as floating-point numbers."""


class _Lists(NamedTuple):
    """The entries of some panes: hashes and counts of items, and where each pane begins."""

    stamps: Ints
    hashes: Hashes
    counts: Array
    starts: Ints

    def between(self, first: int, end: int) -> _Lists:
        """The panes from ``first`` to ``end``."""
        low, high = np.searchsorted(self.stamps, [first, end])
        starts = self.starts[low : high + 1]
        some = slice(starts[0], starts[-1])
        return _Lists(
            self.stamps[low:high], self.hashes[some], self.counts[some], starts - starts[0]
        )


def from_listed(
    state: PaneSums, empty: PaneSums, panes: Runs, windows: Sequence[Windows]
) -> list[Runs | None] | None:
    """The answers of the windows of each size, without changing the state; None if not certain.

    ``panes`` are new, ``state`` has the others, and ``empty`` is a state without any. Counts are
    whole numbers that are not negative, and there are no groups.
    """
    part, items = panes.parts["items"], state.items
    ks, listed = [sums.k for sums in state.sums], max(_FEWEST, _PER_RANK * state.most)
    longest, k = min(
        ((own, k) for own, k in zip(windows, ks, strict=True) if len(own)),
        key=lambda pair: int(pair[0].first[-1]),
    )
    leaving = int(np.searchsorted(panes.stamp, longest.first[-1]))
    many = len(part) + len(state.entries)
    if part.offsets[leaving] < _WORTH or many < _RARE * listed * (len(panes) + len(state.pane)):
        return None
    code, value = state.entries["code"], state.entries["value"][:, 0]
    live = _Lists(state.pane, items.index.hashes(code), value, state.starts)
    counts = np.asarray(part["count"])
    new = _Lists(panes.stamp, items.item_type.hashes(part), counts, part.offsets)
    some = [each.between(int(longest.first[-1]), int(longest.end[-1])) for each in (live, new)]
    few = sum(len(each.stamps) for each in some)
    if _TRIAL * few < len(panes) + len(state.pane) and not _may_do(some, listed, k):
        return None
    most, hashes_of = zip(*(_listed(each, listed) for each in (live, new)), strict=True)
    hashes = np.unique(np.concatenate(hashes_of))
    (old_rows, old_offsets), (rows, offsets) = (_among(each, hashes) for each in (live, new))
    columns: dict[str, Any] = {"count": value[old_rows], **items.store.gather(code[old_rows])}
    if "hash" in part.columns:
        columns["hash"] = live.hashes[old_rows]
    before = Runs(
        state.pane, np.zeros(len(state.pane), np.int32), {"items": Part(old_offsets, columns)}
    )
    after = Runs(panes.stamp, panes.group, {"items": part.rows(rows, offsets)})
    answers = empty.fold_all(Runs.concat([before, after]), windows)
    stamps, limits = np.concatenate([state.pane, panes.stamp]), np.concatenate(most)
    sizes = zip(answers, windows, ks, strict=True)
    certain = all(_certain(best, own, k, stamps, limits).all() for best, own, k in sizes)
    return answers if certain else None


def _may_do(lists: Sequence[_Lists], listed: int, k: int) -> bool:
    """Whether the lists of a window's panes suffice for that window.

    If items are all about as frequent as each other, they do not. Then the other panes, which are
    many, need not be looked at.
    """
    most, found = zip(*(_listed(each, listed) for each in lists), strict=True)
    hashes = np.unique(np.concatenate(found))
    sums = np.zeros(len(hashes))
    for each in lists:
        rows, _ = _among(each, hashes)
        np.add.at(sums, np.searchsorted(hashes, each.hashes[rows]), each.counts[rows])
    limits = np.concatenate(most)
    if (limits < 0).all():
        return True
    return len(sums) >= k and bool(np.partition(sums, -k)[-k] > np.maximum(limits, 0).sum())


def _listed(lists: _Lists, listed: int) -> tuple[Floats, Hashes]:
    """The most of any item that is not listed, by pane (-1 if there is none); those that are."""
    most = np.full(len(lists.starts) - 1, -1.0)
    hashes: list[Hashes] = [lists.hashes[:0]]
    for pane in range(len(most)):
        some = slice(lists.starts[pane], lists.starts[pane + 1])
        counts = lists.counts[some]
        if len(counts) <= listed:
            hashes.append(lists.hashes[some])
            continue
        most[pane] = limit = _limit(counts, listed)
        hashes.append(lists.hashes[some][counts > limit])
    return most, np.concatenate(hashes)


def _limit(counts: Array, listed: int) -> int:
    """The greatest count but so many; they are more than the counts listed."""
    limit = 1
    while len(larger := counts[counts > limit]) > listed:  # most counts are small
        counts, limit = larger, 4 * limit
    return int(np.partition(counts, len(counts) - listed)[len(counts) - listed])


def _among(lists: _Lists, hashes: Hashes) -> tuple[Ints, Ints]:
    """The entries whose items are among these, and where those of each pane begin."""
    shift, marked = np.uint64(64 - _BITS), np.zeros(1 << _BITS, np.bool_)
    marked[(hashes >> shift).astype(np.int64)] = True
    rows = np.flatnonzero(marked[(lists.hashes >> shift).view(np.int64)])
    rows = rows[np.isin(lists.hashes[rows], hashes)]
    return rows, np.searchsorted(rows, lists.starts)


def _certain(answers: Runs | None, windows: Windows, k: int, stamps: Ints, most: Floats) -> Mask:
    """Whether each window has no item that is not listed and could be in its answer."""
    last = np.full(len(windows), -1.0)
    if answers is not None:
        part = answers.parts["items"]
        full = np.flatnonzero(part.lengths >= k)  # ties are of the same count
        at = np.searchsorted(windows.number, answers.stamp[full])
        last[at] = part["count"][part.offsets[full + 1] - 1]
    low, high = np.searchsorted(stamps, windows.first), np.searchsorted(stamps, windows.end)
    others = np.concatenate([[0], np.cumsum(most >= 0)])
    sums = np.concatenate([[0.0], np.cumsum(np.maximum(most, 0))])
    none: Mask = others[high] == others[low]
    bound = sums[high] - sums[low]
    certain: Mask = none | (bound * _SURE + sums[high] * (_SURE - 1) < last)
    return certain
