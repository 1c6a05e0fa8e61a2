"""Integers that stand for the ids of objects when ties are broken."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.arrays import Ints
from skyband.data.columns import OFFSETS_32, OFFSETS_64, native_dtype, plain, spans, to_numpy
from skyband.data.order import sortable
from skyband.kernels.core.borrow import frozen
from skyband.kernels.core.strings import common_prefix, prefix_keys

__all__ = ["IdKeys"]


class IdKeys:
    """Keys that never contradict the order of the ids; equal keys leave the order open.

    A number is its own key. The key of text or bytes is the eight bytes after the common prefix of
    all ids so far. Other types have no key: their ties are broken when an answer is finished.

    >>> keys, names = IdKeys(), pa.array(["client 17", "client 18", "client 172"])
    >>> keys.narrows(names)
    True
    >>> np.argsort(keys.of(names)).tolist()
    [0, 2, 1]
    """

    def __init__(self) -> None:
        self.prefix: npt.NDArray[np.uint8] | None = None
        """The common prefix of all ids; None until the first id."""

    def narrows(self, ids: pa.Array) -> bool:
        """Whether these ids (at least one) shorten the common prefix: all keys are then invalid."""
        if not _is_text(ids.type):
            return False
        offsets, octets = spans(plain(ids))
        known = self.prefix
        if known is None:
            known = octets[offsets[0] : offsets[1]]
        common = common_prefix(_wide(offsets), frozen(octets), frozen(known))
        if self.prefix is not None and common == len(self.prefix):
            return False
        self.prefix = known[:common].copy()
        return True

    def of(self, ids: pa.Array) -> Ints:
        """The keys of ids that start with the common prefix."""
        if native_dtype(ids.type) is not None:
            return sortable(to_numpy(ids))
        if not _is_text(ids.type):
            return np.zeros(len(ids), np.int64)
        assert self.prefix is not None
        offsets, octets = spans(plain(ids))
        return prefix_keys(_wide(offsets), frozen(octets), len(self.prefix))


def _wide(offsets: npt.NDArray[np.int32] | Ints) -> Ints:
    return frozen(offsets.astype(np.int64, copy=False))


def _is_text(kind: pa.DataType) -> bool:
    return kind in OFFSETS_32 or kind in OFFSETS_64
