"""The best k objects whose attributes arrive on separate streams."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from skyband.errors import QueryError
from skyband.query.base import RESERVED, Query
from skyband.query.checks import ColumnNames, column, columns, counts, flag, one_of
from skyband.window import CountWindow

REPEATS = ("sum", "max", "latest", "mean")
COMBINERS = ("sum", "mean", "min", "max", "product")
Combine = (
    Literal["sum", "mean", "min", "max", "product"]
    | Mapping[str, float]
    | Sequence[float]
    | Callable[[np.ndarray], np.ndarray]
)


@contextmanager
def _understood(name: str, wanted: str, given: object) -> Iterator[None]:
    """Turn Python's own errors about a value of the wrong type into a QueryError."""
    try:
        yield
    except QueryError:
        raise
    except (TypeError, ValueError, IndexError, KeyError, OverflowError):
        raise QueryError(f"{name} must be {wanted}; got {given!r}") from None


@dataclass(frozen=True, kw_only=True)
class FusedTopK(Query):
    """The best ``k`` objects by a score that combines one value per stream.

    Args:
        k: How many objects to return.
        id: Column that identifies an object.
        window: A window, such as ``TimeWindow("10 minutes", slide="1 minute")``.
        value: Column or expression with the value that a stream reports.
        streams: Names of the streams.
        stream: Column with the name of a row's stream; leave it out if each stream is a source.
        combine: How the values become a score: a name, weights per stream, or a function.
        bounds: Least and greatest possible value, for all streams or for each stream.
        by: Columns that split the stream into groups, each ranked separately.
        recurrences: Largest number of live reports of an object in a stream, or ``"estimate"``.
        returns: Whether a stream may report an object more than once.
        repeats: What several live reports count as: ``"sum"``, ``"max"``, ``"latest"``, ``"mean"``.
        parts: Whether to show the value from each stream, in a column named after the stream.

    If a stream has not reported an object, or its report has expired, the stream's lower bound is
    used. With ``repeats`` other than ``"sum"``, any number of live reports is allowed unless
    ``recurrences`` is more than 1.

    A function for ``combine`` must be monotone; it takes an array of shape (objects, streams) and
    returns one score per object.
    """

    kind: ClassVar[str] = "FusedTopK"
    settings: ClassVar[tuple[str, ...]] = ("returns", "repeats")
    kept_anyway: ClassVar[tuple[str, ...]] = ("returns",)

    k: int
    id: str
    value: str
    streams: ColumnNames
    stream: str | None = None
    combine: Combine = "sum"
    bounds: Any = (0.0, 1.0)
    time: str | Mapping[str, str] | None = None
    by: ColumnNames = ()
    recurrences: int | Literal["estimate"] = 1
    returns: bool = True
    repeats: Literal["sum", "max", "latest", "mean"] = "sum"
    parts: bool = False

    @property
    def extra_columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("score", *self.streams) if self.parts else ("score",)

    @classmethod
    def idle_options(cls, given: Mapping[str, Any]) -> tuple[str, ...]:
        # The guard refuses reports beyond a number of recurrences, which "estimate" does not set.
        free = given.get("repeats", "sum") != "sum" and given["recurrences"] == 1
        return ("guard",) if free or given["recurrences"] == "estimate" else ()

    @property
    def most_reports(self) -> int | None:
        """How many live reports of an object one stream may hold; None for any number."""
        if isinstance(self.recurrences, str) or (self.repeats != "sum" and self.recurrences == 1):
            return None
        return self.recurrences

    def answered_by(self, algorithm: str) -> bool:
        return algorithm != "eaa-repeats" or self.repeats in ("max", "latest")

    @property
    def variant(self) -> str:
        return f"with repeats={self.repeats!r}"

    @property
    def expressions(self) -> tuple[str, ...]:
        return (self.value,)

    def _validate(self) -> None:
        column("id", self.id)
        column("value", self.value)
        column("stream", self.stream, optional=True)
        object.__setattr__(self, "streams", columns("streams", self.streams))
        one_of("repeats", self.repeats, REPEATS)
        flag("parts", self.parts)
        taken = {*RESERVED, "score", self.id, *self.by} & {*self.streams}
        if self.parts and taken:
            raise QueryError(
                f"parts=True adds a column named after each stream, but an answer already has a "
                f"column {min(taken)!r}; give that stream another name"
            )
        if self.recurrences != "estimate":
            counts(self, "recurrences")
        with _understood("bounds", "a pair (low, high), or a pair per stream", self.bounds):
            pairs = self.pairs
        object.__setattr__(self, "bounds", self._plain_bounds(pairs))
        low_enough = all(low >= 0 for low, _ in pairs)
        if self.combine == "product" and not low_enough:
            raise QueryError(
                "combine='product' is monotone only if all lower bounds are >= 0; change bounds="
            )
        if self.repeats == "sum" and self.recurrences != 1 and not low_enough:
            raise QueryError("recurrences other than 1 need lower bounds >= 0; change bounds=")
        self._check_combine()

    def _check_combine(self) -> None:
        combine = self.combine
        if isinstance(combine, str):
            one_of("combine", combine, COMBINERS)
        elif not callable(combine):
            with _understood("combine", f"{', '.join(COMBINERS)}, weights or a function", combine):
                weights = self.weights
            if weights is None or any(not math.isfinite(w) or w < 0 for w in weights):
                raise QueryError(f"weights must be finite and not negative; got {combine!r}")
            by_name = isinstance(combine, Mapping)
            plain: Any = dict(zip(self.streams, weights, strict=True)) if by_name else weights
            object.__setattr__(self, "combine", plain)

    @property
    def weights(self) -> tuple[float, ...] | None:
        """Weights in the order of ``streams``; None if ``combine`` is a name or a function."""
        combine: Any = self.combine
        if isinstance(combine, str) or callable(combine):
            return None
        if isinstance(combine, Mapping):
            if set(combine) != set(self.streams):
                raise QueryError(
                    f"combine must have a weight for each of {self.streams}; got {set(combine)}"
                )
            return tuple(float(combine[name]) for name in self.streams)
        if len(combine) != len(self.streams):
            raise QueryError(f"combine has {len(combine)} weights for {len(self.streams)} streams")
        return tuple(float(weight) for weight in combine)

    def _plain_bounds(self, pairs: tuple[tuple[float, float], ...]) -> Any:
        """The bounds as they were given, but as tuples, so that equal queries compare equal."""
        if isinstance(self.bounds, Mapping):
            return dict(zip(self.streams, pairs, strict=True))
        alone = len(self.bounds) == 2 and not isinstance(self.bounds[0], Sequence)
        return pairs[0] if alone else pairs

    @property
    def pairs(self) -> tuple[tuple[float, float], ...]:
        """The bounds of each stream, in the order of ``streams``."""
        bounds = self.bounds
        if isinstance(bounds, Mapping):
            if set(bounds) != set(self.streams):
                raise QueryError(f"bounds must cover each of {self.streams}; got {set(bounds)}")
            found = [bounds[name] for name in self.streams]
        elif len(bounds) == 2 and not isinstance(bounds[0], Sequence):
            found = [bounds] * len(self.streams)
        else:
            found = list(bounds)
        if len(found) != len(self.streams):
            raise QueryError(f"bounds has {len(found)} pairs for {len(self.streams)} streams")
        pairs = tuple((float(low), float(high)) for low, high in found)
        for low, high in pairs:
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise QueryError(f"bounds must be finite pairs (low, high); got {(low, high)}")
        return pairs

    @property
    def key(self) -> tuple[str, ...]:
        return (self.id,)

    @property
    def sources(self) -> tuple[str, ...]:
        return () if isinstance(self.window, CountWindow) else tuple(self.streams)
