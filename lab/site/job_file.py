"""The reference of job files, made from the keys that the reader of job files checks.

``python -m lab.site.job_file`` writes its two pages to ``docs/reference``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path

from skyband.jobs import allowed_keys as keys
from skyband.jobs.allowed_keys import KeyTypes
from skyband.query import KINDS, Query
from skyband.query.base import parameters_of

__all__ = ["MEANINGS", "PAGES", "job_file_page", "job_queries_page"]

_TYPES = {str: "text", int: "whole number", bool: "true or false", dict: "table", list: "list"}

MEANINGS = {
    "ahead": "how far ahead of this machine's clock a row may be, such as `1 day`, or `none`",
    "avro_schema": "file with the Avro schema of the messages",
    "changes": "write rows that entered, left or moved instead of answers; in a sink, which kinds",
    "checkpoint": "folder for the state of the job; it is created if it does not exist",
    "close": "with `once`: also answer the windows that are still open at the end",
    "columns": "names of columns, each with the expression that computes it",
    "current": "keep only the newest window in the table",
    "dead_letters": "where bad records are written",
    "dsn": "connection string of PostgreSQL",
    "dsn_env": "environment variable with the connection string, so that the file has no password",
    "engine": "`local` or `spark`",
    "every": "how often a batch is read, such as `10 seconds`",
    "delimiter": "what separates the fields of CSV, such as `;`",
    "files_per_batch": "how many files a batch reads",
    "format": "format of the files or messages; by default from the file extension",
    "headers": "HTTP headers to send",
    "history": "how many windows of each query the board keeps",
    "host": "address to connect to or listen on",
    "key": "column that is the key of each message",
    "late": '`"count"` late rows, or write them to the dead letters as `"letters"`',
    "master": "Spark's master",
    "metrics": "serves metrics for Prometheus",
    "name": "name of the job, part of every key that it writes",
    "on_bad": '`"raise"` or `"skip"`: stop at bad rows, or count them and continue',
    "once": "read all there is, then stop",
    "options": "settings that are passed on unchanged",
    "path": "file, folder or glob; relative to the folder of the job file",
    "port": "port number",
    "queries": "several queries over one read: `[queries.NAME]`",
    "query": "one query: its `kind` and its fields",
    "reader": '`"spark"` reads with Spark instead of with pyarrow in the workers',
    "retries": "how often a message is sent again",
    "rows": "the most rows to print per batch",
    "rows_per_batch": "how many rows a batch takes",
    "rows_per_second": "how many rows are generated per second",
    "schema": "columns and types of the records, such as `ts timestamp, bytes long`",
    "serve": "settings of the board in a browser",
    "servers": "addresses of the Kafka brokers",
    "shards": "number of parts into which the state is split on Spark",
    "sink": "where answers go, for queries without a sink of their own",
    "source": "what is read",
    "sources": "several streams: `[sources.NAME]`",
    "spark": "Spark settings",
    "starting": "where to start without a checkpoint: `earliest` or `latest`",
    "storage": "settings of the file system",
    "table": "name of the table",
    "timeout": "how long a delivery may take",
    "title": "its title on the board",
    "topic": "Kafka topic",
    "trigger": "when batches are read",
    "undelivered": "file for messages that were not accepted",
    "unit": "unit of the values in the ranking; `bytes` is shown as MB and GB",
    "url": "address to post to",
    "wide": "whether its card is two columns wide",
    "writer": "`spark` sends with Spark's own Kafka client",
}
"""What a key means, wherever it stands."""


def job_file_page() -> str:
    """The page, as Markdown."""
    lines = [
        "# Job file",
        "",
        "This page lists every key that a job file may have. It is generated from the code that"
        " checks job files. [Jobs](../jobs.md) explains how to write one, and `skyband check"
        " JOB.toml` lists everything that is wrong with yours. `url_env`, `headers_env`,"
        " `options_env` and `storage_env` read the same settings from the environment"
        " ([secrets](../jobs.md#secrets)). The fields of `query` and `queries` have"
        " [a page of their own](job_queries.md).",
        "",
        "## The file itself",
        "",
        *_table(keys.JOB),
        "",
        "## trigger",
        "",
        *_table(keys.TRIGGER),
        "",
        "## metrics",
        "",
        *_table(keys.METRICS),
    ]
    lines += list(_kinds("Sources", "source", keys.SOURCES))
    lines += list(_kinds("Sinks", "sink", keys.SINKS))
    lines += list(_kinds("Dead letters", "dead_letters", keys.DEAD_LETTERS))
    return "\n".join(lines) + "\n"


def job_queries_page() -> str:
    """The page of a job's queries, as Markdown."""
    lines = [
        "# Queries of a job file",
        "",
        "`[query]`, and each `[queries.NAME]`, has a `kind` and the fields of the Python class of"
        " that name. `window` is a table with `size`, `count`, `half_life` or `since`, and"
        " `slide`, `lateness`, `revise` and `offset`. Instead of all these, `sql` may hold"
        " [a statement](../sql.md#in-job-files). The page on the [job file](job_file.md) has all"
        " other keys.",
    ]
    return "\n".join([*lines, *_queries()]) + "\n"


def _kinds(title: str, word: str, every: Mapping[str, KeyTypes]) -> Iterator[str]:
    listed = ", ".join(f"`{name}`" for name in every)
    yield from ("", f"## {title}", "", f"`{word}` has a `kind`: {listed}.")
    for name, found in every.items():
        yield from ("", f"### {word} {name}", "", *_table(found))


def _queries() -> Iterator[str]:
    yield from ("", "How the [board](../serve.md) shows a query:", "", *_table(keys.CARD))
    common = parameters_of(Query.__doc__)
    kinds: dict[str, type[Query]] = {"Every query": Query, **KINDS}
    for name, kind in kinds.items():
        yield from (
            "",
            f"## {name}",
            "",
            "| key | needed | default | meaning |",
            "|---|---|---|---|",
        )
        own = {each.name: each for each in fields(kind) if each.init}
        for key, text in parameters_of(kind.__doc__).items():
            if kind is not Query and common.get(key) == text:
                continue
            each = own[key]
            needed = each.default is MISSING and each.default_factory is MISSING
            default = "" if needed or each.default in (None, MISSING) else f"`{each.default!r}`"
            meaning = text.replace("``", "`").replace("|", "\\|")
            yield f"| `{key}` | {'yes' if needed else ''} | {default} | {meaning} |"


def _table(found: KeyTypes) -> list[str]:
    rows = ["| key | type | needed | meaning |", "|---|---|---|---|"]
    for name, kind in {**found.needed, **found.optional}.items():
        needed = "yes" if name in found.needed else ""
        rows.append(f"| `{name}` | {_TYPES[kind]} | {needed} | {MEANINGS[name]} |")
    return rows


PAGES = {"job_file.md": job_file_page, "job_queries.md": job_queries_page}


if __name__ == "__main__":
    for name, page in PAGES.items():
        Path("docs", "reference", name).write_text(page(), encoding="utf-8")
