"""Groups: dense codes for the values of the ``by`` columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Codes, Ints, Saved, grown
from skyband.data.flat_state import FlatState, require
from skyband.data.keys import KeyIndex, hash_columns
from skyband.data.order import order_by_value
from skyband.data.retained_rows import RetainedRows

_FEW_GROUPS = 1024
_NEVER = np.iinfo(np.int64).min
_NONE = np.zeros(0, np.int32)


class GroupTable(FlatState):
    """Group keys and their codes. The code of a group without live rows is freed and reused."""

    saved_arrays = ("newest",)
    saved_parts = (("index/", "index"), ("", "keys"))

    def __init__(self, names: Sequence[str], schema: pa.Schema) -> None:
        self.names = tuple(names)
        self.index = KeyIndex()
        types = {name: schema.field(name).type for name in self.names}
        self.keys = RetainedRows(types, label="key")
        self.newest: Ints = np.zeros(0, np.int64)
        """The newest pane with rows, by code."""
        self._known = _FEW_GROUPS
        """The number of groups after the last look for expired ones."""
        self._ranks: Ints | None = None

    def __len__(self) -> int:
        return len(self.index) if self.names else 1

    @property
    def bound(self) -> int:
        """All codes are below this."""
        return self.index.bound if self.names else 1

    def encode(self, columns: Sequence[pa.Array]) -> Codes:
        """The code of each row's group; new groups are added."""
        codes, fresh_rows, fresh_codes = self.index.encode(hash_columns(columns))
        if len(fresh_rows):
            self._ranks = None
            named = dict(zip(self.names, columns, strict=True))
            self.keys.put(fresh_codes, named, fresh_rows)
        return codes

    @property
    def ranks(self) -> Ints:
        """``ranks[code]`` is the position of a group when all groups are sorted by key."""
        if not self.names:
            return np.zeros(1, np.int64)
        if self._ranks is None:
            live = self.live
            order = order_by_value(self.gather(live))
            self._ranks = np.zeros(self.bound, np.int64)
            self._ranks[live[order]] = np.arange(len(live))
        return self._ranks

    @property
    def live(self) -> Ints:
        """Codes in use, ascending."""
        return self.index.codes() if self.names else np.zeros(1, np.int64)

    def gather(self, codes: Array) -> list[pa.Array]:
        """The key columns of these codes."""
        return list(self.keys.gather(codes).values())

    def saw(self, codes: Codes, panes: Ints) -> None:
        """Note panes in which groups have rows."""
        if self.names and len(codes):
            self.newest = grown(self.newest, self.bound, _NEVER)
            np.maximum.at(self.newest, codes, panes)

    def release_before(self, first: int) -> Codes:
        """Free the codes of groups without rows since pane ``first``; returns them.

        None if the number of groups has not doubled since the last look.
        """
        if len(self) < 2 * self._known:
            return _NONE
        live = self.live
        gone = live[self.newest[live] < first].astype(np.int32)
        if len(gone):
            self.index.release(gone)
            self.newest[gone] = _NEVER
            self._ranks = None
        self._known = max(_FEW_GROUPS, len(self))
        return gone

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        require(len(self.keys) >= self.index.bound, "a group has no key")
        self._ranks = None
