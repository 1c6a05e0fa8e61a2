"""What the steps of our own give: all layers in one call, shared pruning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.experiments.lsj_common import FEW_WINDOWS, LARGE, Run
from lab.experiments.lsj_runs import (
    ALL,
    ISJ,
    LSJ,
    OURS,
    STEP_ISJ,
    WITNESS,
    Plan,
    Times,
    over_seeds,
    seeded,
    settled_share,
)
from lab.experiments.remarks import saving, span
from lab.experiments.seeds import Sample

__all__ = ["STEPS", "our_steps", "told"]

STEP_LSJ = Plan("lsj", ALL, "step")
STEPS = (STEP_ISJ, ISJ, WITNESS, STEP_LSJ, LSJ, OURS)
TITLES = (
    "isj layer by layer", "in one call", "pruning shared", "lsj layer by layer", "in one call",
    "gsj",
)  # fmt: skip


def our_steps(run: Run) -> None:
    """Measure each step against the form without it, and say what it gives."""
    found: dict[str, Times] = {}
    settled: dict[str, Sample] = {}
    rows: list[list[Any]] = []
    for how in ("correlated", "independent"):
        for size in sorted({run.size // 4, run.size, min(run.volume, LARGE)}):
            run.progress(f"our steps: {how}, {size}")
            name, windows = f"{how} {size:,}", 10 if size < LARGE else FEW_WINDOWS
            setting = (size, size // 10, 2, windows)
            times = found[name] = over_seeds(STEPS, *setting, distribution=how)
            settled[name] = Sample(tuple(map(settled_share, seeded(*setting, distribution=how))))
            own = [f"{times.millis(plan):.3f}" for plan in STEPS]
            rows.append([how, size, *own, f"{settled[name]:.0f}"])
    run.report.heading("What the steps of our own give")
    run.report.text(
        """Milliseconds of own time per window. *Layer by layer* is one call of a kernel per local
        skyline and per layer, with a new index of the rows by key in every layer. *In one call*
        runs all layers of a window, and thins its index from layer to layer. *Pruning shared* is a
        trial: a row that a result dominates together with the best corner of all its partners keeps
        that result as its witness, and is examined again only when a row of the witness leaves or
        the corner rises."""
    )
    names = ["distribution", "live rows", *TITLES, "rows settled by a witness %"]
    run.report.table(names, rows)
    run.report.bullets(told(found, settled, run.noise))


def told(found: Mapping[str, Times], settled: Mapping[str, Sample], noise: float) -> list[str]:
    """What each step gives, in words."""

    def gains(plan: Plan, before: Plan) -> str:
        gained = {name: each.gain(plan, before).mean for name, each in found.items()}
        return saving(gained, noise)

    shared = {name: each.gain(WITNESS, ISJ).mean for name, each in found.items()}
    pays = [name for name, value in shared.items() if value > noise]
    ours = [name for name in pays if found[name].ratio(WITNESS, OURS).mean < 1]
    if not pays:
        verdict = "It pays nowhere here, so `isj` and `lsj` do without it."
    elif not ours:
        verdict = f"""It pays in {len(pays)} of {len(shared)} cases, and is slower than `gsj` in
            each of them, which prunes every row that another of its own key dominates; so `isj` and
            `lsj` stay as the paper has them."""
    else:
        verdict = f"""It pays in {len(pays)} of {len(shared)} cases, and is faster than `gsj` in
            {len(ours)} of them ({", ".join(ours)})."""
    rows = span([each.mean for each in settled.values()])
    return [
        f"All layers in one call: `isj` {gains(ISJ, STEP_ISJ)}; `lsj` {gains(LSJ, STEP_LSJ)}.",
        f"Pruning shared: `isj` {saving(shared, noise)}, with {rows} % of the "
        f"rows settled. {verdict}",
    ]
