"""The verdicts on the claims of the paper on uncertain streams."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lab.experiments.seeds import Sample
from lab.experiments.uncertain_paper import CLAIMS, TABLE_2
from lab.experiments.uncertain_runs import OURS, PRINTED, Point
from lab.experiments.verdicts import (
    FACTOR,
    MUCH,
    SAME,
    TRUE,
    Bound,
    Verdicts,
    about,
    above,
    at_least,
    at_most,
)

__all__ = ["Found", "Pair", "Sweep", "exponent", "growth", "judged", "proof_bounds"]

Sweep = Mapping[str, Sequence[Point]]
"""Per algorithm label, one point for each value of k or W."""
SMALL = ("CCSQ", "SCSQ", PRINTED)
SLACK = 0.25
"""A bound on growth holds if our power is at most so much greater than that of the bound."""
LARGE = 100_000
"""What the paper says of large windows is judged from this size on."""


@dataclass(frozen=True)
class Pair:
    """The sweeps over k and over W of one stream and semantics."""

    stream: str
    kind: str
    by_k: Sweep
    by_size: Sweep

    def __str__(self) -> str:
        return f"{self.kind}, {self.stream}"

    def ends(self) -> Iterator[tuple[str, dict[str, Point]]]:
        """The points at the greatest k and in the greatest window."""
        for sweep in (self.by_k, self.by_size):
            at = {label: line[-1] for label, line in sweep.items()}
            yield f"{self}, k = {at['BS'].k}, W = {at['BS'].size:,}", at


@dataclass(frozen=True)
class Found:
    """All measurements of a study."""

    pairs: Sequence[Pair]
    figure_3: Mapping[str, Sequence[Sample]]
    figure_3_ks: Sequence[int]
    figure_3_rows: int
    radar: Mapping[str, bool]
    equal: Mapping[str, bool]
    worst: Mapping[str, float]
    """Rows kept by each synopsis in the worst order, as a share of the window."""


def judged(found: Found) -> Verdicts:
    """A verdict on every claim."""
    verdicts = Verdicts("uncertain", CLAIMS)
    wrong = [name for name, same in found.equal.items() if not same]
    verdicts.judge("radar", found.radar, TRUE, why=f"{len(found.radar)} semantics were asked.")
    verdicts.judge(
        "sufficient", found.equal, TRUE, why=f"{len(wrong)} of {len(found.equal)} answers differ."
    )
    least = min(found.worst, key=lambda name: found.worst[name])
    verdicts.judge(
        "worst-case", found.worst, at_least(1.0), unit="× W",
        why=f"{least} keeps {found.worst[least]:.3f} of the window.",
    )  # fmt: skip
    _lemmas(verdicts, found)
    _table_2(verdicts, found.pairs[0])
    _figure_3(verdicts, found)
    _space(verdicts, found)
    _time(verdicts, found)
    _alike(verdicts, found)
    return verdicts


# Lemmas -------------------------------------------------------------------------------------------


def proof_bounds(point: Point) -> tuple[float, float, float]:
    """What the proofs of Lemmas 4.2 and 4.4 allow: sets of CSQ, updates per row, sets of SCSQ."""
    h, size = point.largest, point.size
    return h + h * math.log(size / h), 2.0 * h, 8 * math.log2(size)


def _lemmas(verdicts: Verdicts, found: Found) -> None:
    sets, updates, segments = {}, {}, {}
    for pair in found.pairs:
        for sweep in (pair.by_k, pair.by_size):
            for point, segmental in zip(sweep["CSQ"], sweep["SCSQ"], strict=True):
                allowed = proof_bounds(point)
                name = f"{pair}, k = {point.k}, W = {point.size:,}"
                sets[name] = point.sets / allowed[0]
                updates[name] = point.updates / allowed[1]
                segments[name] = segmental.sets / allowed[2]
    for key, cases in (("sets", sets), ("updates", updates), ("segments", segments)):
        worst = max(cases, key=lambda name: cases[name])
        verdicts.judge(
            key, cases, at_most(1.0), unit="× the bound",
            why=f"""In {worst} it is {cases[worst]:.2f} times the bound. The proof is about expected
            values in a random order and takes H for the size of every compact set.""",
        )  # fmt: skip


# Table 2 ------------------------------------------------------------------------------------------


def exponent(values: Sequence[float], over: Sequence[int]) -> float:
    """The power of ``over`` with which values grow, by least squares on logarithms.

    >>> round(exponent([3.0, 12.0, 48.0], [1, 2, 4]), 6)
    2.0
    """
    x, y = np.log(over), np.log(np.maximum(values, 1e-12))
    return float(np.polyfit(x, y, 1)[0]) if len(over) > 1 else 0.0


def growth(pair: Pair, label: str, what: str) -> dict[str, tuple[float, float]]:
    """Our power and that of the bound's fastest term, over k and over W."""
    _, space_terms, _, time_terms = TABLE_2[label]
    terms = space_terms if what == "space" else time_terms
    found = {}
    for axis, points in (("k", pair.by_k[label]), ("W", pair.by_size[label])):
        over = [point.k if axis == "k" else point.size for point in points]
        ours = [point.space if what == "space" else point.micros for point in points]
        allowed = max(exponent([term(point) for point in points], over) for term in terms)
        found[axis] = exponent(ours, over), allowed
    return found


def _table_2(verdicts: Verdicts, pair: Pair) -> None:
    for label in TABLE_2:
        for what in ("space", "time"):
            found = growth(pair, label, what)
            line = pair.by_size[label]
            first, last = line[0], line[-1]
            verdicts.judge(
                f"{what}-{label}",
                {f"over {axis}": ours - allowed for axis, (ours, allowed) in found.items()},
                at_most(SLACK), unit="more in the power",
                why=f"""Over W, from {first.size:,} to {last.size:,} rows, the time goes from
                {first.micros:.2f} to {last.micros:.2f} µs per row, the space from
                {first.space / 1000:.1f} to {last.space / 1000:.1f} kB.""",
            )  # fmt: skip


# Figures ------------------------------------------------------------------------------------------


def _figure_3(verdicts: Verdicts, found: Found) -> None:
    share = {name: sizes[-1] / found.figure_3_rows for name, sizes in found.figure_3.items()}
    ks = found.figure_3_ks
    verdicts.judge(
        "small", share, at_most(0.01),
        why=f"At k = {ks[-1]} it has up to {100 * max(s.mean for s in share.values()):.2f} % of "
        "the rows.",
    )  # fmt: skip
    powers = {
        name: exponent([each.mean for each in sizes[1:]], ks[1:])
        for name, sizes in found.figure_3.items()
    }
    worst = max(powers, key=lambda name: abs(powers[name] - 1))
    verdicts.judge(
        "linear", powers, about(1.0),
        why=f"{worst} grows as k to the power of {powers[worst]:.2f}.",
    )  # fmt: skip


SPACE_BOUNDS: dict[str, Bound] = {
    "bs-k": SAME, "bs-largest": above(1.0), "csq-smaller": MUCH, "comparable": SAME,
    "smaller": MUCH, "orders": at_least(2.0),
}  # fmt: skip


def _space(verdicts: Verdicts, found: Found) -> None:
    measures = [space_of(pair) for pair in found.pairs]
    ends = [at for pair in found.pairs for _, at in pair.ends()]
    csq = [f"{at['CSQ'].space / 1000:,.0f} kB at k = {at['CSQ'].k}" for at in ends[:2]]
    lists = [at["CSQ"].sets * at["CSQ"].largest for at in ends[:2]]
    spread = [max(at[s].space for s in SMALL) / min(at[s].space for s in SMALL) for at in ends]
    larger = sum(at["CSQ"].space > at["BS"].space for at in ends)
    largest = max(at["BS"].size for at in ends)

    def orders(at: Mapping[str, Point]) -> str:
        return f"{math.log10(at['BS'].space / max(at[s].space for s in SMALL)):.1f}"

    waiting = max(at[PRINTED].retained / at["CCSQ"].retained for at in ends)
    why = {
        "bs-k": f"""The array r has k H entries: {4 * ends[0]["BS"].k * ends[0]["BS"].largest:,}
        bytes at k = {ends[0]["BS"].k}.""",
        "bs-largest": f"""CSQ keeps every compact set in full: {csq[0]} ({lists[0]:,} rows in its
        lists at most), {csq[1]} ({lists[1]:,}).""",
        "csq-smaller": f"""CSQ keeps every compact set in full: {csq[0]}, {csq[1]}. Its space
        exceeds BS's in {larger} of {len(ends)} settings.""",
        "comparable": f"""They differ by a factor of {max(spread):.2f} at most: the buffer of
        SCSQ-Buffer may hold kH rows ({waiting:.1f} times what CCSQ keeps in all).""",
        "smaller": f"They differ among each other by a factor of {max(spread):.2f} at most.",
        "orders": f"""At k = {ends[1]["BS"].k} they take {orders(ends[1])} orders less, at
        k = {ends[0]["BS"].k} {orders(ends[0])}, in windows of up to {largest:,} rows; the paper's
        largest has 1,000,000.""",
    }
    for key, bound in SPACE_BOUNDS.items():
        cases = {name: value for each in measures for name, value in each.get(key, {}).items()}
        unit = "orders" if key == "orders" else "×"
        if cases:
            verdicts.judge(key, cases, bound, unit=unit, why=why[key])
        else:
            verdicts.unmeasured(key, f"No window here has {LARGE:,} rows or more.")


def space_of(pair: Pair) -> dict[str, dict[str, float]]:
    """What section 6 says about space, in figures, by claim and case."""
    found: dict[str, dict[str, float]] = {
        "bs-k": {f"{pair}, over k": pair.by_k["BS"][-1].space / pair.by_k["BS"][0].space}
    }
    for name, at in pair.ends():
        space = {label: point.space for label, point in at.items()}
        small = [space[label] for label in SMALL]
        others = max(space[label] for label in ("CSQ", *SMALL))
        cases = {
            "bs-largest": space["BS"] / others,
            "comparable": max(small) / min(small),
            "smaller": min(space["BS"], space["CSQ"]) / max(small),
        }
        if at["BS"].size >= LARGE:
            cases["csq-smaller"] = space["BS"] / space["CSQ"]
            cases["orders"] = math.log10(space["BS"] / max(small))
        for key, value in cases.items():
            found.setdefault(key, {})[name] = value
    return found


def time_of(pair: Pair) -> dict[str, dict[str, float]]:
    """What section 6 says about time, in figures, by claim and case."""
    found: dict[str, dict[str, float]] = {"cubic": {}, "larger-window": {}}
    for name, at in pair.ends():
        micros = {label: point.micros for label, point in at.items()}
        cases = {
            "slowest": min(micros["CSQ"], micros["CCSQ"]) / micros["SCSQ"],
            "middle": micros["SCSQ"] / max(micros["BS"], micros[PRINTED]),
            "fastest": micros["BS"] / micros[PRINTED],
        }
        for key, value in cases.items():
            found.setdefault(key, {})[name] = value
    for label, line in pair.by_k.items():
        power = exponent([point.micros for point in line], [point.k for point in line])
        if label in ("CSQ", "CCSQ"):
            found["cubic"][f"{label}, {pair}"] = power
        elif label == "SCSQ":
            found["quadratic"] = {f"{label}, {pair}": power}
    for label, line in pair.by_size.items():
        if label != OURS:
            found["larger-window"][f"{label}, {pair}"] = line[-1].micros / line[0].micros
    return found


TIME_BOUNDS: dict[str, Bound] = {
    "slowest": above(1.0, timed=True), "cubic": about(3.0), "quadratic": about(2.0),
    "middle": above(1.0, timed=True), "fastest": above(1.0, timed=True),
    "larger-window": at_most(FACTOR, timed=True),
}  # fmt: skip


def _time(verdicts: Verdicts, found: Found) -> None:
    measures = [time_of(pair) for pair in found.pairs]
    pair = found.pairs[0]
    ks = [point.k for point in pair.by_k["CSQ"]]
    updates = exponent([point.updates for point in pair.by_k["CSQ"]], ks)
    sizes = exponent([point.largest for point in pair.by_k["CSQ"]], ks)
    at = dict(pair.ends())
    lines = [
        f"{name}: " + ", ".join(f"{label} {point.micros:.2f}" for label, point in each.items())
        for name, each in at.items()
    ]
    times = f"Microseconds per row: {'; '.join(lines)}."
    emptied = [each[PRINTED] for each in at.values()]
    buffer = ", ".join(
        f"every {point.rows / max(1, point.emptied):,.0f} rows (kH = {point.k * point.largest:,})"
        for point in emptied
    )
    batch = [f"{each[OURS].micros:.2f}" for each in at.values() if OURS in each]
    powers = f"""A row updates compact sets that grow in number as k to the power of {updates:.2f}
    and in size as k to the power of {sizes:.2f}; an update stops at the end of the set, and keeps
    at most k entries per row."""
    why = {
        "slowest": times, "cubic": powers, "quadratic": powers, "middle": times,
        "fastest": f"""{times} The buffer was emptied {buffer}. If it is emptied once per batch, as
        ours is, it takes {", ".join(batch) or "0"} µs.""",
        "larger-window": f"""{times} From the smallest to the largest window BS goes from
        {pair.by_size["BS"][0].micros:.2f} to {pair.by_size["BS"][-1].micros:.2f} µs.""",
    }  # fmt: skip
    for key, bound in TIME_BOUNDS.items():
        cases = {name: value for each in measures for name, value in each[key].items()}
        unit = "as a power of k" if key in ("cubic", "quadratic") else "×"
        verdicts.judge(key, cases, bound, unit=unit, why=why[key])
    best = {}
    for name, each in (end for other in found.pairs for end in other.ends()):
        rest = [point for label, point in each.items() if label not in (PRINTED, OURS)]
        best[f"space: {name}"] = each[PRINTED].space / min(point.space for point in rest)
        best[f"time: {name}"] = each[PRINTED].micros / min(point.micros for point in rest)
    verdicts.judge(
        "best-bounds", best, at_most(FACTOR, timed=True), unit="× the best of the others",
        why=f"{times} Its buffer of kH rows is part of its space.",
    )  # fmt: skip


def _alike(verdicts: Verdicts, found: Found) -> None:
    """Whether each claim is met or missed alike in real data, and for the other semantics."""
    bounds = SPACE_BOUNDS | TIME_BOUNDS
    met: dict[tuple[str, str], dict[str, bool]] = {}
    for pair in found.pairs:
        measures = space_of(pair) | time_of(pair)
        met[pair.stream, pair.kind] = {
            key: all(bounds[key].meets(value) is not False for value in cases.values())
            for key, cases in measures.items()
        }
    kinds = list(dict.fromkeys(pair.kind for pair in found.pairs))
    streams = list(dict.fromkeys(pair.stream for pair in found.pairs))
    first = met[streams[0], kinds[0]]
    if len(streams) > 1:
        real = met[streams[1], kinds[0]]
        differ = [key for key in first if first[key] != real[key]]
        verdicts.judge(
            "real", {key: key not in differ for key in first}, TRUE,
            why=f"{len(differ)} of {len(first)} claims come out otherwise than in synthetic data.",
        )  # fmt: skip
    else:
        verdicts.unmeasured("real", "SKYBAND_DATA is not set, so there are no icebergs.")
    stream = streams[-1]
    same = {
        f"{key}, {kind}": met[stream, kind][key] == met[stream, kinds[0]][key]
        for kind in kinds[1:]
        for key in first
    }
    odd = [name for name, equal in same.items() if not equal]
    verdicts.judge(
        "semantics", same, TRUE,
        why=f"{len(odd)} of {len(same)} come out otherwise than for {kinds[0]} ({stream}).",
    )  # fmt: skip
