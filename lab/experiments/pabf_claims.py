"""The verdicts on the claims of the PABF paper; those of section 7.2 are in ``pabf_figures``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from lab.experiments.pabf_figures import (
    LETTERS,
    Found,
    judge_figures,
    median_of,
    spread_of,
)
from lab.experiments.pabf_paper import (
    CLAIMS,
    DELTAS,
    EPSILONS,
    PAPER,
    PAPER_DELTA,
    Printed,
)
from lab.experiments.pabf_runs import FILTERS, Quality, Run, Study
from lab.experiments.remarks import moved
from lab.experiments.verdicts import (
    SAME,
    SAME_TIME,
    TRUE,
    Verdict,
    Verdicts,
    about,
    at_least,
    at_most,
    below,
    between,
)

__all__ = ["judged", "papers_own", "pruned", "rescans"]


def judged(study: Study, found: Found) -> Verdicts:
    """A verdict on every claim."""
    verdicts = Verdicts("pabf", CLAIMS)
    _theory(verdicts, study, found)
    _filters(verdicts, found)
    _effect_of_epsilon(verdicts, found)
    _effect_of_delta(verdicts, found)
    _printed(verdicts, found)
    _skew_tables(verdicts, found)
    judge_figures(verdicts, study, found)
    return verdicts


def papers_own() -> list[Verdict]:
    """What section 7.1 says, judged by the figures that the paper itself prints in its tables."""
    quality = {
        name: {
            kind: [Quality(s, d, a, 1, 1, 1) for s, d, a in zip(*table[name], strict=True)]
            for kind, table in (("epsilon", PAPER), ("delta", PAPER_DELTA))
        }
        for name in PAPER
    }
    verdicts = Verdicts("pabf", CLAIMS)
    found = Found(quality, {}, {}, {}, {})
    for judge in (_effect_of_epsilon, _effect_of_delta, _skew_tables):
        judge(verdicts, found)
    return verdicts.so_far()


def _theory(verdicts: Verdicts, study: Study, found: Found) -> None:
    promise = {
        f"{name}, {kind} = {value:g}": each.within - (value if kind == "delta" else 0.99)
        for name, kinds in found.quality.items()
        for kind, values in (("epsilon", EPSILONS), ("delta", DELTAS))
        for value, each in zip(values, kinds[kind], strict=True)
    }
    worst = min(q.within for kinds in found.quality.values() for q in kinds["epsilon"])
    verdicts.judge(
        "promise", promise, at_least(0.0), unit="more than delta",
        why=f"The lowest share of (window, rank) pairs within epsilon is {worst:.6f}.",
    )  # fmt: skip
    kept = {
        name: runs["pabf"].candidates
        for name, runs in found.points(*found.sweeps)
    }  # fmt: skip
    limit = round(1 / study.usual.epsilon)
    waiting = float(np.median([r["pabf"].fresh for _, r in found.points(*found.sweeps)]))
    verdicts.judge(
        "nodes", kept, at_most(limit), unit="rows",
        why=f"""The bound counts nodes, which take one row per slide; k equal rows of a slide need k
        of them (errata). We count rows, of which a level may keep k = {study.usual.k}, and up to
        32 k more wait for a merge (here {waiting:,.0f}, median).""",
    )  # fmt: skip
    merged = {}
    for (k, epsilon), runs in found.falling.items():
        stats = runs["pabf"].stats
        formula = math.e * max(1.0, math.log(1 / (epsilon * k)))
        rows = stats["rows_in"] / runs["pabf"].case.slide * k  # the candidates of every slide
        merged[f"k = {k}, epsilon = {epsilon:g}"] = stats["rows_merged"] / rows / formula
    most = max(merged.values())
    verdicts.judge(
        "logarithmic", merged, at_most(1.0), unit="× the formula",
        why=f"""On falling scores a candidate is merged up to {most:.2f} times as often as the
        formula says.""",
    )  # fmt: skip


def _filters(verdicts: Verdicts, found: Found) -> None:
    keys = ("pruned-stationary", "pruned-time", "pruned-unknown")
    again = {}
    for key, (name, stream) in zip(keys, FILTERS.items(), strict=True):
        run = found.filters[name, stream]
        share = pruned(run)
        again[f"{name} on {stream}"] = rescans(run)
        verdicts.judge(
            key, {stream: share}, at_least(0.5), unit="of the rows that could be",
            why=f"""The filter `{name}` rescans {100 * rescans(run):.1f} % of the slides of {stream}
            and leaves {100 * (1 - share):.0f} % of what could be pruned.""",
        )  # fmt: skip
    worst = max(again, key=lambda name: again[name])
    verdicts.judge(
        "false-pruning", again, at_most(0.01),
        why=f"""{worst}: {100 * again[worst]:.1f} % of the slides were scanned again, for delta
        0.99. No row is lost by it.""",
    )  # fmt: skip


def pruned(run: Run) -> float:
    """Of the s - k rows of a slide that no window can show, the share that a filter pruned."""
    stats = run.stats
    panes = stats["filter_panes"]
    if not panes:
        return 0.0
    per_pane, k = run.case.slide, run.case.k
    used = panes - stats["filter_unfiltered"] - stats["filter_rescans"]
    survived = stats["filter_survivors"] / max(1, panes - stats["filter_unfiltered"])
    return float(used / panes * (per_pane - survived) / (per_pane - k))


def rescans(run: Run) -> float:
    """The share of the filtered slides that were scanned again."""
    tried = run.stats["filter_panes"] - run.stats["filter_unfiltered"]
    return float(run.stats["filter_rescans"] / max(1, tried))


def _effect_of_epsilon(verdicts: Verdicts, found: Found) -> None:
    series = {name: kinds["epsilon"] for name, kinds in found.quality.items()}
    speed = {name: each[-1].seconds / each[0].seconds for name, each in series.items()}
    kept = {name: each[-1].kept / each[0].kept for name, each in series.items()}
    verdicts.judge(
        "time-epsilon", speed, below(1.0, timed=True), unit="× from 0.01 % to 1 %",
        why=f"""Epsilon acts only when rows are merged: from 0.01 % to 1 % the rows kept change by a
        factor of {median_of(kept):.2f} (median; {min(kept.values()):.2f} at least,
        {max(kept.values()):.2f} at most).""",
    )  # fmt: skip
    late = {name: each[-1].seconds / each[-2].seconds for name, each in series.items()}
    verdicts.judge(
        "time-large-epsilon", late, SAME_TIME, unit="× from 0.5 % to 1 %",
        why=f"The factor is {max(late.values()):.2f} at most.",
    )  # fmt: skip
    deviation = {name: _rises([q.deviation for q in each]) for name, each in series.items()}
    verdicts.judge(
        "deviation-epsilon", deviation, TRUE,
        why=f"{_flat(series)} of {len(series)} streams have no deviation at any epsilon.",
    )  # fmt: skip
    small = {
        f"{name}, {100 * epsilon:g} %": each.deviation / (100 * epsilon)
        for name, row in series.items()
        for epsilon, each in zip(EPSILONS, row, strict=True)
    }
    worst = max(small, key=lambda name: small[name])
    verdicts.judge(
        "deviation-small", small, at_most(0.5), unit="× epsilon",
        why=f"""A level is epsilon wide, and any of its rows may be returned: {worst} has a mean
        deviation of {small[worst]:.2f} epsilon.""",
    )  # fmt: skip
    accuracy = {name: each[-1].accuracy / each[0].accuracy for name, each in series.items()}
    near = {name: each[-1].near for name, each in series.items()}
    least = min(near, key=lambda name: near[name])
    verdicts.judge(
        "accuracy-epsilon", accuracy, below(1.0), unit="× from 0.01 % to 1 %",
        why=f"""Rows can be mistaken for one another only within epsilon of the k-th best score. For
        {least} there are {near[least]:.1f} such rows at 1 %.""",
    )  # fmt: skip


def _effect_of_delta(verdicts: Verdicts, found: Found) -> None:
    series = {name: kinds["delta"] for name, kinds in found.quality.items()}
    why = """A slide that was pruned too much is scanned again. Between the deltas it differs by a
    factor of {:.2f} at most."""
    for what, bound in (("seconds", SAME_TIME), ("deviation", SAME), ("accuracy", SAME)):
        spread = {
            name: spread_of([float(getattr(q, what)) for q in each])
            for name, each in series.items()
        }
        key = f"{'time' if what == 'seconds' else what}-delta"
        verdicts.judge(
            key, spread, bound, unit="× between deltas", why=why.format(max(spread.values()))
        )


def _printed(verdicts: Verdicts, found: Found) -> None:
    """Each cell of Tables 2 and 3 that the paper prints, ours divided by the paper's."""
    cells: dict[str, dict[str, float]] = {"time": {}, "deviation": {}, "accuracy": {}}
    tables: Sequence[tuple[str, Mapping[str, Printed], Sequence[float]]] = (
        ("epsilon", PAPER, EPSILONS),
        ("delta", PAPER_DELTA, DELTAS),
    )
    for kind, table, values in tables:
        for name, (seconds, deviations, accuracies) in table.items():
            ours = found.quality[name][kind]
            for i, value in enumerate(values):
                cell = f"{name}, {kind} {value:g}"
                shown = ours[i].seconds / ours[2].seconds
                cells["time"][cell] = shown / (seconds[i] / seconds[2])
                cells["deviation"][cell] = ours[i].deviation / deviations[i]
                cells["accuracy"][cell] = ours[i].accuracy / accuracies[i]
    near = {n: kinds["epsilon"][2].near for n, kinds in found.quality.items()}
    few, many = min(near, key=lambda n: near[n]), max(near, key=lambda n: near[n])
    accuracy = {n: kinds["epsilon"][2].accuracy for n, kinds in found.quality.items()}
    why = f"""Only rows within epsilon of the k-th best can be mistaken. At 0.1 % they are
    {near[few]:,.1f} for {few} (accuracy {accuracy[few]:.1f} %) and {near[many]:,.0f} for {many}
    ({accuracy[many]:.1f} %); for the paper's streams they are not known."""
    falls = [100 * (1 - seconds[-1] / seconds[0]) for seconds, *_ in PAPER.values()]
    slowest = [kinds["epsilon"][-1].seconds / kinds["epsilon"][0].seconds
               for kinds in found.quality.values()]  # fmt: skip
    verdicts.judge(
        "tables-time", cells["time"], about(1.0, timed=True), unit="× the paper's",
        why=f"""The paper's times fall by {min(falls):.0f} to {max(falls):.0f} % from epsilon 0.01 %
        to 1 %; ours change by a factor of {min(slowest):.2f} to {max(slowest):.2f}.""",
    )  # fmt: skip
    verdicts.judge(
        "tables-deviation", cells["deviation"], about(1.0), unit="× the paper's", why=why
    )
    verdicts.judge("tables-accuracy", cells["accuracy"], about(1.0), unit="× the paper's", why=why)


def _skew_tables(verdicts: Verdicts, found: Found) -> None:
    def series(kind: str, of: Any) -> list[list[float]]:
        """Per epsilon, the values of the four letters."""
        rows = [found.quality[f"{kind}({letter})"]["epsilon"] for letter in LETTERS]
        return [[of(row[i]) for row in rows] for i in range(len(EPSILONS))]

    cases = [f"epsilon {100 * epsilon:g} %" for epsilon in EPSILONS]
    seconds = series("SKEW-I", lambda q: q.seconds)
    spread = dict(zip(cases, map(spread_of, seconds), strict=True))
    verdicts.judge(
        "skew1-time", spread, SAME_TIME, unit="× between a and d",
        why=f"The factor is {max(spread.values()):.2f} at most.",
    )  # fmt: skip
    deviation = series("SKEW-I", lambda q: q.deviation)
    spread = dict(zip(cases, map(spread_of, deviation), strict=True))
    near = series("SKEW-I", lambda q: q.near)[2]
    crowd = "From a to d, the number of rows within 0.1 % of the k-th best "
    crowd += f"{moved(near[0], near[-1], ',.0f')}."
    verdicts.judge(
        "skew1-deviation", spread, SAME, unit="× between a and d",
        why=crowd + f" Deviations at 1 % go from {deviation[-1][0]:.4f} to {deviation[-1][-1]:.4f}."
    )  # fmt: skip
    accuracy = series("SKEW-I", lambda q: q.accuracy)
    slowly = {case: row[-1] / row[0] for case, row in zip(cases, accuracy, strict=True)}
    verdicts.judge(
        "skew1-accuracy", slowly, between(1 / 1.5, 1.0), unit="× from a to d",
        why=crowd + f" At 0.1 % accuracy goes from {accuracy[2][0]:.1f} to {accuracy[2][-1]:.1f}.",
    )  # fmt: skip
    seconds = series("SKEW-II", lambda q: q.seconds)
    spread = dict(zip(cases, map(spread_of, seconds), strict=True))
    kept = [found.quality[f"SKEW-II({letter})"]["epsilon"][2].kept for letter in LETTERS]
    verdicts.judge(
        "skew2-table", spread, SAME_TIME, unit="× between a and d",
        why=f"""From a to d, where scores fall more and more steeply, the number of rows that PABF
        keeps {moved(kept[0], kept[-1], ",.0f")}.""",
    )  # fmt: skip


def _rises(values: Sequence[float]) -> bool:
    """Whether a series never falls, and ends above its start."""
    return all(a <= b for a, b in pairwise(values)) and values[-1] > values[0]


def _flat(series: Mapping[str, Sequence[Quality]]) -> int:
    return sum(all(q.deviation == 0 for q in each) for each in series.values())
