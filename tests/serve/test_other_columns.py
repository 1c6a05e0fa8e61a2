"""A job that is served again while its source has other columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from skyband.errors import EngineError, SchemaError
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.local.posts import Request
from skyband.serve.bodies import read_body
from support import served


@pytest.mark.parametrize("killed", [True, False])
def test_other_columns_are_refused_by_name(tmp_path: Path, killed: bool) -> None:
    """They stop the start with a sentence; columns may be added after a stop."""
    service = served.new_service(tmp_path)
    rows = read_body("json", served.ndjson(served.rows(0, 9)), service.schemas[""])
    service.inbox.submit(Request("", rows, rows.nbytes)).result(20)
    if killed:
        served.abandon(service)  # nothing is written any more
    else:
        service.close()
    schema = arrow_schema("[source]", served.SCHEMA)
    at = schema.get_field_index("bytes")
    other = schema.set(schema.get_field_index("flow"), pa.field("flow", pa.int64()))
    with pytest.raises((EngineError, SchemaError), match="'bytes'"):
        served.new_service(tmp_path, schema=schema.remove(at), on_bad="raise")
    with pytest.raises((EngineError, SchemaError), match=r"'flow' (had|of) type string"):
        served.new_service(tmp_path, schema=other, on_bad="raise")
    more = schema.append(pa.field("more", pa.string()))
    if killed:
        with pytest.raises(EngineError, match=r"\[source\].*'more' is missing.*be added"):
            served.new_service(tmp_path, schema=more, on_bad="raise")
    else:
        served.new_service(tmp_path, schema=more, on_bad="raise").close()
