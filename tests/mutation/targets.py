"""The modules that are changed: at least one kernel and one synopsis per family, and the core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """A module, and the queries and tests that cover it."""

    family: str
    module: str
    algorithms: Mapping[str, tuple[str, ...]]
    """Algorithms, by kind of query, whose answers are compared with the oracle's."""
    tests: tuple[str, ...] = field(default=())
    """Tests of the module itself, for mutants that do not show in answers."""


TOPK = {"TopK": ("skyband", "mintopk", "sma")}
SKETCH = {"HeavyHitters": ("ss", "fss", "fsp", "fsw", "fsw-r", "fsw-f")}
UNCERTAIN = {"UncertainTopK": ("bs", "csq", "ccsq", "scsq", "scsq-buffer")}
FUSED = {"FusedTopK": ("sla", "eaa")}
SKYLINE: Mapping[str, tuple[str, ...]] = {"Skyline": ("sfs", "stabsky")}
JOIN: Mapping[str, tuple[str, ...]] = {"SkylineJoin": ("isj", "lsj", "gsj")}
ANY = {
    "TopK": ("skyband",),
    "HeavyHitters": ("exact",),
    "UncertainTopK": ("csq",),
    "FusedTopK": ("eaa",),
    "Skyline": ("stabsky",),
    "SkylineJoin": ("gsj",),
}

TARGETS = (
    Target("core", "skyband.data.order", ANY, ("data/test_order.py",)),
    Target(
        "core",
        "skyband.window",
        ANY,
        ("query/test_windows.py", "fuzz/test_found_by_fuzz.py -k window"),
    ),
    Target("core", "skyband.engine.clocks", ANY, ("embedded/test_monitor.py",)),
    Target("core", "skyband.engine.fold", ANY, ("embedded/test_monitor.py",)),
    Target("core", "skyband.kernels.core.arrange", ANY),
    Target("topk", "skyband.kernels.topk.select", TOPK, ("kernels/test_kernels_select.py",)),
    Target("topk", "skyband.kernels.topk.kskyband", {"TopK": ("skyband",)}),
    Target("topk", "skyband.kernels.topk.mintopk", {"TopK": ("mintopk",)}),
    Target("topk", "skyband.kernels.topk.sma", {"TopK": ("sma",)}),
    Target(
        "topk",
        "skyband.kernels.topk.pabf_merge",
        {"TopK": ("pabf",)},
        ("topk/test_pabf.py", "topk/test_pabf_streams.py"),
    ),
    Target("topk", "skyband.topk.mintopk", {"TopK": ("mintopk",)}),
    Target("frequency", "skyband.kernels.frequency.counting", {"HeavyHitters": ("exact",)}),
    Target("frequency", "skyband.kernels.frequency.spacesaving", {"HeavyHitters": ("ss", "fss")}),
    Target(
        "frequency", "skyband.kernels.frequency.fsw", {"HeavyHitters": ("fsw", "fsw-r", "fsw-f")}
    ),
    Target("frequency", "skyband.kernels.frequency.item_heap", SKETCH),
    Target("frequency", "skyband.frequency.exact", {"HeavyHitters": ("exact",)}),
    Target("uncertain", "skyband.kernels.uncertain.compact", UNCERTAIN),
    Target(
        "uncertain",
        "skyband.kernels.uncertain.poisson",
        UNCERTAIN,
        ("uncertain/test_uncertain_numbers.py",),
    ),
    Target("uncertain", "skyband.kernels.uncertain.csq", {"UncertainTopK": ("csq",)}),
    Target("uncertain", "skyband.kernels.uncertain.queue", {"UncertainTopK": ("csq", "ccsq")}),
    Target("uncertain", "skyband.uncertain.queue", {"UncertainTopK": ("csq", "ccsq", "scsq")}),
    Target(
        "fused",
        "skyband.kernels.fused.sweep",
        {"FusedTopK": ("eaa", "eaa-approx")},
        ("fused/test_fused_sketches.py", "fused/test_fused_dominance.py"),
    ),
    Target("fused", "skyband.kernels.fused.guard", FUSED, ("fused/test_fused_rows.py",)),
    Target("fused", "skyband.kernels.fused.lists", {"FusedTopK": ("sla",)}),
    Target("fused", "skyband.fused.eaa", {"FusedTopK": ("eaa",)}),
    Target("skyline", "skyband.kernels.skyline.dominance", {**SKYLINE, **JOIN}),
    Target("skyline", "skyband.kernels.skyline.stabsky", {"Skyline": ("stabsky",)}),
    Target("skyline", "skyband.kernels.skyline.isj", {"SkylineJoin": ("isj", "lsj")}),
    Target("skyline", "skyband.skyline.stabsky", {"Skyline": ("stabsky",)}),
)

FAMILIES = tuple(dict.fromkeys(target.family for target in TARGETS))
