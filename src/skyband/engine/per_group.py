"""Runs an algorithm that handles one group on many groups: one instance per group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband import registry
from skyband.arrays import Codes, Ints
from skyband.contract.capabilities import (
    PaneShrinking,
    ReaderFold,
    RowAdmission,
)
from skyband.contract.rows import Faults, RefusedRows, Windows
from skyband.contract.runs import Runs
from skyband.contract.synopsis import Synopsis
from skyband.data.flat_state import Form, admitted
from skyband.data.packing import under
from skyband.query.base import Query

_NONE = np.zeros(0, np.int64)


class PerGroup:
    """The state of an algorithm that handles one group, for many groups: one instance per group.

    An instance is created with the first rows of its group. What reads no state is asked of
    ``model``, an instance that never takes a row.
    """

    def __init__(self, model: Synopsis[Any]) -> None:
        self.model = model
        self.start()

    def start(self) -> None:
        """Forget all groups."""
        self.members: dict[int, Synopsis[Any]] = {}
        self.filled: dict[int, Ints] = {}
        """The panes in which each group has rows, as far back as windows reach."""

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        groups = sorted(self.members) if group is None else [group]
        found = [
            _as_group(self._member(each).partial(first, end), each)
            for each in groups
            if each in self.members and _covers(self.filled[each], first, end)
        ]
        return Runs.concat(found) if found else self.model.partial(first, end)

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        fresh = dict(self._split(panes))
        empty = panes.slice(0, 0)
        found = []
        groups = set(fresh) | set(self.members) if windows.group is None else set(fresh)
        for group in sorted(groups):
            mine = fresh.get(group, empty)
            self._remember(group, mine.stamp)
            own = self._windows(group, windows)
            if not len(mine) and not len(own):
                continue
            partial = self._member(group).fold(mine, own)
            if partial is not None:
                found.append(_as_group(partial, group))
                self.filled[group] = self.filled[group][self.filled[group] >= own.first[-1]]
        return Runs.concat(found).ordered(windows.ranks) if found else None

    def needed_rows(self) -> dict[int, int] | None:
        """See ``PaneShrinking``."""
        if not isinstance(self.model, PaneShrinking):
            return None
        total: Counter[int] = Counter()
        for member in self.members.values():
            assert isinstance(member, PaneShrinking)
            total.update(member.needed_rows() or {})
        return total

    def shrunk(self, runs: Runs) -> Runs:
        """See ``PaneShrinking``."""
        found = []
        for group, mine in self._split(runs):
            member = self.members.get(group, self.model)
            assert isinstance(member, PaneShrinking)
            found.append(_as_group(member.shrunk(mine), group))
        return Runs.concat(found).ordered()

    # State ------------------------------------------------------------------------------------

    def forget(self, groups: Codes) -> None:
        for group in groups.tolist():
            self.members.pop(group, None)
            self.filled.pop(group, None)

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        arrays = {"groups": np.array(sorted(self.members), np.int64)}
        arrays |= {f"model/{name}": value for name, value in self.model.snapshot().items()}
        for group, member in sorted(self.members.items()):
            arrays[f"{group}/filled"] = self.filled[group]
            arrays |= {f"{group}/state/{n}": value for n, value in member.snapshot().items()}
        return arrays

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.start()
        split: dict[str, dict[str, npt.NDArray[Any]]] = {}
        for name, value in arrays.items():
            group, _, rest = name.partition("/")
            split.setdefault(group, {})[rest] = value
        self.model.restore(split.get("model", {}))  # ``summarise`` may have counted something
        for group in arrays["groups"].tolist():
            mine = split[str(group)]
            like, forms = {"filled": _NONE}, {"filled": Form("panes", ascends=True)}
            self.filled[group] = admitted(mine, like, forms)["filled"]
            member = self._member(group)
            member.bounds_of_saved = self.model.bounds_of_saved
            member.restore(under(mine, "state/"))
            member.bounds_of_saved = None

    def stats(self) -> dict[str, int | float]:
        total: dict[str, int | float] = {}
        for synopsis in (self.model, *self.members.values()):
            for name, value in synopsis.stats().items():
                total[name] = total.get(name, 0) + value
        return {name: int(v) if float(v).is_integer() else v for name, v in total.items()}

    def _check(self) -> None:
        assert set(self.members) == set(self.filled)
        for member in self.members.values():
            member._check()

    def _member(self, group: int) -> Synopsis[Any]:
        member = self.members.get(group)
        if member is None:
            member = self.members[group] = type(self.model)(self.model.query)
            self.filled.setdefault(group, _NONE)
        for source, schema in self.model.schemas.items():
            if source not in member.schemas:
                member.bind(source, schema)
        return member

    def _remember(self, group: int, panes: Ints) -> None:
        known = self.filled.get(group)
        self.filled[group] = panes if known is None else np.concatenate([known, panes])

    def _windows(self, group: int, windows: Windows) -> Windows:
        filled = self.filled[group]
        covered = np.searchsorted(filled, windows.end) > np.searchsorted(filled, windows.first)
        mine = covered if windows.group is None else windows.group == group
        return Windows(
            windows.number[mine], windows.first[mine], windows.end[mine], np.zeros(1, np.int64)
        )

    @staticmethod
    def _split(runs: Runs) -> list[tuple[int, Runs]]:
        if not len(runs):
            return []
        order = np.argsort(runs.group, kind="stable")
        ranked = runs.group[order]
        cuts = np.flatnonzero(np.diff(ranked)) + 1
        return [
            (int(runs.group[rows[0]]), _as_group(runs.take(rows), 0))
            for rows in np.split(order, cuts)
        ]


class AdmittingPerGroup(PerGroup):
    """For an algorithm that may find bad rows when a pane is sealed; see ``RowAdmission``."""

    def admit(self, runs: Runs) -> tuple[Runs, Faults | None]:
        mask = np.zeros(sum(len(part) for part in runs.parts.values()), np.bool_)
        found, kept = Faults(mask), []
        late: list[tuple[int, Callable[[], RefusedRows]]] = []
        for group, mine in self._split(runs):
            # A group without a member has no state yet, and neither has the model.
            admitted, faults = self._admission(group).admit(mine)
            kept.append(admitted)
            if faults is not None:
                # Only the count and the reasons are reported; positions differ between groups.
                mask[found.count : found.count + faults.count] = True
                found.reasons += faults.reasons
                if faults.refused is not None:
                    late.append((group, faults.refused))
        if not found.reasons:
            return runs, None
        found.refused = lambda: RefusedRows.concat([each().of_group(group) for group, each in late])
        return Runs.concat(kept).ordered(), found

    def savepoint(self) -> Mapping[str, npt.NDArray[Any]] | None:
        if self._admission(-1).savepoint() is None:
            return None
        return {name: array.copy() for name, array in self.snapshot().items()}

    def _admission(self, group: int) -> RowAdmission:
        member = self.members.get(group, self.model)
        assert isinstance(member, RowAdmission)
        return member


def _as_group(runs: Runs, group: int) -> Runs:
    return Runs(runs.stamp, np.full(len(runs), group, np.int32), runs.parts, runs.scalars)


def _covers(filled: Ints, first: int, end: int) -> bool:
    return bool(np.searchsorted(filled, end) > np.searchsorted(filled, first))


def state_of(synopsis: Synopsis[Any]) -> Synopsis[Any] | PerGroup:
    """What holds the state of a query: the synopsis itself, if it handles all groups."""
    if not synopsis.query.groups or synopsis.many_groups:
        return synopsis
    return (AdmittingPerGroup if isinstance(synopsis, RowAdmission) else PerGroup)(synopsis)


def make_synopsis(query: Query, readers: Sequence[Query] = ()) -> Synopsis[Any]:
    """The synopsis of a query.

    ``readers`` are the queries that it answers, if those are others: see ``fold.widest``.
    """
    synopsis: Synopsis[Any] = registry.load(query.kind, registry.choose(query))(query)
    if isinstance(synopsis, ReaderFold) and any(reader is not query for reader in readers):
        synopsis.serve(readers)
    return synopsis
