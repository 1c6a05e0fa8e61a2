"""The verdicts on the claims of the PABF paper; those of section 7.2 are in ``pabf_figures``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
from lab.experiments.pabf_runs import FILTERS, Quality, Study
from lab.experiments.remarks import moved
from lab.experiments.seeds import Sample
from lab.experiments.verdicts import (
    SAME,
    SAME_TIME,
    Verdict,
    Verdicts,
    about,
    above,
    at_least,
    at_most,
    below,
    between,
)

__all__ = ["judged", "papers_own"]


def judged(study: Study, found: Found) -> Verdicts:
    """A verdict on every claim."""
    verdicts = Verdicts("pabf", CLAIMS)
    _theory(verdicts, study, found)
    _filters(verdicts, found)
    _effect_of_epsilon(verdicts, found)
    _effect_of_delta(verdicts, found)
    for what in ("deviation", "accuracy"):
        verdicts.unmeasured(
            f"{what}-delta",
            """Delta cannot change an answer of ours: a slide of which too much was pruned is
            scanned again, so that every delta has the same answers.""",
        )
    _printed(verdicts, found)
    _skew_tables(verdicts, found)
    judge_figures(verdicts, study, found)
    return verdicts


def papers_own() -> list[Verdict]:
    """What section 7.1 says, judged by the figures that the paper itself prints in its tables."""
    quality = {
        name: {
            kind: [
                Quality(s, Sample.of(d), Sample.of(a), 1, 1, 1, 1)
                for s, d, a in zip(*table[name], strict=True)
            ]
            for kind, table in (("epsilon", PAPER), ("delta", PAPER_DELTA))
        }
        for name in PAPER
    }
    verdicts = Verdicts("pabf", CLAIMS)
    found = Found(quality, {}, {}, {}, {}, {})
    for judge in (_effect_of_epsilon, _effect_of_delta, _answers_by_delta, _skew_tables):
        judge(verdicts, found)
    return verdicts.so_far()


def _theory(verdicts: Verdicts, study: Study, found: Found) -> None:
    promise = {  # by epsilon only: delta changes no answer
        f"{name}, epsilon = {value:g}": each.within - 0.99
        for name, kinds in found.quality.items()
        for value, each in zip(EPSILONS, kinds["epsilon"], strict=True)
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
        verdicts.judge(
            key, {stream: run.pruned}, at_least(0.5), unit="of the rows that could be",
            why=f"""The filter `{name}` rescans {100 * run.rescans:.1f} % of the slides of {stream}
            and leaves {100 * (1 - run.pruned):.0f} % of what could be pruned.""",
        )  # fmt: skip
    again = {
        f"{name} on {FILTERS[name]}, delta {delta:g}": share / (1 - delta)
        for (name, delta), share in found.false_pruning.items()
    }
    worst = max(again, key=lambda name: again[name].mean)
    verdicts.judge(
        "false-pruning", again, at_most(1.0), unit="× (1 - delta)",
        why=f"""{worst}: {again[worst].mean:.1f} times as many slides as 1 - delta were scanned
        again. No row is lost by it.""",
    )  # fmt: skip


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
    deviation = {name: each[-1].deviation - each[0].deviation for name, each in series.items()}
    least = min(deviation, key=lambda name: deviation[name].mean)
    verdicts.judge(
        "deviation-epsilon", deviation, above(0.0), unit="% of the range from 0.01 % to 1 %",
        why=f"For {least} it changes by {deviation[least]:.4f} % of the range.",
    )  # fmt: skip
    small = {
        f"{name}, {100 * epsilon:g} %": each.deviation / (100 * epsilon)
        for name, row in series.items()
        for epsilon, each in zip(EPSILONS, row, strict=True)
    }
    worst = max(small, key=lambda name: small[name].mean)
    verdicts.judge(
        "deviation-small", small, at_most(0.5), unit="× epsilon",
        why=f"""A level is epsilon wide, and any of its rows may be returned: {worst} has a mean
        deviation of {small[worst].mean:.2f} epsilon.""",
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
    spread = {
        name: spread_of([q.seconds for q in each])
        for name, each in series.items()
        if all(q.filtered for q in each)
    }
    if not spread:
        verdicts.unmeasured("time-delta", "The slides are so small that none was filtered.")
        return
    again = [100 * q.rescans for each in series.values() for q in each]
    verdicts.judge(
        "time-delta", spread, SAME_TIME, unit="× between deltas",
        why=f"""A slide that was pruned too much is scanned again: {min(again):.1f} to
        {max(again):.1f} % of the slides. Between the deltas the time differs by a factor of
        {max(spread.values()):.2f} at most.""",
    )  # fmt: skip


def _answers_by_delta(verdicts: Verdicts, found: Found) -> None:
    """What the paper prints of deviation and accuracy; in our form delta changes no answer."""
    series = {name: kinds["delta"] for name, kinds in found.quality.items()}
    for what in ("deviation", "accuracy"):
        spread = {
            name: spread_of([getattr(q, what).mean for q in each]) for name, each in series.items()
        }
        verdicts.judge(
            f"{what}-delta", spread, SAME, unit="× between deltas",
            why=f"The factor is {max(spread.values()):.2f} at most.",
        )  # fmt: skip


def _printed(verdicts: Verdicts, found: Found) -> None:
    """Each cell of Tables 2 and 3 that the paper prints, ours divided by the paper's."""
    times: dict[str, float] = {}
    cells: dict[str, dict[str, Sample]] = {"deviation": {}, "accuracy": {}}
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
                times[cell] = shown / (seconds[i] / seconds[2])
                if kind == "epsilon":  # delta does not change our answers
                    cells["deviation"][cell] = ours[i].deviation / deviations[i]
                    cells["accuracy"][cell] = ours[i].accuracy / accuracies[i]
    near = {n: kinds["epsilon"][2].near for n, kinds in found.quality.items()}
    few, many = min(near, key=lambda n: near[n]), max(near, key=lambda n: near[n])
    accuracy = {n: kinds["epsilon"][2].accuracy.mean for n, kinds in found.quality.items()}
    why = f"""Only rows within epsilon of the k-th best can be mistaken. At 0.1 % they are
    {near[few]:,.1f} for {few} (accuracy {accuracy[few]:.1f} %) and {near[many]:,.0f} for {many}
    ({accuracy[many]:.1f} %); for the paper's streams they are not known."""
    falls = [100 * (1 - seconds[-1] / seconds[0]) for seconds, *_ in PAPER.values()]
    slowest = [kinds["epsilon"][-1].seconds / kinds["epsilon"][0].seconds
               for kinds in found.quality.values()]  # fmt: skip
    verdicts.judge(
        "tables-time", times, about(1.0, timed=True), unit="× the paper's",
        why=f"""The paper's times fall by {min(falls):.0f} to {max(falls):.0f} % from epsilon 0.01 %
        to 1 %; ours change by a factor of {min(slowest):.2f} to {max(slowest):.2f}.""",
    )  # fmt: skip
    verdicts.judge(
        "tables-deviation", cells["deviation"], about(1.0), unit="× the paper's", why=why
    )
    verdicts.judge("tables-accuracy", cells["accuracy"], about(1.0), unit="× the paper's", why=why)


def _skew_tables(verdicts: Verdicts, found: Found) -> None:
    def series(kind: str, of: Callable[[Quality], Any]) -> list[list[Any]]:
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
    deviation = [[q.deviation for q in row] for row in series("SKEW-I", lambda q: q)]
    grows = {
        case: row[-1] / row[0]
        for case, row in zip(cases, deviation, strict=True)
        if all(row[0].values)  # otherwise some seed has no deviation at all
    }
    near = series("SKEW-I", lambda q: q.near)[2]
    crowd = "From a to d, the number of rows within 0.1 % of the k-th best "
    crowd += f"{moved(near[0], near[-1], ',.0f')}."
    told = f"Deviations at 1 % go from {deviation[-1][0]:.4f} to {deviation[-1][-1]:.4f}."
    if grows:
        unit = "× from a to d"
        verdicts.judge("skew1-deviation", grows, SAME, unit=unit, why=f"{crowd} {told}")
    else:
        verdicts.unmeasured("skew1-deviation", f"Some seed of (a) has no deviation at all. {told}")
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
