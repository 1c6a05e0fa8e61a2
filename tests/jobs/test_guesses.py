"""What ``skyband init`` guesses: would a person agree?"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.jobs import problems_of
from skyband.jobs.draft import draft, look_at

TEXT, TIME = pa.dictionary(pa.int32(), pa.string()), pa.timestamp("ms", tz="UTC")
INT, FLOAT, BOOL = pa.int32(), pa.float32(), pa.bool_()


@dataclass(frozen=True)
class Case:
    """Columns of a data set, and which choices a person would agree with; None: none at all."""

    columns: Mapping[str, tuple[Any, ...]]
    """Type, number of different values, and the share of nulls, of each column."""
    time: str | None
    items: Set[str]
    scores: Set[str | None]
    ids: Set[str | None]


FIRE = {
    "lat": (FLOAT, 900),
    "lon": (FLOAT, 900),
    "brightness_k": (FLOAT, 80),
    "frp_mw": (FLOAT, 90),
}
POWER = {"brightness_k", "frp_mw"}
CASES = {
    "us_equity_trades": Case(
        {"ts": (TIME, 500), "symbol": (TEXT, 4), "price": (FLOAT, 160), "volume": (INT, 600)}
        | {"exchange": (TEXT, 13), "sale_condition": (TEXT, 15), "suspicious": (BOOL, 1)},
        "ts", {"symbol"}, {"volume"}, {"symbol"},
    ),
    "osdf_access_log": Case(
        {"ts": (TIME, 999), "client_id": (INT, 90, 0.48), "site": (TEXT, 21)}
        | {"dataset": (TEXT, 110), "object_id": (INT, 360), "bytes_read": (pa.int64(), 379)}
        | {"op_time_s": (INT, 139), "pelican_client": (BOOL, 2), "agent": (TEXT, 9, 0.5)},
        "ts", {"object_id", "site", "dataset"}, {"bytes_read"}, {"object_id"},
    ),
    "kdd99_connections": Case(
        {"seq": (INT, 1000), "duration_s": (INT, 40), "protocol": (TEXT, 3), "service": (TEXT, 11)}
        | {"flag": (TEXT, 5), "src_bytes": (INT, 832), "dst_bytes": (INT, 900)}
        | {"count_2s": (pa.int16(), 110), "srv_count_2s": (pa.int16(), 115)}
        | {"dst_host_count": (pa.int16(), 255), "serror_rate": (FLOAT, 20), "label": (TEXT, 6)},
        None, {"service", "label"}, {"src_bytes", "dst_bytes"}, {None, "service"},
    ),
    "reuters21578_words": Case(
        {"ts": (TIME, 79), "doc_id": (INT, 79), "pos": (pa.int16(), 700), "word": (TEXT, 900)}
        | {"topic": (TEXT, 14, 0.51)},
        "ts", {"word"}, {None}, {None, "word"},
    ),
    "folha_words_pt": Case(
        {"date": (pa.date32(), 1), "section": (TEXT, 1), "pos": (INT, 1000), "word": (TEXT, 900)}
        | {"tag": (TEXT, 40)},
        "date", {"word"}, {None}, {None, "word"},
    ),
    "berkeley_rooms_minute": Case(
        {"ts": (TIME, 234), "room": (pa.int16(), 43), "co2_ppm": (FLOAT, 900)}
        | {"humidity_pct": (FLOAT, 900), "light": (FLOAT, 900), "pir": (FLOAT, 190)}
        | {"temperature_c": (FLOAT, 900)},
        "ts", {"room"}, {"co2_ppm", "temperature_c"}, {"room"},
    ),
    "beijing_air_hourly": Case(
        {"ts": (TIME, 834), "station": (TEXT, 12), "pm25": (FLOAT, 445, 0.01)}
        | {"pm10": (FLOAT, 510, 0.01), "co": (FLOAT, 85, 0.06), "temp_c": (FLOAT, 273)}
        | {"rain_mm": (FLOAT, 27), "wind_dir": (TEXT, 16), "wind_mps": (FLOAT, 95)},
        "ts", {"station"}, {"pm25", "pm10"}, {"station"},
    ),
    "iip_icebergs_2014_2021": Case(
        {"ts": (TIME, 500), "season": (pa.int16(), 1), "berg_number": (INT, 460)}
        | {"lat": (pa.float64(), 500), "lon": (pa.float64(), 500), "method": (TEXT, 5)}
        | {"size": (TEXT, 8), "shape": (TEXT, 9), "source": (TEXT, 29)},
        "ts", {"berg_number", "source"}, {None}, {None, "berg_number"},
    ),
    "fires_modis_na2026": Case(
        {"ts": (TIME, 900), "first_seen": (TIME, 204)} | FIRE
        | {"confidence": (pa.int8(), 99), "satellite": (TEXT, 2), "day": (BOOL, 2)},
        "ts", {"satellite"}, POWER, {None, "satellite"},
    ),
    "fires_viirs_na2026": Case(
        {"ts": (TIME, 900), "first_seen": (TIME, 204)} | FIRE
        | {"confidence": (TEXT, 3), "satellite": (TEXT, 2), "day": (BOOL, 2)},
        "ts", {"satellite"}, POWER, {None, "satellite"},
    ),
    "fires_modis_australia2019": Case(
        {"ts": (TIME, 572)} | FIRE | {"confidence": (pa.int8(), 100), "satellite": (TEXT, 2)}
        | {"day": (BOOL, 2), "type": (pa.int8(), 3)},
        "ts", {"satellite"}, POWER, {None, "satellite"},
    ),
}  # fmt: skip


def made(case: Case, rows: int = 1_000) -> pa.Table:
    """A small table with the names, types, different values and nulls of a data set."""
    arrays = {}
    for name, (kind, values, *nulls) in case.columns.items():
        number = np.arange(rows) % values
        number = np.sort(number) if kind in (TIME, pa.date32()) else number
        base = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        column = pa.array(number, base)
        if kind == TEXT:
            column = pa.array([f"{name}-{each}" for each in number])
        empty = pa.array(np.arange(rows) < rows * (nulls[0] if nulls else 0))
        column = column.cast(kind, safe=False) if kind != TEXT else column.dictionary_encode()
        arrays[name] = pa.compute.if_else(empty, pa.scalar(None, column.type), column)
    return pa.table(arrays)


def asked(path: Path, folder: Path) -> tuple[Any, Any, Any, Any, str]:
    """The time, item, score and id of a draft, which must be a job that can run; and its text."""
    job = folder / "job.toml"
    job.write_text(draft(look_at(str(path)), "first"))
    assert problems_of(job) == []
    queries = tomllib.loads(job.read_text())["queries"]
    best, frequent = queries.get("best", {}), queries["frequent"]
    assert not best or best.get("time") == frequent.get("time")
    time, item = frequent.get("time"), frequent["item"]
    return time, item, best.get("score"), best.get("id"), job.read_text()


def disagreements(case: Case, path: Path, folder: Path) -> Iterator[str]:
    time, item, score, id_, _ = asked(path, folder)
    if time != case.time:
        yield f"time {time}"
    if item not in case.items:
        yield f"item {item}"
    if score not in case.scores:
        yield f"score {score}"
    if score is not None and id_ not in case.ids:
        yield f"id {id_}"


@pytest.mark.parametrize("name", CASES)
def test_columns_of_real_sets(tmp_path: Path, name: str) -> None:
    pq.write_table(made(CASES[name]), tmp_path / "rows.parquet")
    assert list(disagreements(CASES[name], tmp_path / "rows.parquet", tmp_path)) == []


@pytest.mark.skipif("SKYBAND_DATA" not in os.environ, reason="SKYBAND_DATA is not set")
def test_the_real_sets(tmp_path: Path) -> None:
    folder = Path(os.environ["SKYBAND_DATA"])
    found = {n: list(disagreements(c, folder / f"{n}.parquet", tmp_path)) for n, c in CASES.items()}
    assert sum(not each for each in found.values()) >= 9, found


def test_never_an_id_that_is_mostly_null(tmp_path: Path) -> None:
    """Not even if it is the only one; the comments say why."""
    case = Case(
        {"ts": (TIME, 9), "user_id": (INT, 9, 0.6), "bytes": (INT, 99)}, "ts", set(), set(), set()
    )
    pq.write_table(made(case), tmp_path / "rows.parquet")
    _, item, score, id_, text = asked(tmp_path / "rows.parquet", tmp_path)
    assert (item, score, id_) == ("bytes", "bytes", None)
    assert "# user_id was left out: 60 % of its values are null" in text


def test_a_column_where_every_row_has_its_own_value(tmp_path: Path) -> None:
    """It tells rows apart, but nothing in it is frequent."""
    case = Case(
        {"id": (INT, 1000), "user": (INT, 50), "bytes": (INT, 99)}, None, set(), set(), set()
    )
    pq.write_table(made(case), tmp_path / "rows.parquet")
    _, item, score, id_, text = asked(tmp_path / "rows.parquet", tmp_path)
    assert (item, score, id_) == ("user", "bytes", "id")
    text = re.sub(" +", " ", text)
    assert 'score = "bytes" # its name says that it is a measure' in text
    assert 'id = "id" # its name says what a row is about; every row has its own' in text
    assert 'item = "user" # its name says what a row is about; 50 values in 1,000 rows' in text


def test_names_in_other_spellings(tmp_path: Path) -> None:
    case = Case(
        {"eventTime": (TIME, 9), "userName": (TEXT, 9), "Total-Price": (FLOAT, 99)},
        None,
        set(),
        set(),
        set(),
    )
    pq.write_table(made(case), tmp_path / "rows.parquet")
    assert asked(tmp_path / "rows.parquet", tmp_path)[:4] == (
        "eventTime",
        "userName",
        "Total-Price",
        "userName",
    )
