"""Queries of a board on Spark whose state lies under one key.

Queries that differ only in k and window are a *family*: their rows are summarised once, between the
cuts of all their windows, and what is stored of a pane is stored once for those that keep one
state. The key of the state begins with the label of the family. It follows from what its queries
have in common, and not from which of them are there: so queries may be added and removed while the
checkpoint is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from skyband.contract.synopsis import Synopsis
from skyband.data.group_table import GroupTable
from skyband.engine.intake import Intake
from skyband.engine.one_pass import OnePass
from skyband.engine.united_session import UnitedSession
from skyband.engine.who_shares import sharing_key, unions
from skyband.spark.plan import Plan

__all__ = ["FamilyPlan", "families_of", "label_of"]


def label_of(plan: Plan) -> str | None:
    """The label of a query's family; None for a query that shares with no other.

    A query whose windows leave gaps has rows that it does not use, so it shares with no other.
    """
    key = sharing_key(plan.query)
    if key is None or plan.window.panes.gaps:
        return None
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    return f"{plan.query.kind} family {digest}"


def families_of(plans: Mapping[str, Plan]) -> dict[str, FamilyPlan]:
    """The families of a board by label; a query that has no other like it is a family, too."""
    found: dict[str, dict[str, Plan]] = {}
    for name, plan in plans.items():
        label = label_of(plan)
        if label is not None:
            found.setdefault(label, {})[name] = plan
    return {label: FamilyPlan(own) for label, own in found.items()}


@dataclass(frozen=True)
class FamilyPlan:
    """The plans of queries that differ only in k and window."""

    plans: Mapping[str, Plan]

    @property
    def first(self) -> Plan:
        return next(iter(self.plans.values()))

    @property
    def schema(self) -> pa.Schema:
        """The needed columns, which are the same for all."""
        return self.first.schemas[""]

    @cached_property
    def one_pass(self) -> OnePass:
        """What summarises rows for all queries."""
        return OnePass([plan.query for plan in self.plans.values()])

    def intake(self) -> Intake:
        """A reader of rows; which rows are bad is the same for all.

        Only times that every query can hold are good. They differ by the length of a window at the
        end of the year 9999, and where integers end.
        """
        first, *others = [plan.intake() for plan in self.plans.values()]
        for each in others:
            assert first.limits is not None
            assert each.limits is not None
            first.limits = first.limits.within(each.limits)
        return first

    @property
    def summariser(self) -> Synopsis[Any]:
        return self.one_pass.summariser(self.schema, late=self.first.streaming)

    def groups(self) -> GroupTable:
        return self.first.groups()

    def unions(self) -> list[list[str]]:
        """The names of queries that keep one state, and of each that keeps its own."""
        queries = {name: plan.query for name, plan in self.plans.items()}
        found = unions(queries, list(queries))
        together = {name for names in found for name in names}
        return found + [[name] for name in queries if name not in together]

    def of(self, names: list[str]) -> FamilyPlan:
        """Only some of the queries."""
        return FamilyPlan({name: self.plans[name] for name in names})

    def session(self) -> UnitedSession:
        """A session that has taken nothing yet."""
        return UnitedSession({name: plan.session() for name, plan in self.plans.items()})
