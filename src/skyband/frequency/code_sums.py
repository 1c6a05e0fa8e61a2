"""The sums, or other values, of each code over the window of one size; see ``PaneSums``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.arrays import grown
from skyband.contract.rows import Windows
from skyband.frequency.kernels.measured_sums import GAIN, fold_measured
from skyband.frequency.kernels.pane_sums import (
    HEAD,
    PLACES,
    TAIL,
    BestCodes,
    PaneEntries,
    Stacks,
    fold_lists,
)
from skyband.frequency.measures import Measure
from skyband.frequency.tape import Tape

if TYPE_CHECKING:
    from skyband.frequency.pane_sums import PaneSums

_NONE = np.zeros(0, np.int64)
Since = Callable[..., Any]
"""The first pane that an answer over some panes reads, for those that look back further."""


class CodeStacks:
    """The values of each code over the panes of a window.

    Values that cannot be subtracted have two stacks of panes; see ``kernels/pane_sums.py``.
    """

    def __init__(
        self, columns: int, dtype: np.dtype[Any], first: int, lowest: Any = 0, whole: bool = False
    ) -> None:
        """Over no panes yet; ``first`` is the place of the first one in the lists.

        ``lowest`` is less than any first value. ``whole`` numbers are subtracted.
        """
        self.place, self.lowest, self.whole = np.full(PLACES, first, np.int64), lowest, whole
        self.refs = np.zeros(0, np.int32)
        self.old = self.fresh = np.zeros((0, columns), dtype)
        self.rest = Tape({"rest": self.old})

    @property
    def nbytes(self) -> int:
        return self.refs.nbytes + self.old.nbytes + self.fresh.nbytes + self.rest.nbytes

    def reach(self, lists: PaneSums) -> Stacks:
        """Room for all codes and entries of the lists."""
        known, codes = len(self.refs), slice(lists.items.bound)
        self.refs, self.fresh = (grown(each, codes.stop) for each in (self.refs, self.fresh))
        self.fresh[known:, 0] = self.lowest
        if not self.whole:
            self.old = grown(self.old, len(self.refs))
            self.old[known:, 0] = self.lowest
            entered = int(lists.starts[self.place[HEAD]]) + len(self.rest)
            more = len(lists.entries) - entered
            self.rest.append(rest=np.zeros((more, *self.old.shape[1:]), self.old.dtype))
        return Stacks(
            self.place, self.old[codes], self.fresh[codes], self.refs[codes], self.rest["rest"]
        )

    def expire(self, lists: PaneSums, head: int) -> None:
        """It has left the panes from ``head`` on that were before its first one."""
        if not self.whole:
            self.rest.drop(int(lists.starts[self.place[HEAD]] - lists.starts[head]))

    def _check(self, lists: PaneSums, peak: bool) -> None:
        head, tail = self.place[[HEAD, TAIL]].tolist()
        assert 0 <= head <= tail <= len(lists.pane)
        known, (low, high) = lists.items.bound, lists.starts[[head, tail]]
        code, value = lists.entries["code"][low:high], lists.entries["value"][low:high]
        assert np.array_equal(np.bincount(code, minlength=known), self.refs[:known])
        for v in range(value.shape[1]):
            join, none = (np.maximum, self.lowest) if peak and not v else (np.add, 0)
            wanted = np.full(known, none, value.dtype)
            join.at(wanted, code, value[:, v])
            if self.whole:
                assert np.array_equal(wanted, self.fresh[:known, v])
            else:
                assert np.allclose(wanted, join(self.old[:known, v], self.fresh[:known, v]))
        assert self.whole or len(self.rest) == len(lists.entries) - low


class CodeSums:
    """The sums of the window of one size, or what a measure needs, by code.

    State: a value per code; unless numbers are whole and added up, also one for each code and entry
    of its old panes.
    """

    def __init__(
        self, k: int, lists: PaneSums, first: int, measure: Measure | None, since: Since | None
    ) -> None:
        """Over no panes yet; ``first`` is the place of the first one in the lists."""
        self.k, self.measure, self.since = k, measure, since
        self.last = _NONE
        """The codes of its last answer, if there is no measure."""
        if measure is None:
            whole = lists.dtype.kind == "i"
            self.stacks = [CodeStacks(len(lists.values), lists.dtype, first, whole=whole)]
        else:
            lowest = measure.rule.lowest
            self.stacks = [CodeStacks(len(measure.sums), measure.dtype, first, lowest)]
            if measure.rule.kind >= GAIN:  # the window before matters, too
                self.stacks.append(CodeStacks(1, measure.dtype, first, lowest))
        self.show(k)

    @property
    def nbytes(self) -> int:
        return self.last.nbytes + sum(each.nbytes for each in self.stacks)

    @property
    def head(self) -> int:
        """The place of the first pane that it needs, in the lists."""
        return min(int(each.place[HEAD]) for each in self.stacks)

    def live(self, lists: PaneSums) -> int:
        """How many items are counted, each once per group."""
        return len(lists.items)

    def show(self, k: int) -> None:
        """Answer with so many items from now on."""
        self.k = k
        if self.measure is None:
            self.last = np.full(k, -1)

    def drop(self, panes: int) -> None:
        """These panes, which it has left, are no longer in the lists."""
        for each in self.stacks:
            each.place -= panes

    def run(self, lists: PaneSums, windows: Windows) -> tuple[Any, ...]:
        """Take all panes of the lists, and read windows; see ``fold_lists``, ``fold_measured``."""
        heads = [int(each.place[HEAD]) for each in self.stacks]
        stacks = [each.reach(lists) for each in self.stacks]
        entries = PaneEntries(
            lists.entries["code"], lists.entries["value"], lists.pane, lists.starts
        )
        item_type = lists.items.item_type
        wanted = BestCodes(lists.items.order_key, self.k, item_type.decided, self.last)
        columns: list[Any]
        if self.measure is None:
            code, value, group, end, per_window, rest = fold_lists(
                entries, stacks[0], windows.first, windows.end, lists.groups(windows), wanted
            )
            columns = list(value.T)
        else:
            assert self.since is not None
            known, compared = lists.items.bound, len(stacks) > 1
            decides = item_type.most is None  # whether equal growth is ranked by the count
            code, ranks, value, group, end, per_window = fold_measured(
                entries, stacks[0], stacks[-1], self.since(windows.first, windows.end),
                windows.first, windows.end, lists.groups(windows), wanted, self.measure.rule,
                np.empty((known, 2 if compared and decides else 1), self.measure.scored),
                np.empty((known, 2), self.measure.dtype),
            )  # fmt: skip
            columns, rest = [ranks[:, 0], *value.T], _NONE
        for each, head in zip(self.stacks, heads, strict=True):
            each.expire(lists, head)
        return code, columns, group, end, per_window, rest

    def _check(self, lists: PaneSums) -> None:
        for each in self.stacks:
            each._check(lists, self.measure is not None and self.measure.rule.peak)
        assert self.stacks[0].place[TAIL] == len(lists.pane)
