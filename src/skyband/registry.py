"""Which algorithms answer which query: the one place where an algorithm is registered.

The table holds only names, so that importing Skyband loads no kernels; a class is imported when a
query first needs it. Each algorithm also declares which of the query's settings it uses and which
options it accepts. A query rejects all others when it is constructed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from skyband.errors import QueryError, did_you_mean


class Algorithm(NamedTuple):
    """One algorithm as it was registered."""

    target: str | type
    takes: tuple[str, ...]
    options: tuple[str, ...]
    window: str = "sized"


_ALGORITHMS: dict[str, dict[str, Algorithm]] = {
    "TopK": {},
    "HeavyHitters": {},
    "UncertainTopK": {},
    "FusedTopK": {},
    "Skyline": {},
    "SkylineJoin": {},
}
_FAMILIES = {
    "TopK": "skyband.topk",
    "HeavyHitters": "skyband.frequency",
    "UncertainTopK": "skyband.uncertain",
    "FusedTopK": "skyband.fused",
    "Skyline": "skyband.skyline",
    "SkylineJoin": "skyband.skyline",
}


def register(
    kind: str,
    name: str,
    target: str | type,
    takes: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
    window: str = "sized",
) -> None:
    """Register ``target`` (a class, or its name ``"module:Class"``) as an algorithm of a query.

    ``takes`` lists which of the query's ``settings`` the algorithm uses, ``options`` the names that
    it accepts in ``options=``, and ``window`` the sort of windows that it answers: "sized" for time
    and count windows, "decay" or "landmark".
    """
    _ALGORITHMS[kind][name] = Algorithm(target, takes, options, window)


def kinds() -> tuple[str, ...]:
    """The queries that have at least one algorithm."""
    return tuple(kind for kind, table in _ALGORITHMS.items() if table)


def algorithms(kind: str, window: str = "sized") -> tuple[str, ...]:
    """The names of a query's algorithms for a sort of windows, in the order of registration."""
    return tuple(name for name, each in _ALGORITHMS[kind].items() if each.window == window)


def takes(kind: str, name: str) -> tuple[str, ...]:
    """The settings of the query that an algorithm uses."""
    return _ALGORITHMS[kind][name].takes


def options(kind: str, name: str) -> tuple[str, ...]:
    """The names that an algorithm accepts in ``options=``."""
    return _ALGORITHMS[kind][name].options


def load(kind: str, name: str) -> Any:
    """The synopsis class of an algorithm."""
    table = _ALGORITHMS[kind]
    if name not in table:
        raise QueryError(
            f"{kind} has no algorithm {name!r}; choose one of {', '.join(table)} or None"
            f"{did_you_mean(name, table)}"
        )
    target = table[name].target
    if not isinstance(target, str):
        return target
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def registered(kind: str, name: str) -> Algorithm:
    """An algorithm as it was registered, so that another process can register it too."""
    return _ALGORITHMS[kind][name]


def choose(query: Any) -> str:
    """The algorithm of a query: the one it names, otherwise the one that its family picks."""
    if query.algorithm is not None:
        return str(query.algorithm)
    return str(import_module(_FAMILIES[query.kind]).choose(query))


register("TopK", "skyband", "skyband.topk.skyband:SkybandTopK")
register("TopK", "mintopk", "skyband.topk.mintopk:MinTopK")
register("TopK", "sma", "skyband.topk.sma:Sma")
register("TopK", "pabf", "skyband.topk.pabf:Pabf", ("epsilon", "delta"), ("filter", "preselect"))
register("TopK", "skyband-distinct", "skyband.topk.best:SkybandDistinct")
register("TopK", "skyband-ties", "skyband.topk.tied:SkybandTies")
register("TopK", "distinct-ties", "skyband.topk.tied_ids:TiedIds")
register("TopK", "latest", "skyband.topk.latest:LatestTopK")
_IDS = "skyband.topk.lasting_ids"
register("TopK", "decay-distinct", f"{_IDS}:DecayedIds", window="decay")
register("TopK", "landmark-distinct", f"{_IDS}:LandmarkIds", window="landmark")
register("TopK", "decay", "skyband.topk.decay:DecayedRows", window="decay")
register("TopK", "landmark", "skyband.topk.landmark:BestRows", window="landmark")

_SKETCH = ("raw_rows",)
_LIST, _CELLS = ("capacity",), ("capacity", "cells")
register("HeavyHitters", "exact", "skyband.frequency.exact:Exact")
register("HeavyHitters", "ss", "skyband.frequency.instances:SpaceSaving", _LIST, _SKETCH)
register("HeavyHitters", "fss", "skyband.frequency.instances:SpaceSaving", _CELLS, _SKETCH)
register("HeavyHitters", "fsp", "skyband.frequency.fsp:Fsp", _CELLS, _SKETCH)
register("HeavyHitters", "fsw", "skyband.frequency.fsw:Fsw", _CELLS, _SKETCH)
register("HeavyHitters", "fsw-r", "skyband.frequency.fsw:Fsw", (*_CELLS, "ratio"), _SKETCH)
_ALL = (*_CELLS, "ratio", "filter_bits")
register("HeavyHitters", "fsw-f", "skyband.frequency.fsw:Fsw", _ALL, _SKETCH)
register(
    "HeavyHitters", "decay", "skyband.frequency.decay:DecayedCounts", ("capacity",), window="decay"
)
_RUNNING = "skyband.frequency.running:RunningCounts"
register("HeavyHitters", "landmark", _RUNNING, ("capacity",), window="landmark")

register("UncertainTopK", "bs", "skyband.uncertain.bs:SortedWindow")
register("UncertainTopK", "csq", "skyband.uncertain.queue:CompactSetQueue")
register("UncertainTopK", "ccsq", "skyband.uncertain.queue:CompressedQueue")
register("UncertainTopK", "scsq", "skyband.uncertain.queue:SegmentalQueue")
register("UncertainTopK", "scsq-buffer", "skyband.uncertain.queue:BufferedQueue")
register("UncertainTopK", "landmark", "skyband.uncertain.base:CompactSet", window="landmark")

_FUSED, _EAA = ("guard", "kmax"), ("guard", "kmax", "slack")
register("FusedTopK", "sla", "skyband.fused.sla:Sla", (), _FUSED)
register("FusedTopK", "eaa", "skyband.fused.eaa:Eaa", ("returns",), _EAA)
register(
    "FusedTopK", "eaa-approx", "skyband.fused.approx:EaaApprox", ("returns",),
    (*_EAA, "bitmaps", "sketch", "caution"),
)  # fmt: skip
_REPEATS = "skyband.fused.reports:RepeatedReports"
register("FusedTopK", "eaa-repeats", _REPEATS, ("repeats",), ("guard", "slack"))
register("FusedTopK", "reports", _REPEATS, ("repeats",), ("guard",))

register("Skyline", "sfs", "skyband.skyline.single:Sfs")
register("Skyline", "stabsky", "skyband.skyline.stabsky:StabSky")
register("Skyline", "landmark", "skyband.skyline.single:WholeSkyline", window="landmark")

register("SkylineJoin", "naive", "skyband.skyline.live_sides:Naive")
register("SkylineJoin", "isj", "skyband.skyline.lsj:LayeredJoin")
register("SkylineJoin", "lsj", "skyband.skyline.lsj:LayeredJoin", ("layers",), ("share_from",))
register("SkylineJoin", "gsj", "skyband.skyline.gsj:GroupSkylines")
