"""Groups: dense codes for the values of the ``by`` columns; a synopsis a group where needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.contract.runs import Runs
from skyband.contract.synopsis import Faults, Refused, Rows, Synopsis, Windows
from skyband.data.column_store import ColumnStore
from skyband.data.keys import KeyIndex, hash_columns
from skyband.data.order import order_by_value
from skyband.data.packing import under

__all__ = ["GroupTable", "PerGroup"]

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


class GroupTable:
    """Group keys and their codes; a code without live rows is freed and may come again."""

    def __init__(self, names: Sequence[str], schema: pa.Schema) -> None:
        self.names = tuple(names)
        self.index = KeyIndex()
        self.stores = [ColumnStore(schema.field(name).type) for name in self.names]
        self._ranks: Ints | None = None

    def __len__(self) -> int:
        return len(self.index) if self.names else 1

    @property
    def bound(self) -> int:
        """All codes are below this."""
        return self.index.bound if self.names else 1

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + sum(store.nbytes for store in self.stores)

    def encode(self, columns: Sequence[pa.Array]) -> Codes:
        """The code of each row's group; new groups get one."""
        codes, fresh_rows, fresh_codes = self.index.encode(hash_columns(columns))
        if len(fresh_rows):
            self._ranks = None
            for store, column in zip(self.stores, columns, strict=True):
                store.put(fresh_codes, column, fresh_rows)
        return codes

    @property
    def ranks(self) -> Ints:
        """``ranks[code]`` is the place of a group among all in the order of its key."""
        if not self.names:
            return np.zeros(1, np.int64)
        if self._ranks is None:
            live = self.live
            order = order_by_value([store.gather(live) for store in self.stores])
            self._ranks = np.zeros(self.bound, np.int64)
            self._ranks[live[order]] = np.arange(len(live))
        return self._ranks

    @property
    def live(self) -> Ints:
        """Codes in use, ascending."""
        return self.index.codes() if self.names else np.zeros(1, np.int64)

    def gather(self, codes: npt.NDArray[Any]) -> list[pa.Array]:
        """The key columns of these codes."""
        return [store.gather(codes) for store in self.stores]

    def release(self, codes: Codes) -> None:
        """Free codes."""
        self.index.release(codes)
        self._ranks = None

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Flat arrays for a snapshot."""
        arrays = {f"index/{name}": value for name, value in self.index.state().items()}
        for i, store in enumerate(self.stores):
            arrays |= {f"key{i}/{name}": value for name, value in store.state().items()}
        return arrays

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over a snapshot."""
        self.index = KeyIndex.from_state(under(arrays, "index/"))
        self.stores = [
            ColumnStore.from_state(store.type, under(arrays, f"key{i}/"))
            for i, store in enumerate(self.stores)
        ]
        self._ranks = None


class PerGroup(Synopsis[Any]):
    """A synopsis of one group made one of many: an instance a group, made with its first rows."""

    many_groups = True

    def __init__(self, make: Callable[[], Synopsis[Any]]) -> None:
        self.make = make
        self.model = make()
        self.members: dict[int, Synopsis[Any]] = {}
        self.filled: dict[int, Ints] = {}
        """Panes with rows of each group, as far back as windows reach."""
        self.query = self.model.query
        self.schemas = self.model.schemas
        self.axes = self.model.axes
        self.exact = self.model.exact  # type: ignore[misc]
        self.peeks = self.model.peeks  # type: ignore[misc]
        self.shortens = self.model.shortens  # type: ignore[misc]
        self.fallible = self.model.fallible

    def bind(self, source: str, schema: pa.Schema) -> pa.Schema:
        bound = self.model.bind(source, schema)
        for member in self.members.values():
            member.bind(source, schema)
        return bound

    def columns(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        return self.model.columns(source, schema)

    def output(self) -> pa.Schema:
        return self.model.output()

    def validate(self, source: str, batch: pa.RecordBatch) -> Faults | None:
        return self.model.validate(source, batch)

    def shard(self, source: str, batch: pa.RecordBatch, shards: int) -> Ints:
        return self.model.shard(source, batch, shards)

    def summarise(self, rows: Rows) -> Runs:
        return self.model.summarise(rows)

    def combine(self, runs: Runs) -> Runs:
        return self.model.combine(runs)

    def finish(self, partials: Sequence[Runs]) -> Runs:
        return self.model.finish(partials)

    def bounds(self) -> Mapping[str, Any]:
        return self.model.bounds()

    def admit(self, runs: Runs) -> tuple[Runs, Faults | None]:
        if type(self.model).admit is Synopsis.admit:
            return runs, None
        mask = np.zeros(sum(len(part) for part in runs.parts.values()), np.bool_)
        found, kept = Faults(mask), []
        late: list[tuple[int, Callable[[], Refused]]] = []
        for group, mine in self._split(runs):
            admitted, faults = self._member(group).admit(mine)
            kept.append(admitted)
            if faults is not None:
                # Only the count and the reasons are told; places differ between groups.
                mask[found.count : found.count + faults.count] = True
                found.reasons += faults.reasons
                if faults.refused is not None:
                    late.append((group, faults.refused))
        if not found.reasons:
            return runs, None
        found.refused = lambda: Refused.concat([each().of_group(group) for group, each in late])
        return Runs.concat(kept).ordered(), found

    def push(self, panes: Runs) -> None:
        for group, mine in self._split(panes):
            self._remember(group, mine.stamp)
            self._member(group).push(mine)

    def seal(self, first: int, end: int) -> None:
        for member in self.members.values():
            member.seal(first, end)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        asked = sorted(self.members) if group is None else [group]
        found = [
            _as_group(self.members[each].partial(first, end), each)
            for each in asked
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
            asked = self._windows(group, windows)
            if not len(mine) and not len(asked):
                continue
            partial = self._member(group).fold(mine, asked)
            if partial is not None:
                found.append(_as_group(partial, group))
                self.filled[group] = self.filled[group][self.filled[group] >= asked.first[-1]]
        return Runs.concat(found).ordered(windows.ranks) if found else None

    def forget(self, groups: Codes) -> None:
        for group in groups.tolist():
            self.members.pop(group, None)
            self.filled.pop(group, None)

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        arrays = {"groups": np.array(sorted(self.members), np.int64)}
        arrays |= {f"tally/{name}": count.copy() for name, count in self.model.tallies().items()}
        for group, member in self.members.items():
            arrays[f"{group}/filled"] = self.filled[group]
            arrays |= {f"{group}/state/{n}": value for n, value in member.snapshot().items()}
        return arrays

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.members, self.filled = {}, {}
        split: dict[str, dict[str, npt.NDArray[Any]]] = {}
        for name, value in arrays.items():
            group, _, rest = name.partition("/")
            split.setdefault(group, {})[rest] = value
        for name, count in self.model.tallies().items():
            count[:] = split.get("tally", {}).get(name, 0)
        for group in arrays["groups"].tolist():
            mine = split[str(group)]
            self.filled[group] = mine["filled"]
            self._member(group).restore(under(mine, "state/"))

    def stats(self) -> dict[str, int | float]:
        total = dict.fromkeys(self.model.stats(), 0.0 * 0)
        for member in self.members.values():
            for name, value in member.stats().items():
                total[name] = total.get(name, 0) + value
        for name, count in self.model.tallies().items():
            total[name] += int(count[0])
        return {name: int(v) if float(v).is_integer() else v for name, v in total.items()}

    def _check(self) -> None:
        assert set(self.members) == set(self.filled)
        for member in self.members.values():
            member._check()

    def _member(self, group: int) -> Synopsis[Any]:
        if group not in self.members:
            member = self.make()
            for source, schema in self.schemas.items():
                member.bind(source, schema)
            self.members[group] = member
            self.filled.setdefault(group, np.zeros(0, np.int64))
        return self.members[group]

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


def _as_group(runs: Runs, group: int) -> Runs:
    return Runs(runs.stamp, np.full(len(runs), group, np.int32), runs.parts, runs.scalars)


def _covers(filled: Ints, first: int, end: int) -> bool:
    return bool(np.searchsorted(filled, end) > np.searchsorted(filled, first))
