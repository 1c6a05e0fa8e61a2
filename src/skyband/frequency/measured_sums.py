"""The values of a measure over the window of one size; see ``PaneSums`` and ``Measure``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.arrays import grown
from skyband.contract.rows import Windows
from skyband.frequency.kernels.measured_sums import GAIN, Stacks, fold_measured
from skyband.frequency.kernels.pane_sums import HEAD, PLACES, TAIL, BestCodes, PaneEntries
from skyband.frequency.measures import Measure
from skyband.frequency.tape import Tape

if TYPE_CHECKING:
    from skyband.frequency.pane_sums import PaneSums

_NONE = np.zeros(0, np.int64)


class CodeStacks:
    """Two stacks of panes for each code: values that can be added, but not subtracted."""

    def __init__(self, columns: int, dtype: np.dtype[Any], lowest: Any, first: int) -> None:
        """Over no panes yet; ``first`` is the place of the first one in the lists."""
        self.place, self.lowest = np.full(PLACES, first, np.int64), lowest
        self.refs = np.zeros(0, np.int32)
        self.old = self.fresh = np.zeros((0, columns), dtype)
        self.rest = Tape({"rest": self.old})

    @property
    def nbytes(self) -> int:
        return self.refs.nbytes + self.old.nbytes + self.fresh.nbytes + self.rest.nbytes

    def reach(self, lists: PaneSums) -> Stacks:
        """Room for all codes and entries of the lists."""
        known = len(self.refs)
        self.refs = grown(self.refs, lists.items.bound)
        self.old, self.fresh = (grown(each, len(self.refs)) for each in (self.old, self.fresh))
        self.old[known:, 0] = self.fresh[known:, 0] = self.lowest
        more = len(lists.entries) - int(lists.starts[self.place[HEAD]]) - len(self.rest)
        self.rest.append(rest=np.zeros((more, *self.old.shape[1:]), self.old.dtype))
        codes = slice(lists.items.bound)
        return Stacks(
            self.place, self.old[codes], self.fresh[codes], self.refs[codes], self.rest["rest"]
        )

    def expire(self, lists: PaneSums, head: int) -> None:
        """It has left the panes from ``head`` on that were before its first one."""
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
            assert np.allclose(wanted, join(self.old[:known, v], self.fresh[:known, v]))
        assert len(self.rest) == len(lists.entries) - low


class MeasuredSums:
    """What a measure needs of each code. State: a few values per code and per entry of a pane."""

    def __init__(self, k: int, measure: Measure, since: Callable[..., Any], first: int = 0) -> None:
        """``since`` gives the first pane that an answer over some panes reads."""
        self.k, self.measure, self.since = k, measure, since
        settings = (measure.dtype, measure.rule.lowest, first)
        self.recent = CodeStacks(len(measure.sums), *settings)
        self.before = CodeStacks(1, *settings)

    @property
    def compared(self) -> bool:
        """Whether the window before matters."""
        return self.measure.rule.kind >= GAIN

    @property
    def stacks(self) -> list[CodeStacks]:
        """All that hold panes."""
        return [self.recent, self.before] if self.compared else [self.recent]

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.stacks)

    @property
    def head(self) -> int:
        """The place of the first pane that it needs, in the lists."""
        return min(int(each.place[HEAD]) for each in self.stacks)

    def fresh(self, k: int, first: int = 0) -> MeasuredSums:
        """The same for other panes, of which none is taken yet."""
        return MeasuredSums(k, self.measure, self.since, first)

    def live(self, lists: PaneSums) -> int:
        """How many items are known, each once per group."""
        return len(lists.items)

    def show(self, k: int) -> None:
        """Answer with so many items from now on."""
        self.k = k

    def drop(self, panes: int) -> None:
        """These panes, which it has left, are no longer in the lists."""
        for each in (self.recent, self.before):
            each.place -= panes

    def run(self, lists: PaneSums, windows: Windows) -> tuple[Any, ...]:
        """Take all panes of the lists, and read windows; see ``fold_measured``."""
        known, rule, item_type = lists.items.bound, self.measure.rule, lists.items.item_type
        decides = item_type.most is None  # whether equal growth is ranked by the count
        heads = [int(each.place[HEAD]) for each in self.stacks]
        stacks = [each.reach(lists) for each in self.stacks]
        best = fold_measured(
            PaneEntries(
                lists.entries["code"], lists.entries["value"], stacks[0].rest, lists.pane,
                lists.starts,
            ),
            stacks[0], stacks[-1], self.since(windows.first, windows.end), windows.first,
            windows.end, lists.groups(windows),
            BestCodes(lists.items.order_key, self.k, item_type.decided, _NONE), rule,
            np.empty((known, 2 if self.compared and decides else 1), self.measure.scored),
            np.empty((known, 2), self.measure.dtype),
        )  # fmt: skip
        for each, head in zip(self.stacks, heads, strict=True):
            each.expire(lists, head)
        code, found, value, group, end, per_window = best
        return code, [found[:, 0], *value.T], group, end, per_window, _NONE

    def _check(self, lists: PaneSums) -> None:
        for each in self.stacks:
            each._check(lists, self.measure.rule.peak)
        assert self.recent.place[TAIL] == len(lists.pane)
