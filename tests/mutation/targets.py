"""The modules that are changed: kernels and synopses of each family, the core, jobs and Spark."""

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
    """Tests of the module itself: a file under tests/, and a word in the name to choose some."""

    @property
    def own_tests(self) -> list[tuple[str, str]]:
        """The files of ``tests``, each with its word or an empty text."""
        return [(file, word) for file, _, word in (each.partition(" ") for each in self.tests)]


TOPK = {"TopK": ("skyband", "mintopk", "sma")}
SKETCH = {"HeavyHitters": ("ss", "fss", "fsp", "fsw", "fsw-r", "fsw-f")}
UNCERTAIN = {"UncertainTopK": ("bs", "csq", "ccsq", "scsq", "scsq-buffer")}
FUSED = {"FusedTopK": ("sla", "eaa")}
SKYLINE: Mapping[str, tuple[str, ...]] = {"Skyline": ("sfs", "stabsky")}
ANY = {
    "TopK": ("skyband",),
    "HeavyHitters": ("exact",),
    "UncertainTopK": ("csq",),
    "FusedTopK": ("eaa",),
    "Skyline": ("stabsky",),
    "SkylineJoin": ("gsj",),
}

SMA = tuple(
    f"topk/test_sma.py {word}"
    for word in ("threshold", "band", "stream", "exactly", "alone[uniform]")
)
EXACTNESS = ("contract/test_exactness.py that_were", "contract/test_exactness.py no_longer")
CORE = "kernels/test_core_kernels.py"
TOPK_KERNELS = "kernels/test_kernels_topk.py"
FREQUENCY_KERNELS = "kernels/test_frequency_kernels.py"
SKETCHES = "kernels/test_sketch_kernels.py"
UNCERTAIN_KERNELS = "kernels/test_uncertain_kernels.py"
FUSED_KERNELS = "kernels/test_fused_kernels.py"
SKYLINE_KERNELS = "kernels/test_skyline_kernels.py"

CRASHES = tuple(
    f"crashes/test_crashes.py {word}" for word in ("twice[0]", "twice[2]", "twice[5]", "goes_on")
)
FIRST_RUNS = ("jobs/test_first_runs.py",)
SPARK_PARTS = (
    "spark/test_metamorphic.py not_matter",
    "spark/test_board_parts.py",
    "spark/test_spark_parts.py",
)
WITHOUT_KERNELS = ("jobs", "spark")
"""Families that have no kernel."""

TARGETS = (
    Target("core", "skyband.data.order", ANY, ("data/test_order.py",)),
    Target(
        "core",
        "skyband.window",
        ANY,
        ("query/test_windows.py", "fuzz/test_found_by_fuzz.py window"),
    ),
    Target(
        "core",
        "skyband.engine.clock",
        ANY,
        ("engine/test_clocks.py", "query/test_windows.py due"),
    ),
    Target(
        "core",
        "skyband.engine.fold",
        ANY,
        (
            "engine/test_resume.py",
            "engine/test_fold.py",
            "engine/test_peek.py test_in",
            "embedded/test_monitor.py forgotten",
            "embedded/test_monitor.py test_an",
            "embedded/test_monitor.py peek",
        ),
    ),
    Target("core", "skyband.kernels.arrange", ANY, (CORE,)),
    Target("core", "skyband.engine.session", ANY, ("engine/test_fold.py", "engine/test_resume.py")),
    Target(
        "core",
        "skyband.engine.board",
        ANY,
        ("engine/test_readers.py", "engine/test_resume.py", "spark/test_metamorphic.py not_matter"),
    ),
    Target("core", "skyband.engine.open_panes", ANY, ("engine/test_open_panes.py",)),
    Target("core", "skyband.contract.runs", ANY, ("contract/test_contract.py",)),
    Target("core", "skyband.contract.accumulated", ANY, ("contract/test_unsized_windows.py",)),
    Target("core", "skyband.contract.tumbling", ANY, ("contract/test_contract.py",)),
    Target(
        "jobs",
        "skyband.jobs.local.journal",
        {},
        ("jobs/test_durable.py torn", "jobs/test_durable.py record", *CRASHES),
    ),
    Target("jobs", "skyband.jobs.local.checkpoint", {}, (*FIRST_RUNS, *CRASHES)),
    Target("jobs", "skyband.jobs.local.local_job", {}, ("jobs/test_local_jobs.py", *CRASHES)),
    Target(
        "jobs",
        "skyband.jobs.local.posts",
        {},
        ("serve/test_request_keys.py", *CRASHES),
    ),
    Target(
        "jobs",
        "skyband.jobs.local.files",
        {},
        ("jobs/test_durable.py", "jobs/test_local_files.py", *CRASHES),
    ),
    Target("jobs", "skyband.jobs.sinks.base", {}, ("jobs/test_sinks.py", *CRASHES)),
    Target("jobs", "skyband.jobs.world", {}, ("jobs/test_durable.py", *FIRST_RUNS, *CRASHES)),
    Target("spark", "skyband.spark.bucket", {}, SPARK_PARTS),
    Target("spark", "skyband.spark.plan", {}, SPARK_PARTS),
    Target("spark", "skyband.spark.finishing", {}, SPARK_PARTS),
    Target(
        "topk",
        "skyband.kernels.select",
        TOPK,
        (
            "kernels/test_kernels_select.py test_the",
            "kernels/test_kernels_select.py zero",
            "kernels/test_kernels_select.py cut",
            "kernels/test_select_steps.py",
        ),
    ),
    Target(
        "topk",
        "skyband.topk.kernels.skyband",
        {"TopK": ("skyband",)},
        (
            *(f"{TOPK_KERNELS} {word}" for word in ("small", "forgotten", "renumbered", "gaps")),
            f"{TOPK_KERNELS} one_large_group",
            "engine/test_readers.py others_as_they_were[TopK]",
        ),
    ),
    Target(
        "topk",
        "skyband.topk.kernels.bands",
        {"TopK": ("skyband-distinct", "skyband-ties")},
        ("topk/test_distinct.py few_ids", "topk/test_distinct.py one_id"),
    ),
    Target(
        "topk",
        "skyband.topk.kernels.mintopk",
        {"TopK": ("mintopk",)},
        ("topk/test_mintopk.py",),
    ),
    Target(
        "topk",
        "skyband.topk.kernels.sma",
        {"TopK": ("sma",)},
        ("kernels/test_sma_kernels.py", *SMA),
    ),
    Target(
        "topk",
        "skyband.topk.kernels.pabf",
        {"TopK": ("pabf",)},
        ("kernels/test_pabf_kernels.py", "kernels/test_pabf_levels.py"),
    ),
    Target("topk", "skyband.topk.mintopk", {"TopK": ("mintopk",)}),
    Target(
        "frequency",
        "skyband.frequency.kernels.counting",
        {"HeavyHitters": ("exact",)},
        (f"{FREQUENCY_KERNELS} run",),
    ),
    Target(
        "frequency",
        "skyband.frequency.kernels.spacesaving",
        {"HeavyHitters": ("ss", "fss")},
        (
            f"{FREQUENCY_KERNELS} list",
            f"{SKETCHES} reach",
            f"{SKETCHES} many",
            f"{SKETCHES} raised",
            *EXACTNESS,
        ),
    ),
    Target(
        "frequency",
        "skyband.frequency.kernels.fsw",
        {"HeavyHitters": ("fsw", "fsw-r", "fsw-f")},
        (
            f"{FREQUENCY_KERNELS} best",
            f"{SKETCHES} fsw",
            f"{SKETCHES} stay",
            f"{SKETCHES} digits",
            "kernels/test_fsw_kernels.py",
            *EXACTNESS,
            "frequency/test_frequency_lemmas.py removals_by",
            "frequency/test_frequency.py apart_keep_true_bounds[fsw-zipf]",
        ),
    ),
    Target(
        "frequency",
        "skyband.frequency.kernels.item_heap",
        SKETCH,
        (
            f"{FREQUENCY_KERNELS} table",
            f"{FREQUENCY_KERNELS} least",
            f"{FREQUENCY_KERNELS} equal",
            f"{FREQUENCY_KERNELS} removed",
            f"{FREQUENCY_KERNELS} best",
        ),
    ),
    Target(
        "frequency",
        "skyband.frequency.kernels.pane_sums",
        {"HeavyHitters": ("exact", "fsp")},
        ("frequency/test_exact_states.py", "engine/test_readers.py others_as_they_were[Heavy"),
    ),
    Target(
        "frequency",
        "skyband.frequency.kernels.block_sums",
        {"HeavyHitters": ("exact",)},
        (
            "frequency/test_exact_states.py",
            "frequency/test_exact_readers.py lists_and_items",
            "frequency/test_frequency_groups.py sizes[1-False-7-w]",
            "frequency/test_frequency_groups.py silent",
        ),
    ),
    Target(
        "frequency",
        "skyband.frequency.exact",
        {"HeavyHitters": ("exact",)},
        ("frequency/test_exact_states.py",),
    ),
    Target(
        "uncertain",
        "skyband.uncertain.kernels.compact",
        UNCERTAIN,
        (
            *(f"{UNCERTAIN_KERNELS} {word}" for word in ("run", "row", "chance", "zero")),
            "uncertain/test_uncertain_paper.py compact_sets_end",
        ),
    ),
    Target(
        "uncertain",
        "skyband.uncertain.kernels.queue",
        {"UncertainTopK": ("csq", "ccsq", "scsq")},
        (
            "contract/test_counters.py compact_sets",
            *(
                f"{UNCERTAIN_KERNELS} {word}"
                for word in ("queue", "left", "entry", "certain", "compact_set")
            ),
        ),
    ),
    Target(
        "uncertain",
        "skyband.uncertain.queue",
        {"UncertainTopK": ("csq", "ccsq", "scsq")},
        ("contract/test_counters.py compact_sets", "uncertain/test_queue_synopsis.py"),
    ),
    Target(
        "fused",
        "skyband.fused.kernels.sweep",
        {"FusedTopK": ("eaa", "eaa-approx")},
        (f"{FUSED_KERNELS} instances",),
    ),
    Target(
        "fused",
        "skyband.fused.kernels.guard",
        FUSED,
        (f"{FUSED_KERNELS} most", f"{FUSED_KERNELS} differ", "fused/test_fused_rows.py guard"),
    ),
    Target(
        "fused", "skyband.fused.kernels.sla", {"FusedTopK": ("sla",)}, (f"{FUSED_KERNELS} lists",)
    ),
    Target(
        "fused",
        "skyband.fused.eaa",
        {"FusedTopK": ("eaa",)},
        (
            "contract/test_counters.py eaa_",
            "fused/test_fused_dominance.py estimated[eaa]",
            "fused/test_fused.py once_ever[0-sum-eaa]",
            "fused/test_eaa_sweeps.py",
        ),
    ),
    Target(
        "skyline",
        "skyband.skyline.kernels.dominance",
        {**SKYLINE, "SkylineJoin": ("isj", "gsj")},
        (
            f"{SKYLINE_KERNELS} dominance",
            f"{SKYLINE_KERNELS} points",
            f"{SKYLINE_KERNELS} segments",
            f"{SKYLINE_KERNELS} skyline",
            f"{SKYLINE_KERNELS} comparisons",
            f"{SKYLINE_KERNELS} dominated",
        ),
    ),
    Target(
        "skyline",
        "skyband.skyline.kernels.stabsky",
        {"Skyline": ("stabsky",)},
        tuple(f"{SKYLINE_KERNELS} {word}" for word in ("stabsky", "rows")),
    ),
    Target(
        "skyline",
        "skyband.skyline.kernels.isj",
        {"SkylineJoin": ("isj", "lsj")},
        (
            "kernels/test_isj_kernels.py",
            "kernels/test_local_sky_kernels.py",
            "contract/test_counters.py prunes",
            "contract/test_counters.py lsj",
            "skyline/test_skyline_join.py partners",
            "skyline/test_skyline_join.py small_join",
        ),
    ),
    Target(
        "skyline",
        "skyband.skyline.stabsky",
        {"Skyline": ("stabsky",)},
        (
            "skyline/test_skyline.py groups",
            "engine/test_readers.py others_as_they_were[Skyline]",
        ),
    ),
    Target(
        "skyline",
        "skyband.skyline.graph",
        {"Skyline": ("stabsky",)},
        ("skyline/test_skyline.py groups", "engine/test_readers.py others_as_they_were[Skyline]"),
    ),
)

FAMILIES = tuple(dict.fromkeys(target.family for target in TARGETS))
