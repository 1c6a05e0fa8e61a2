"""The ``schema`` of a source, such as ``"ts timestamp, flow string, bytes bigint"``, as Arrow."""

from __future__ import annotations

import re

import pyarrow as pa

from skyband.errors import QueryError

_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_FIELD = re.compile(
    r"\s*(?:`([^`]+)`|([^\s`:,]+))\s*[\s:]\s*([a-z_]+)\s*(\([\d\s,]*\))?\s*", re.IGNORECASE
)


def arrow_schema(where: str, text: str) -> pa.Schema:
    """The Arrow schema of a list of columns and types, written as Spark writes them.

    >>> arrow_schema("[source]", "ts timestamp, flow string, bytes bigint").types
    [TimestampType(timestamp[us, tz=UTC]), DataType(string), DataType(int64)]
    """
    fields: list[tuple[str, pa.DataType]] = []
    at = 0
    while True:
        field = _FIELD.match(text, at)
        if field is None:
            raise QueryError(
                f"{where} schema cannot be read at {text[at : at + 30]!r}; write columns and "
                "types, for example 'ts timestamp, id string, score double'"
            )
        name = field[1] or field[2]
        fields.append((name, _type(where, name, field[3].lower(), field[4])))
        at = field.end()
        if at == len(text):
            break
        if text[at] != ",":
            raise QueryError(f"{where} schema needs a comma before {text[at : at + 30]!r}")
        at += 1
    names = [name for name, _ in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise QueryError(f"{where} schema names the column {twice!r} twice")
    return pa.schema(fields)


def _type(where: str, name: str, kind: str, size: str | None) -> pa.DataType:
    numbers = [int(each) for each in re.findall(r"\d+", size or "")]
    if kind in ("decimal", "dec", "numeric"):
        precision, scale = (*numbers, 10, 0)[:2] if not numbers else (*numbers, 0)[:2]
        if not 1 <= precision <= 38 or scale > precision:
            raise QueryError(f"{where} schema: {name} has type {kind}{size}, which does not exist")
        return pa.decimal128(precision, scale)
    if kind in ("varchar", "char") and len(numbers) == 1:
        return pa.string()
    if kind not in _TYPES or size is not None:
        known = ", ".join([*_TYPES, "decimal(p, s)"])
        raise QueryError(f"{where} schema: {name} has type {kind!r}; choose one of {known}")
    return _TYPES[kind]
