"""Remarks on the runs of the FSW paper's experiments; every figure in them is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lab.experiments.fsw_paper import PAPER
from lab.experiments.fsw_runs import LABELS, Cells, Found, Moved, precision_of, work

__all__ = ["order_explains", "remarks"]


def remarks(found: Found, moved: Moved, crowding: dict[str, Cells]) -> list[str]:
    """What explains the claims that fail, and how our figures compare with the paper's."""
    notes = [*_order_notes(found, moved), *_dips(found), *_proofs(found), *_against_paper(found)]
    fsp = [
        (work(found[c]["fsp"], lists=lists) / work(found[c]["fsw-r"]), lists)
        for c in [case for case in found if not case.startswith("osdf")]
        for lists in (1, 2)
    ]
    twice, once = ([x for x, lists in fsp if lists == n] for n in (1, 2))
    notes.append(
        f"""FSP's operations over FSWr's on words: {_range(twice)} if all are counted in both of its
        lists, {_range(once)} if only hits are. Section 3 says that both lists are updated at a
        hit; Figure 2 has no such duplicate of inserts and removals, so the verdict counts hits
        twice and the others once."""
    )
    counters = {
        c: int(found[c]["fsw-r"].stats["counters"])
        for c in [case for case in found if case.startswith("osdf")]
    }
    notes += [
        f"""{c}: formula (16) with the m of the paper's text gives {value:,} counters for FSWr; its
        table prints {PAPER["day" if c == "osdf-day" else "3 days"]["fsw-r"][3]:,}."""
        for c, value in counters.items()
    ]
    crowded = {c: each.cells / each.capacity for c, each in crowding.items()}
    notes.append(
        "Cells per item of the list, and items in the fullest cell: "
        + "; ".join(f"{c} {crowded[c]:.1f}, {crowding[c].fullest}" for c in crowding)
        + ". `skyband.frequency.many_groups` turns E(D_max) into a number of cells."
    )
    return notes


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f} times" if values else "not tried"


def _order_notes(found: Found, moved: Moved) -> list[str]:
    """How much of the gap to FSS, or to FSP, is left when the rows change places."""
    notes = []
    for case, runs in moved.items():
        better, worse = ("fsp", "fsw-f") if case.startswith("osdf") else ("fss", "fsw-r")
        if better not in runs or worse not in runs:
            continue
        gap = precision_of(found, case, better) - precision_of(found, case, worse)
        left = runs[better] - runs[worse]
        if gap <= 0.001 or math.isnan(left.mean):
            continue
        notes.append(
            f"""{case}: {LABELS[worse]} is {100 * gap:.1f} points behind {LABELS[better]} in the
            order of the data and {left * 100:.1f} points with the rows shuffled, so
            {order_explains(gap, left.mean)}."""
        )
    return notes


def order_explains(gap: float, left: float) -> str:
    """What a gap and what is left of it in another order say about the order."""
    if left <= 0:
        return "the order explains all of the gap"
    if left >= gap:
        return "the order does not explain the gap"
    return f"the order explains {100 * (1 - left / gap):.0f} % of the gap"


def _dips(found: Found) -> list[str]:
    """What distinguishes the windows in which a sketch is least precise."""
    notes = []
    for case, name in (("folha-month", "fsw-r"), ("osdf-day", "fsw-f"), ("osdf-day", "fsw-r")):
        each: Any = found.get(case, {}).get(name)
        if each is None or len(each.precision) < 10:
            continue
        precision, unsure = np.array(each.precision), np.array(each.unsure)
        worst = precision <= np.quantile(precision, 0.1)
        rest = ~worst if (~worst).any() else worst
        notes.append(
            f"""{case}, {LABELS[name]}: in the worst tenth of the windows precision is
            {100 * precision[worst].mean():.1f} % and the bound on what is left out is
            {unsure[worst].mean():.2f} times the true 500th count; in the others
            {100 * precision[rest].mean():.1f} % and {unsure[rest].mean():.2f} times."""
        )
    return notes


def _proofs(found: Found) -> list[str]:
    names = [n for n in LABELS if n != "exact"]
    shown = []
    for name in names:
        shares = [100 * runs[name].proven for runs in found.values() if name in runs]
        shown.append(f"{LABELS[name]} {min(shares):.0f} to {max(shares):.0f} %")
    return [f"Rows whose place is proven (`proof=True`), by case: {', '.join(shown)}."]


def _against_paper(found: Found) -> list[str]:
    """Precision beside the paper's."""
    notes = []
    for name in LABELS:
        differences = {
            case: 100 * precision_of(found, case, name) - theirs[name][0]
            for case in found
            if name in (theirs := PAPER[_table_of(case)]) and found[case]["exact"].precision
        }
        if differences:
            shown = ", ".join(f"{case} {value:+.1f}" for case, value in differences.items())
            notes.append(f"{LABELS[name]}, points of precision above the paper's: {shown}.")
    return notes


def _table_of(case: str) -> str:
    return {"osdf-day": "day", "osdf-3-days": "3 days"}.get(case, case.split("-")[1])
