"""What can go wrong, and who has to act.

SkybandError            anything Skyband raises on purpose
├── QueryError          the query itself makes no sense; raised where it is written
├── SchemaError         the query does not fit the columns of this source
├── DataError           some rows are bad or late; nothing of their batch was applied
└── EngineError         this engine, state or machine cannot do what was asked

Every message says what was found, what was expected and what to do about it.
"""

from __future__ import annotations

__all__ = ["DataError", "EngineError", "QueryError", "SchemaError", "SkybandError"]


class SkybandError(Exception):
    """The root of everything Skyband raises on purpose."""


class QueryError(SkybandError, ValueError):
    """A query or window that makes no sense, found when it is constructed."""


class SchemaError(SkybandError, TypeError):
    """A source whose columns the query cannot be bound to."""


class DataError(SkybandError, ValueError):
    """Rows that cannot be used; the batch that held them was left out whole."""


class EngineError(SkybandError, RuntimeError):
    """An engine, a snapshot or a machine that cannot do what was asked."""
