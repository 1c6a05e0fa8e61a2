"""lsj: the iterative skyline join, where each layer continues from the previous window's."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints, Saved, State
from skyband.contract.checks import integer_option
from skyband.kernels.skyline.local_sky import local_update
from skyband.query.skyline import SkylineJoin
from skyband.skyline.graph import DominanceGraph
from skyband.skyline.isj import Isj

__all__ = ["Lsj"]

_PAYS = 0.5
"""Sharing pays if at least this share of the rows was already in the previous window."""
_FEW = 64
"""For fewer rows, sorting and filtering is as fast as matching with the previous window."""
_FEW_LIVE = 1536
"""For fewer live rows on a side, sorting and filtering is as fast as a dominance graph."""
_COUNTS = ("graph_reads", "layers_shared", "layers_recomputed")
"""Local skylines read from a graph, continued from the previous window, recomputed."""


class _LocalSky:
    """The local skyline of one side in one layer above the first, under any insertion and deletion.

    Rows are numbered from the very first one. A dominated row is parked under one of its
    dominators and checked again when that dominator leaves.
    """

    def __init__(self) -> None:
        self.known: Ints = np.zeros(0, np.int64)
        self.parents: Ints | None = None
        """The number of each row's parent, -1 on the skyline; None if only the rows are known."""

    def pays(self, active: Ints, expired: int, least: int) -> bool:
        """Whether to continue from the previous window; if not, the rows are noted for the next.

        With fewer than ``least`` rows sharing never pays, and the rows are not noted either.
        """
        known, few = self.known, len(active) < least
        numbers = known[:0] if few else active + expired
        if not few and np.isin(numbers, known, assume_unique=True).sum() >= _PAYS * len(numbers):
            return True
        self.known, self.parents = numbers, None
        return False

    def update(self, points: Ints, segment: Ints, active: Ints, expired: int, counts: Ints) -> Ints:
        """Move on to these rows (positions ascending); returns those on the skyline."""
        known, parents = self.known, self.parents
        if parents is None:
            known = parents = known[:0]
        self.known, self.parents, sky = local_update(
            points, segment, known, parents, active, expired, counts
        )
        return sky


class Lsj(Isj):
    """The iteration of isj on a fabric: each layer continues from the previous window's layer.

    Layer 1 is a stream whose rows expire in order, so its local skylines are the roots of a
    dominance graph (StabSky). Higher layers lose rows by pruning and get old ones back, so there
    every row is kept, parked under one dominator. ``layers`` says how many layers are shared.
    ``layers=None`` shares all of them, but recomputes from the first layer that is small or has
    less than half of its rows in common with the previous window; from there on it is isj plus one
    check. Option ``share_from`` (1536): with ``layers=None``, nothing is shared if a side has fewer
    live rows than this; a layer above the first needs that many rows or 64, whichever is less.

    Time: that of isj, except that a shared layer replaces its sort-filter by O(r s) comparisons,
    where r is the number of rows that are new in the layer or lost their parent, and s the size of
    the layer's skyline. State: all live rows, and two numbers per row in each shared layer. Exact.

    The paper's section V, with its Algorithm 1 in layer 1 only: in higher layers that algorithm
    yields rows that are not on the skyline (docs/decisions/0016-iteration-layers.md).

    >>> import pyarrow as pa, skyband as sb
    >>> trades = pa.table({"ts": [1, 2], "stock": ["a", "b"], "price": [5, 3]})
    >>> risks = pa.table({"ts": [1, 2], "stock": ["a", "b"], "risk": [1, 2]})
    >>> names = {"left": "trades", "right": "risks", "on": "stock", "time": "ts"}
    >>> wish, window = {"price": "min", "risk": "min"}, sb.TimeWindow(10)
    >>> query = sb.SkylineJoin(**names, prefer=wish, window=window, layers=2, algorithm="lsj")
    >>> sb.rank({"trades": trades, "risks": risks}, query)["stock"].to_pylist()
    ['a', 'b']
    """

    saved_parts = (*Isj.saved_parts, ("graph0/", "left_graph"), ("graph1/", "right_graph"))

    def __init__(self, query: SkylineJoin) -> None:
        super().__init__(query)
        least = integer_option(query.options, "share_from", _FEW_LIVE, 0)
        self.few_live, self.few = least, min(least, _FEW)
        self.shares = np.zeros(len(_COUNTS), np.int64)
        self.left_graph: DominanceGraph
        self.right_graph: DominanceGraph
        self.fabric: list[tuple[_LocalSky, _LocalSky]] = []
        """Layers 2, 3, ... of both sides."""
        self.linked = [0, 0]
        """How many rows of each side, counted from the very first, its graph has seen."""
        self.stop = 0
        """The layer from which this window is recomputed."""

    def start(self) -> None:
        super().start()
        widths = [side.points.shape[1] for side in self.live]
        self.left_graph, self.right_graph = DominanceGraph(widths[0]), DominanceGraph(widths[1])

    @property
    def graphs(self) -> tuple[DominanceGraph, DominanceGraph]:
        """The dominance graphs of both sides, for layer 1."""
        return self.left_graph, self.right_graph

    def pairs(self, firsts: tuple[int, int]) -> tuple[Ints, Ints]:
        if self.folding:
            limit = self.query.layers
            self.stop = np.iinfo(np.int64).max if limit is None else limit + 1
        found = super().pairs(firsts)
        if self.folding:
            del self.fabric[max(min(len(self.layers), self.stop) - 1, 0) :]
        return found

    def local(self, layer: int, at: int, active: Ints, first: int) -> Ints:
        side = self.live[at]
        if layer == 1 and self._graph_serves(at, active, first):
            self.shares[0] += self.folding
            return self.graphs[at].read(first) - side.expired
        if not self.folding or layer >= self.stop:
            self.shares[2] += self.folding
            return self.recomputed(layer, at, active, first)
        if len(self.fabric) < layer - 1:
            self.fabric.append((_LocalSky(), _LocalSky()))
        sky = self.fabric[layer - 2][at]
        if self.query.layers is None and not sky.pays(active, side.expired, self.few):
            self.stop = layer
            self.shares[2] += 1
            return self.recomputed(layer, at, active, first)
        self.shares[2 if sky.parents is None else 1] += 1
        return sky.update(side.points, side.segment, active, side.expired, self.local_counts)

    def recomputed(self, layer: int, at: int, active: Ints, first: int) -> Ints:
        """The local skyline of a layer that shares nothing with the previous window."""
        return super().local(layer, at, active, first)

    def _graph_serves(self, at: int, active: Ints, first: int) -> bool:
        """Whether a side's dominance graph covers all rows; during a fold, adds the new ones."""
        side = self.live[at]
        if not self.folding:
            return self.linked[at] == side.expired + len(side)
        if self.stop == 1 or (self.query.layers is None and len(active) < self.few_live):
            self.stop = 1
            return False
        start = max(self.linked[at] - side.expired, 0)
        self.linked[at] = side.expired + len(side)
        rows = side.points, side.segment, side.pane
        self.graphs[at].follow(rows, start, side.expired, first, self.local_counts)
        return True

    # State ------------------------------------------------------------------------------------

    def snapshot_known(self) -> State:
        arrays = super().snapshot_known()
        arrays["fabric"] = np.array([len(self.fabric), *self.linked])
        arrays["shares"] = self.shares.copy()
        for layer, both in enumerate(self.fabric):
            for at, sky in enumerate(both):
                arrays[f"fabric{layer}/{at}/known"] = sky.known
                if sky.parents is not None:
                    arrays[f"fabric{layer}/{at}/parents"] = sky.parents
        return arrays

    def restore_known(self, arrays: Saved) -> None:
        super().restore_known(arrays)
        if "shares" in arrays:  # snapshots of 0.1 lack it
            self.shares = arrays["shares"].copy()
        layers, *self.linked = (int(n) for n in arrays["fabric"])
        self.fabric = [(_LocalSky(), _LocalSky()) for _ in range(layers)]
        for layer, both in enumerate(self.fabric):
            for at, sky in enumerate(both):
                sky.known = arrays[f"fabric{layer}/{at}/known"]
                sky.parents = arrays.get(f"fabric{layer}/{at}/parents")

    def stats(self) -> dict[str, int | float]:
        found = super().stats()
        layer_1 = sum(int(graph.counts[0]) for graph in self.graphs)
        found["comparisons"] += layer_1
        found["local_comparisons"] += layer_1
        kept = [sky for both in self.fabric for sky in both]
        found["state_bytes"] += sum(16 * len(sky.known) for sky in kept)
        return found | {
            "fabric_rows": sum(len(sky.known) for sky in kept),
            "graph_rows": sum(len(graph) for graph in self.graphs),
            "graph_edges": sum(int(graph.counts[3]) for graph in self.graphs),
            **dict(zip(_COUNTS, self.shares.tolist(), strict=True)),
        }

    def _check(self) -> None:
        super()._check()
        for graph, side in zip(self.graphs, self.live, strict=True):
            graph._check()
            if len(side):
                assert (graph.slot[graph.pane >= side.pane[0]] >= side.expired).all()
        for both in self.fabric:
            for sky, side in zip(both, self.live, strict=True):
                _check_sky(sky, side.points, side.segment, side.expired)


def _check_sky(sky: _LocalSky, points: Ints, segment: Ints, expired: int) -> None:
    """Rows without a parent are on the skyline; parents are known and dominate."""
    assert (np.diff(sky.known) > 0).all()
    if sky.parents is None or (sky.known < expired).any():
        return
    rows = sky.known - expired
    for row, parent in zip(rows, sky.parents, strict=True):
        better = (points[rows] >= points[row]).all(axis=1) & (points[rows] > points[row]).any(
            axis=1
        )
        above = sky.known[better & (segment[rows] == segment[row])]
        assert parent in above if parent >= 0 else not len(above)
