"""The options of files that workers read; needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skyband.data.csv_records import CsvForm
from skyband.errors import QueryError
from skyband.query.checks import one_of

FORMATS = ("parquet", "ipc", "csv", "json")
_ALIASES = {"arrow": "ipc", "feather": "ipc", "jsonl": "json", "ndjson": "json"}
EVERYTHING = {"maxFileAge": "10000d", "recursiveFileLookup": "true"}
"""By default a file seven days older than the newest, or in a subfolder, is silently left out."""
_LISTING = {
    name.lower(): name
    for name in (
        "pathGlobFilter", "modifiedBefore", "modifiedAfter", "latestFirst", "maxBytesPerTrigger",
        "cleanSource", "sourceArchiveDir", "maxCachedFiles", "fileNameOnly", *EVERYTHING,
    )
}  # fmt: skip
"""Options of Spark's file source that say which files are read, and when."""
_CSV = ("header", "sep", "delimiter", "quote", "escape", "nullvalue", "inferschema", "mode")


def format_of(text: str) -> str:
    """The name of a format; raises QueryError if workers do not read it."""
    name = _ALIASES.get(text.lower(), text.lower())
    one_of("format", name, FORMATS)
    return name


def read_options(settings: Mapping[str, Any], given: bool) -> tuple[dict[str, str], CsvForm]:
    """Options of the listing, and those of CSV; ``given`` tells whether there is a schema."""
    listing: dict[str, str] = {}
    csv: dict[str, str] = {}
    for name, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if name.lower() in _LISTING:
            listing[_LISTING[name.lower()]] = text
        elif name.lower() in _CSV:
            csv[name.lower()] = text
        else:
            known = ", ".join([*_CSV[:6], *_LISTING.values()])
            raise QueryError(
                f"files read by the workers have no option {name!r}; they have {known}. "
                'For others, read through Spark: reader="spark" in a job, or a DataFrame'
            )
    if csv.get("inferschema", "true").lower() != "true":
        raise QueryError("give schema= instead of the option inferSchema=false")
    # As with Spark: with a schema, the first line is a record unless header says otherwise.
    header = csv.get("header", str(not given)).lower() == "true"
    delimiter = csv.get("sep", csv.get("delimiter"))
    form = CsvForm(
        header,
        "\t" if delimiter == "\\t" else delimiter,
        csv.get("quote", '"'),
        csv.get("escape"),
        csv.get("nullvalue", ""),
    )
    return listing, form
