"""One rule by which every claim of the five papers is judged, and the overview of all verdicts.

A paper's module lists its claims once, as ``CLAIMS``, and hands in what it measured for each:

>>> claims = [Claim("time", "7.2, Fig. 9", "PABF takes 40 % of MinTopK's time")]
>>> verdicts = Verdicts("pabf", claims)
>>> found = {"STOCK": 0.17, "TIME^R": 0.9}
>>> verdicts.judge("time", found, at_most(0.4, timed=True), why="TIME^R keeps 4,013 rows")
'holds in part'

``add_to`` puts the table of verdicts into a report and refuses if a claim has none, and ``save``
keeps them, so that ``overview`` can list what does not hold in all five papers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from inspect import cleandoc
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from lab.experiments.report import Report
from lab.experiments.seeds import Sample

__all__ = [
    "FOLDER", "MUCH", "MUCH_TIME", "PAPERS", "RULE", "SAME", "SAME_TIME", "TIMED", "TRUE", "Bound",
    "Claim", "Paper", "Verdict", "Verdicts", "about", "above", "at_least", "at_most", "below",
    "between", "claims", "overview",
]  # fmt: skip

HOLDS, WHERE_DECIDED = "holds", "holds where it could be decided"
PARTLY, FAILS = "holds in part", "does not hold"
UNDECIDED, UNMEASURED = "undecided", "not measured"
KINDS = (HOLDS, WHERE_DECIDED, PARTLY, FAILS, UNDECIDED, UNMEASURED)
TIMED = 0.15
"""The noise of a time or of a ratio of times, as a share of the bound."""
FACTOR = 1.5
"""Values that differ by a smaller factor are "comparable", "stable", "not affected"."""
NEAR = 0.25
"""What the paper calls "about x" is within this share of x."""


class Paper(NamedTuple):
    """What the overview says of a paper whatever was measured, and the picture that it shows."""

    name: str
    title: str
    about: str
    picture: str
    caption: str


PAPERS = {
    "pabf": Paper(
        "PABF",
        "Zhu et al., Approximate Continuous Top-k Query over Sliding Window",
        """PABF answers a top-k query with scores that may be off by ε. It filters each slide before
        it sorts it, and merges candidates whose scores are within ε of each other.""",
        "pabf-stock-n", "Seconds for 10 M trades as the window grows",
    ),
    "fsw": Paper(
        "FSW",
        "Homem and Carvalho, Finding Top-k Elements in a Time-Sliding Window",
        """FSW finds the most frequent items of a window with one list and one filter, both with a
        histogram over the panes. It replaces p sketches that are started in turn (p × FSS).""",
        "fsw-reuters-week", "Precision on a newswire, window by window",
    ),
    "uncertain": Paper(
        "Uncertain streams",
        "Jin et al., Sliding-Window Top-k Queries on Uncertain Streams",
        """Rows exist with a probability. Compact sets are the few rows that an answer can come
        from, and the queues CSQ, CCSQ, SCSQ and SCSQ-Buffer keep only these.""",
        "uncertain-synthetic-pk-topk-w-space", "Space as the window grows, Pk-topk",
    ),
    "fused": Paper(
        "Fused streams",
        "Continuous Top-k Queries over Non-Synchronized Streams",
        """Each stream reports one attribute of an object. EAA drops the objects that can no longer
        win; its approximation drops those that probably cannot.""",
        "fused_figure_5a", "Items kept as the window grows",
    ),
    "lsj": Paper(
        "LSJ",
        "Nagendra and Candan, Layered Processing of Skyline-Window-Join Queries",
        """The skyline of a join of two windows is found layer by layer (ISJ). LSJ keeps the local
        skylines of all layers from one window to the next.""",
        "lsj-volume-independent", "Time that LSJ saves of ISJ's as the window grows",
    ),
}  # fmt: skip
FOLDER = "verdicts"

RULE = f"""Every claim is turned into a bound, and is measured in one or more cases (a stream, a
window, a value of k), always on the paper's form of the algorithm. Our own variants and aims are
listed separately and never count. Where the paper gives a number, that number is the bound, and
"about x" means within {100 * NEAR:.0f} % of x. Words without a number have fixed bounds: "less" or
"faster" is a ratio below 1, "much" a factor of at least 2, and "comparable", "stable" or "not
affected" a factor of less than {FACTOR:g}. A case meets its bound or misses it, or decides nothing:
a time, or a ratio of times, that is within {100 * TIMED:.0f} % of its bound, because runs differ by
as much; or a mean over several seeds whose 95 % interval contains its bound. A claim **{HOLDS}** if
most of its cases decide and all of these meet the bound. It **{WHERE_DECIDED}** if these are half
of its cases or fewer; their number is stated. It **{PARTLY}** if some cases meet the bound and
others miss it, and **{FAILS}** if most cases decide and none meets it. Otherwise it is
**{UNDECIDED}**. Every claim that can be measured is listed, and whatever does not hold says why,
with a measurement."""


RULE_IN_SHORT = f"""A claim is turned into a bound and measured in one or more cases, on the paper's
form of the algorithm and on nothing else. A case too near its bound decides nothing: a time within
{100 * TIMED:.0f} % of it, or a mean over several seeds whose 95 % interval contains it. A claim
**{HOLDS}** only if most cases decide and all of these meet the bound. Each report has the rule in
full, all claims, and a separate list of our own aims."""


@dataclass(frozen=True)
class Claim:
    """One statement of a paper.

    The overview shows those that are ``main``. An aim of ours that no paper states has ``ours``.
    """

    key: str
    where: str
    says: str
    ours: bool = False
    main: bool = False


def claims(text: str) -> list[Claim]:
    """Claims as text: on each line the key, the section and the statement.

    A line that is indented more continues the one before it. An aim of ours has "ours" instead of
    a section, and "!" marks the main claims.

    >>> claims('''
    ...     time! | 7.2 | PABF takes 40 %
    ...         of MinTopK's time
    ...     memory | ours | it keeps less than our default
    ... ''')[0]
    Claim(key='time', where='7.2', says="PABF takes 40 % of MinTopK's time", ours=False, main=True)
    """
    lines = re.sub(r"\n +", " ", cleandoc(text)).splitlines()
    parts = [[part.strip() for part in line.split("|")] for line in lines]
    return [
        Claim(key.removesuffix("!"), where, says, where == "ours", key.endswith("!"))
        for key, where, says in parts
    ]


@dataclass(frozen=True)
class Bound:
    """The values that a claim allows.

    A value within ``noise`` of a limit decides nothing. If it is ``timed``, neither does one that
    differs from a limit by less than the noise of times.
    """

    low: float = -math.inf
    high: float = math.inf
    strict: bool = False
    timed: bool = False
    noise: float = 0.0

    def meets(self, value: float | Sample) -> bool | None:
        """Whether a value is allowed; None if it is too near to a limit to tell.

        The interval of a mean over several seeds takes the place of any other noise.

        >>> [at_most(1.0, timed=True).meets(value) for value in (0.8, 1.1, 1.2)]
        [True, None, False]
        >>> [at_most(1.0).meets(Sample(values)) for values in ((0.8, 0.81, 0.79), (0.8, 0.9, 1.0))]
        [True, None]
        """
        sample = Sample.of(value)
        value = sample.mean
        if math.isnan(value):
            return None
        for end in (self.low, self.high):
            noise = TIMED * abs(end) if self.timed else self.noise
            noise = sample.half if len(sample.values) > 1 else noise
            if math.isfinite(end) and abs(value - end) < noise:
                return None
        if self.strict:
            return self.low < value < self.high
        return self.low <= value <= self.high

    def text(self, unit: str) -> str:
        """Say it in words.

        >>> at_most(0.4).text("×"), above(2.0).text(""), between(20.0, 35.0).text("%")
        ('at most 0.4 ×', 'above 2', '20 to 35 %')
        """
        if (self.low, self.high) == (1, 1):
            return "true"
        less, more = ("below", "above") if self.strict else ("at most", "at least")
        if self.low == -math.inf:
            said = f"{less} {number(self.high)}"
        elif self.high == math.inf:
            said = f"{more} {number(self.low)}"
        else:
            said = f"{number(self.low)} to {number(self.high)}"
        return f"{said} {unit}".strip()


def at_most(limit: float, *, timed: bool = False, noise: float = 0.0) -> Bound:
    """All values up to a limit."""
    return Bound(high=limit, timed=timed, noise=noise)


def at_least(limit: float, *, timed: bool = False, noise: float = 0.0) -> Bound:
    """All values from a limit on."""
    return Bound(low=limit, timed=timed, noise=noise)


def below(limit: float, *, timed: bool = False, noise: float = 0.0) -> Bound:
    """All values below a limit."""
    return Bound(high=limit, strict=True, timed=timed, noise=noise)


def above(limit: float, *, timed: bool = False, noise: float = 0.0) -> Bound:
    """All values above a limit."""
    return Bound(low=limit, strict=True, timed=timed, noise=noise)


def between(low: float, high: float, *, timed: bool = False, noise: float = 0.0) -> Bound:
    """All values from one limit to the other."""
    return Bound(low, high, timed=timed, noise=noise)


def about(value: float, *, timed: bool = False, noise: float = 0.0) -> Bound:
    """Within a quarter of a number that the paper prints."""
    low, high = sorted((value * (1 - NEAR), value * (1 + NEAR)))
    return Bound(low, high, timed=timed, noise=noise)


MUCH, MUCH_TIME = at_least(2.0), at_least(2.0, timed=True)
SAME, SAME_TIME = between(1 / FACTOR, FACTOR), between(1 / FACTOR, FACTOR, timed=True)
"""The second of each pair is for times."""
TRUE = Bound(1, 1)
"""For what is either so or not: the cases are booleans."""


@dataclass(frozen=True)
class Verdict:
    """What was found for one claim, as text, ready to be shown and to be kept."""

    key: str
    where: str
    says: str
    ours: bool
    main: bool
    bound: str = ""
    measured: str = ""
    short: str = ""
    """What was measured, in a few words."""
    verdict: str = ""
    decided: str = ""
    """How many of the cases decided, if these were few."""
    why: str = ""
    apart: Mapping[str, str] = field(default_factory=dict)
    """What our own variants measured for the same bound."""

    @property
    def shown(self) -> str:
        """The verdict as a table shows it."""
        return _shown(self.verdict, self.decided)


def _shown(verdict: str, decided: str) -> str:
    return f"**{verdict}** ({decided})" if decided else f"**{verdict}**"


class Verdicts:
    """The verdicts on one paper's claims, every one of which must get one."""

    def __init__(self, paper: str, claims: Sequence[Claim]) -> None:
        self.paper = paper
        self.claims = {claim.key: claim for claim in claims}
        if len(self.claims) < len(claims):
            raise ValueError(f"two claims of {paper} have the same key")
        self._found: dict[str, Verdict] = {}

    def judge(
        self, key: str, cases: Mapping[str, float | Sample], bound: Bound, *, why: str,
        unit: str = "", apart: Mapping[str, float | Sample] | None = None,
    ) -> str:  # fmt: skip
        """Judge a claim by its cases; returns the verdict.

        ``why`` explains a result that differs, with a measurement of this run. It is required in
        any case, because another run may come out otherwise, and shown unless the claim holds.
        ``apart`` are values of our own variants; they are shown, and decide nothing.
        """
        if not re.search(r"\d", why):
            raise ValueError(f"{key}: the explanation has no measurement: {why!r}")
        if not cases:
            raise ValueError(f"{key}: no case was measured; use unmeasured()")
        values = {name: Sample.of(value) for name, value in cases.items()}
        met = {name: bound.meets(each) for name, each in values.items()}
        told = [each for each in met.values() if each is not None]
        most = 2 * len(told) > len(met)
        if told and all(told):
            verdict = HOLDS if most else WHERE_DECIDED
        elif any(told):
            verdict = PARTLY
        else:
            verdict = FAILS if most else UNDECIDED
        self._keep(
            key,
            bound=bound.text(unit),
            measured=_measured(values, met, unit, bound),
            short=_short(values, met, unit, bound),
            verdict=verdict,
            decided=f"{len(told)} of {len(met)}" if verdict == WHERE_DECIDED else "",
            why=" ".join(why.split()) if verdict in (PARTLY, FAILS) else "",
            apart={name: _with_unit(Sample.of(v), unit) for name, v in (apart or {}).items()},
        )
        return verdict

    def unmeasured(self, key: str, why: str) -> str:
        """Say why a claim was not measured in this run: missing data, too small a size."""
        self._keep(key, verdict=UNMEASURED, why=" ".join(why.split()))
        return UNMEASURED

    def _keep(self, key: str, **found: Any) -> None:
        if key not in self.claims:
            raise ValueError(f"{self.paper} lists no claim {key!r}")
        if key in self._found:
            raise ValueError(f"{key} was judged twice")
        claim = self.claims[key]
        self._found[key] = Verdict(key, claim.where, claim.says, claim.ours, claim.main, **found)

    def all(self) -> list[Verdict]:
        """All verdicts in the order of the claims; refuses if a claim has none."""
        missing = [key for key in self.claims if key not in self._found]
        if missing:
            raise ValueError(f"claims of {self.paper} without a verdict: {', '.join(missing)}")
        return self.so_far()

    def so_far(self) -> list[Verdict]:
        """The verdicts that there are."""
        return [self._found[key] for key in self.claims if key in self._found]

    def add_to(self, report: Report) -> None:
        """Add the rule, the table of verdicts, and the explanations."""
        found = self.all()
        report.heading("Verdicts")
        report.text(RULE)
        for ours, title in ((False, "The paper's claims:"), (True, "Aims of ours:")):
            listed = [each for each in found if each.ours is ours]
            if not listed:
                continue
            report.text(title)
            report.table(
                ["claim", "where", "bound", "measured", "verdict"],
                [[v.says, v.where, v.bound, v.measured, v.shown] for v in listed],
            )
        report.text("Why results differ:" if any(v.why for v in found) else "Nothing differs.")
        report.bullets([f"*{v.says}* ({v.where}): {v.verdict}. {v.why}" for v in found if v.why])
        apart = [(v, name, told) for v in found for name, told in v.apart.items()]
        if apart:
            report.text("Our own variants, measured by the same bounds; they decide nothing:")
            report.table(
                ["claim", "bound", "variant", "measured"],
                [[v.says, v.bound, name, told] for v, name, told in apart],
            )

    def save(self, out: Path) -> None:
        """Keep the verdicts in ``out``/verdicts, where ``overview`` finds them."""
        path = out / FOLDER / f"{self.paper}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        found = [asdict(each) for each in self.all()]
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def overview(out: Path) -> None:
    """Write ``README.md``, one page, from the verdicts that are kept in ``out``."""
    report = Report("Five papers, judged")
    report.text(
        """Skyband's algorithms come from five papers. `skyband reproduce --quick` runs their
        experiments again in a few minutes, judges every claim, and writes this page. Each report
        has all tables, and the [errata](errata.md) say what is wrong or unclear in the papers."""
    )
    kept = {paper: _kept(out, paper) for paper in PAPERS}
    rows: list[list[Any]] = []
    for paper in PAPERS:
        verdicts = [v["verdict"] for v in kept[paper] if not v["ours"]]
        counts = [verdicts.count(word) for word in KINDS]
        rows.append([_linked(out, paper), *(counts if verdicts else ["not judged", *[""] * 5])])
    report.table(["paper", *KINDS], rows)
    for paper, told in PAPERS.items():
        if kept[paper]:
            report.heading(told.title)
            report.text(told.about)
            report.picture(told.picture, told.caption)
            _main_claims(report, kept[paper])
            report.text(f"All claims: {_linked(out, paper, 'the report')}.")
    report.heading("How a claim is judged")
    report.text(RULE_IN_SHORT)
    report.write(out / "README.md")


def _linked(out: Path, paper: str, name: str = "") -> str:
    shown = name or PAPERS[paper].name
    return f"[{shown}]({paper}.md)" if (out / f"{paper}.md").exists() else shown


def _main_claims(report: Report, kept: Sequence[Mapping[str, Any]]) -> None:
    """The claims that the paper stands on; of those that do not hold, why."""
    main = [v for v in kept if v["main"]]
    report.table(
        ["claim", "bound", "measured", "verdict"],
        [[f"{v['says']} ({v['where']})", v["bound"], v["short"],
          _shown(v["verdict"], v["decided"])] for v in main],
    )  # fmt: skip
    report.bullets([f"*{v['says']}*: {v['why']}" for v in main if v["why"]])


def _kept(out: Path, paper: str) -> list[dict[str, Any]]:
    path = out / FOLDER / f"{paper}.json"
    if not path.exists():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _with_unit(value: Sample, unit: str) -> str:
    half = f" ± {number(value.half)}" if value.half else ""
    return f"{number(value.mean)}{half} {unit}".strip()


def _short(
    cases: Mapping[str, Sample], met: Mapping[str, bool | None], unit: str, bound: Bound
) -> str:
    """The median, and how many cases meet the bound."""
    count = sum(each is True for each in met.values())
    told = f"{count} of {len(cases)}" if len(cases) > 1 else ""
    if bound.text("") == "true":
        return told or ("yes" if count else "no")
    if not told:
        (value,) = cases.values()
        return _with_unit(value, unit)
    middle = number(median(each.mean for each in cases.values()))
    return f"{f'{middle} {unit}'.strip()} (median; {told} meet it)"


def _measured(
    cases: Mapping[str, Sample], met: Mapping[str, bool | None], unit: str, bound: Bound
) -> str:
    """The values of the cases: each if they are few, otherwise median and range."""
    total, count = len(cases), sum(each is True for each in met.values())
    if bound.text("") == "true":
        failed = [name for name, good in met.items() if not good]
        told = "yes" if not failed else f"in {count} of {total}; not in {_listed(failed)}"
        return told if count else "no"
    if total == 1:
        (value,) = cases.values()
        return _with_unit(value, unit)
    means = {name: each.mean for name, each in cases.items()}
    least, most = min(means, key=lambda n: means[n]), max(means, key=lambda n: means[n])
    told = (
        f"{number(means[least])} ({least}) to {number(means[most])} ({most}), median "
        f"{number(median(means.values()))} {unit}"
    ).strip()
    close = sum(each is None for each in met.values())
    near = f", {close} too near to tell" if close else ""
    return f"{told}; {count} of {total} meet it{near}"


def _listed(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def number(value: float) -> str:
    """A value to three digits.

    >>> number(1234.5), number(0.012345), number(17.0), number(float("nan"))
    ('1,234', '0.0123', '17', 'unknown')
    """
    if math.isnan(value):
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
