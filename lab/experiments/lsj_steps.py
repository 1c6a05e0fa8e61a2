"""What the steps of our own give: all layers in one call, shared pruning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.experiments.lsj_common import LARGE, Run
from lab.experiments.lsj_runs import (
    ALL,
    ISJ,
    LSJ,
    OURS,
    STEP_ISJ,
    WITNESS,
    Plan,
    Setting,
    Times,
    settled_share,
    timed,
)
from lab.experiments.remarks import saving, span

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
    settled: dict[str, float] = {}
    rows: list[list[Any]] = []
    windows = 10
    for how in ("correlated", "independent"):
        for size in sorted({run.size // 4, run.size, min(run.volume, LARGE)}):
            run.progress(f"our steps: {how}, {size}")
            setting = Setting.drawn(size, size // 10, distribution=how, windows=windows)
            times = found[f"{how} {size:,}"] = timed(setting, STEPS)
            settled[f"{how} {size:,}"] = settled_share(setting)
            own = [f"{1000 * times.own[plan] / windows:.3f}" for plan in STEPS]
            rows.append([how, size, *own, settled[f"{how} {size:,}"]])
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


def told(found: Mapping[str, Times], settled: Mapping[str, float], noise: float) -> list[str]:
    """What each step gives, in words."""

    def gains(plan: Plan, before: Plan) -> str:
        return saving({name: each.gain(plan, before) for name, each in found.items()}, noise)

    shared = {name: each.gain(WITNESS, ISJ) for name, each in found.items()}
    pays = [name for name, value in shared.items() if value > noise]
    ours = [name for name in pays if found[name].ratio(WITNESS, OURS) < 1]
    if not pays:
        verdict = "It pays nowhere here, so `isj` and `lsj` do without it."
    elif not ours:
        verdict = f"""It pays in {len(pays)} of {len(shared)} cases, and is slower than `gsj` in
            each of them, which prunes every row that another of its own key dominates; so `isj` and
            `lsj` stay as the paper has them."""
    else:
        verdict = f"""It pays in {len(pays)} of {len(shared)} cases, and is faster than `gsj` in
            {len(ours)} of them ({", ".join(ours)})."""
    return [
        f"All layers in one call: `isj` {gains(ISJ, STEP_ISJ)}; `lsj` {gains(LSJ, STEP_LSJ)}.",
        f"Pruning shared: `isj` {saving(shared, noise)}, with {span([*settled.values()])} % of the "
        f"rows settled. {verdict}",
    ]
