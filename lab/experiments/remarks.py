"""Words that follow from figures, so that another run says something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["moved", "saving", "span"]


def span(values: Sequence[float], form: str = ".0f") -> str:
    """The least and the greatest value, or the one value that they are.

    >>> span([4.2, 3.9]), span([1.0, 2.5, 2.0], ".1f")
    ('4', '1.0 to 2.5')
    """
    least, most = (format(value, form) for value in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"


def saving(saved: Mapping[str, float], noise: float) -> str:
    """What saves so much, in % by case; what is below the noise decides nothing.

    >>> saving({"a": 12.0, "b": 30.0}, 5)
    'saves 12 to 30 %'
    >>> saving({"a": 12.0, "b": 3.0}, 5)
    'saves up to 12 % (a) and nothing in 1 of 2 cases'
    >>> saving({"a": 2.0, "b": -3.0}, 5)
    'changes nothing beyond the noise of 5 points (-3 to 2 %)'
    >>> saving({"a": 12.0, "b": -9.0}, 5)
    'saves up to 12 % (a), but costs up to 9 % (b)'
    >>> saving({"a": -12.0}, 5)
    'costs 12 %'
    """
    low, high = min(saved, key=lambda n: saved[n]), max(saved, key=lambda n: saved[n])
    gains, costs, values = saved[high] > noise, saved[low] < -noise, list(saved.values())
    if not gains and not costs:
        return f"changes nothing beyond the noise of {noise:.0f} points ({span(values)} %)"
    most, least = f"{saved[high]:.0f} % ({high})", f"{-saved[low]:.0f} % ({low})"
    if gains and costs:
        return f"saves up to {most}, but costs up to {least}"
    none = sum(abs(value) <= noise for value in values)
    if none:
        told = f"saves up to {most}" if gains else f"costs up to {least}"
        return f"{told} and nothing in {none} of {len(saved)} cases"
    return f"saves {span(values)} %" if gains else f"costs {span([-v for v in values])} %"


def moved(first: float, last: float, form: str = ".2f", near: float = 0.0) -> str:
    """How a figure goes from one end to the other.

    >>> moved(1, 2), moved(2.0, 1.0), moved(1.0, 1.01, near=0.05)
    ('rises from 1.00 to 2.00', 'falls from 2.00 to 1.00', 'stays at 1.00 to 1.01')
    """
    if abs(last - first) <= near:
        return f"stays at {span([first, last], form)}"
    return f"{'rises' if last > first else 'falls'} from {first:{form}} to {last:{form}}"
