"""isj and lsj: the iterative skyline join of every window, whose layers lsj keeps; one class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from skyband.arrays import Ints, Saved, State
from skyband.contract.checks import integer_option
from skyband.data.flat_state import Form, Forms, admitted, require
from skyband.data.packing import under
from skyband.query.skyline import SkylineJoin
from skyband.skyline.base import dominators
from skyband.skyline.graph import DominanceGraphs
from skyband.skyline.kernels.isj import (
    LEFT,
    RIGHT,
    CellSide,
    Fabric,
    Sharing,
    SideStart,
    join_window,
)
from skyband.skyline.live_sides import LiveSynopsis

_FEW = 64
"""For fewer rows, sorting and filtering is as fast as matching with the previous window."""
_FEW_LIVE = 1536
"""For fewer live rows on a side, sorting and filtering is as fast as a dominance graph."""
_ALL = np.iinfo(np.int64).max
"""More layers than any window has."""
_COUNTS = ("graph_reads", "layers_shared", "layers_recomputed")
"""Local skylines read from a graph, continued from the previous window, recomputed."""
_FABRIC_FORMS = {
    "known": Form("rows", 0),
    "parents": Form("rows", -1),
    "offsets": Form("cuts", 0, ascends=True),
    "linked": Form("entries"),
}
_NONE: Ints = np.zeros(0, np.int64)
_UNSHARED = Sharing(1, False, 0)
NO_FABRIC = Fabric(_NONE, _NONE, np.zeros(1, np.int64), np.zeros(0, np.bool_), 0)


class LayeredJoin(LiveSynopsis):
    """Layer by layer: join the local skylines, keep the results, prune, continue with the rest.

    ``isj`` finds each layer's local skylines by sorting and filtering. ``lsj`` continues from the
    previous window's layers, which are its *fabric*. Layer 1 is a stream whose rows expire in
    order, so its local skylines are the roots of a dominance graph (StabSky). Higher layers lose
    rows by pruning and get old ones back, so there every row is kept, parked under one dominator.
    ``layers`` says how many layers are shared. ``layers=None`` shares all of them, but recomputes
    from the first layer that is small or has less than half of its rows in common with the previous
    window; from there on it is isj plus one check. Option ``share_from`` (1536): with
    ``layers=None``, nothing is shared if a side has fewer live rows than this; a layer above the
    first needs that many rows or 64, whichever is less.

    Time, in every layer: a sort-filter of each side's remaining rows, their join, and a check of
    each remaining row against the results. A shared layer replaces its sort-filter by O(r s)
    comparisons, where r is the number of rows that are new in the layer or lost their parent, and s
    the size of the layer's skyline. State: all live rows, and two numbers per row in each shared
    layer. Exact.

    ``isj`` is iterative (Sun et al.) with outsider pruning, which is ISJ in the paper's section
    VI.A. ``lsj`` is section V, with its Algorithm 1 in layer 1 only: in higher layers that
    algorithm yields rows that are not on the skyline
    (docs/internals/decisions/0016-iteration-layers.md).

    >>> import pyarrow as pa, skyband as sb
    >>> trades = pa.table({"ts": [1, 2], "stock": ["a", "b"], "price": [5, 3]})
    >>> risks = pa.table({"ts": [1, 2], "stock": ["a", "b"], "risk": [1, 2]})
    >>> names = {"left": "trades", "right": "risks", "on": "stock", "time": "ts"}
    >>> wish, window = {"price": "min", "risk": "min"}, sb.TimeWindow(10)
    >>> query = sb.SkylineJoin(**names, prefer=wish, window=window, layers=2, algorithm="lsj")
    >>> sb.rank({"trades": trades, "risks": risks}, query)["stock"].to_pylist()
    ['a', 'b']
    """

    saved_arrays = ("counts", "local_counts")
    saved_forms: ClassVar[Forms] = {**LiveSynopsis.saved_forms, "local_counts": Form(1)}
    saved_parts = (
        *LiveSynopsis.saved_parts, ("graph0/", "left_graph"), ("graph1/", "right_graph"),
    )  # fmt: skip

    def __init__(self, query: SkylineJoin) -> None:
        super().__init__(query)
        self.most_layers = 0 if query.algorithm == "isj" else query.layers
        """How many layers may be shared; None if that is chosen for each window."""
        least = integer_option(query.options, "share_from", _FEW_LIVE, 0)
        self.few_live, self.few = least, min(least, _FEW)
        self.layers: list[tuple[int, int]] = []
        """Rows of both sides at the start of each layer of the last window."""
        self.local_counts = np.zeros(1, np.int64)
        """Comparisons for local skylines: the only ones that sharing can save."""
        self.shares = np.zeros(len(_COUNTS), np.int64)
        self.left_graph: DominanceGraphs
        self.right_graph: DominanceGraphs
        self.sharing = _UNSHARED
        self.fabric = NO_FABRIC
        """Layers 2, 3, ... of both sides. Rows are numbered from the very first one; a dominated
        row is parked under one of its dominators and checked again when that one leaves."""
        self.linked = [0, 0]
        """How many rows of each side, counted from the very first, its graph has seen."""

    def start(self) -> None:
        super().start()
        widths = [side.points.shape[1] for side in self.live]
        self.left_graph, self.right_graph = DominanceGraphs(widths[0]), DominanceGraphs(widths[1])

    @property
    def graphs(self) -> tuple[DominanceGraphs, DominanceGraphs]:
        """The dominance graphs of both sides, for layer 1."""
        return self.left_graph, self.right_graph

    # One window -------------------------------------------------------------------------------

    def pairs(self, firsts: tuple[int, int]) -> tuple[Ints, Ints]:
        if not self.folding:
            unseen = np.zeros(len(_COUNTS), np.int64)
            return self.iterated(firsts, NO_FABRIC, _UNSHARED, unseen)[0]
        self.sharing = self._sharing(firsts)
        pairs, self.fabric = self.iterated(firsts, self.fabric, self.sharing, self.shares)
        return pairs

    def _sharing(self, firsts: tuple[int, int]) -> Sharing:
        """Which layers this window may share with the previous one."""
        if self.most_layers is not None:
            return Sharing(self.most_layers + 1, False, 0)
        rows = [
            len(side) - int(np.searchsorted(side.pane, first))
            for side, first in zip(self.live, firsts, strict=True)
        ]
        return Sharing(1 if min(rows) < self.few_live else _ALL, True, self.few)

    def iterated(
        self, firsts: tuple[int, int], fabric: Fabric, sharing: Sharing, shares: Ints
    ) -> tuple[tuple[Ints, Ints], Fabric]:
        """The pairs of the skyline, and the fabric of shared layers for the next window."""
        (left, one), (right, two) = (self._side(at, firsts[at]) for at in (0, 1))
        pairs, sizes, fabric = join_window(
            left, right, (one, two), fabric, sharing, self.counts, self.local_counts, shares
        )
        self.layers = [(a, b) for a, b in sizes.tolist()]
        return (pairs[:, LEFT].copy(), pairs[:, RIGHT].copy()), fabric

    def _side(self, at: int, first: int) -> tuple[CellSide, SideStart]:
        """What the kernel needs to know of one side."""
        side, keys = self.live[at], self.keys.bound
        low = int(np.searchsorted(side.pane, first))
        sky = self._first_sky(at, first)
        start = SideStart(low, side.expired, _NONE if sky is None else sky, sky is not None)
        segment = side.segment
        if not len(segment) or (segment == segment[0]).all():
            cells = np.zeros((keys, 2), np.int64)
            cells[:, 0] = np.arange(keys)
            cells[:, 1] = segment[0] if len(segment) else 0
            return CellSide(side.points, side.key, cells, np.arange(keys + 1), segment, 1), start
        segments, small = np.unique(segment, return_inverse=True)
        return CellSide(side.points, *_cells(side.key, segment, keys), small, len(segments)), start

    def _first_sky(self, at: int, first: int) -> Ints | None:
        """The local skyline of layer 1 of one side, if its graph has it."""
        side, graph = self.live[at], self.graphs[at]
        end = side.expired + len(side)
        if self.folding and self.sharing.stop > 1:
            start = max(self.linked[at] - side.expired, 0)
            self.linked[at] = end
            rows = side.points, side.segment, side.pane
            sky = graph.follow(rows, start, side.expired, first, self.local_counts)
            return sky - side.expired
        if self.folding or self.linked[at] != end:
            return None
        return graph.read(first).slot - side.expired

    # State ------------------------------------------------------------------------------------

    def rows_of(self, layer: int, at: int) -> tuple[Ints, Ints | None]:
        """The rows of a layer above the first, and their parents if they are known."""
        fabric, entry = self.fabric, 2 * (layer - 2) + at
        mine = slice(fabric.offsets[entry], fabric.offsets[entry + 1])
        return fabric.known[mine], fabric.parents[mine] if fabric.linked[entry] else None

    def snapshot_known(self) -> State:
        fabric = self.fabric
        rows = fabric.offsets[fabric.entries]
        return super().snapshot_known() | {
            "followed": np.array(self.linked),
            "shares": self.shares.copy(),
            "fabric/known": fabric.known[:rows].copy(),
            "fabric/parents": fabric.parents[:rows].copy(),
            "fabric/offsets": fabric.offsets[: fabric.entries + 1].copy(),
            "fabric/linked": fabric.linked[: fabric.entries].copy(),
        }

    def restore_known(self, arrays: Saved) -> None:
        super().restore_known(arrays)
        own = {"followed": _NONE, "shares": self.shares}
        saved = admitted(arrays, own, {"followed": Form(2), "shares": Form(len(_COUNTS))})
        self.linked, self.shares = saved["followed"].tolist(), saved["shares"]
        ends = [side.expired + len(side) for side in self.live]
        for graph, side, end, upto in zip(self.graphs, self.live, ends, self.linked, strict=True):
            live = graph.pane >= (side.pane[0] if len(side) else graph.pane.max(initial=0) + 1)
            known = graph.slot[live].min(initial=end) >= side.expired
            inside = graph.slot.max(initial=-1) < end and 0 <= upto <= end
            require(known and inside, "a row of no side")
        like = dict(zip(_FABRIC_FORMS, NO_FABRIC, strict=False))
        saved = admitted(under(arrays, "fabric/"), like, _FABRIC_FORMS)
        known, parents, offsets, linked = saved.values()
        cuts = len(offsets) == len(linked) + 1 and offsets[0] == 0 and offsets[-1] == len(known)
        require(cuts, "layers that are not there")
        entry = np.repeat(np.arange(len(linked)), np.diff(offsets))
        bounds = np.array(ends)[entry % 2]
        below = (known < bounds) & (parents < bounds)
        ascends = np.diff(known)[entry[1:] == entry[:-1]] > 0
        require(below.all() and ascends.all(), "a layer with a row of no side")
        self.fabric = Fabric(known, parents, offsets, linked, len(linked))

    def stats(self) -> dict[str, int | float]:
        stats, fabric = super().stats(), self.fabric
        joined, pruned, layers = self.counts[1:4].tolist()
        in_layer_1 = sum(int(graph.counts[0]) for graph in self.graphs)
        local = int(self.local_counts[0]) + in_layer_1
        rows = int(fabric.offsets[fabric.entries])
        stats["comparisons"] += local
        stats["state_bytes"] += 16 * rows
        return stats | {
            "pairs": joined,
            "pruned": pruned,
            "layers": layers,
            "local_comparisons": local,
            "fabric_rows": rows,
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
        for layer in range(2, 2 + self.fabric.entries // 2):
            for at, side in enumerate(self.live):
                known, parents = self.rows_of(layer, at)
                _check_sky(known, parents, side.points, side.segment, side.expired)


def _cells(codes: Ints, segment: Ints, keys: int) -> tuple[Ints, Ints, Ints]:
    """Each row's cell, each cell's key and segment, and each key's first cell."""
    order = np.lexsort((segment, codes))
    key, part = codes[order], segment[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (key[1:] != key[:-1]) | (part[1:] != part[:-1])
    cell = np.empty(len(order), np.int64)
    cell[order] = np.cumsum(fresh) - 1
    cells = np.stack([key[fresh], part[fresh]], axis=1)
    return cell, cells, np.searchsorted(cells[:, 0], np.arange(keys + 1))


def _check_sky(
    known: Ints, parents: Ints | None, points: Ints, segment: Ints, expired: int
) -> None:
    """Rows without a parent are on the skyline; parents are known and dominate."""
    assert (np.diff(known) > 0).all()
    if parents is None or (known < expired).any():
        return
    rows = known - expired
    for at, parent in enumerate(parents):
        above = known[dominators(points[rows], segment[rows], at)]
        assert parent in above if parent >= 0 else not len(above)
