"""``sql`` runs a statement over files; ``explain`` shows the query that a statement becomes."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from skyband.cli.explain import Engine, Format, OnBad
from skyband.kernels.notice import clock

Text = Annotated[str, typer.Argument(metavar="STATEMENT", help="SELECT statement, in quotes.")]
Sources = Annotated[
    list[str],
    typer.Argument(
        help="The table: files, folders or globs; - for standard input.",
        metavar="SOURCE",
    ),
]


def sql(
    text: Text,
    sources: Sources,
    format_: Annotated[
        Format | None,
        typer.Option(
            "--format", "-f", help="Output format; by default that of --output, or table."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write to.")] = None,
    on_bad: Annotated[
        OnBad, typer.Option(help="Stop at bad or late rows, or skip and count them.")
    ] = OnBad.raise_,
    engine: Annotated[
        Engine, typer.Option(help="Run in this process, or on Spark.")
    ] = Engine.local,
    threads: Annotated[
        int | None, typer.Option(help="Threads that read and summarise.", min=1)
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master, such as 'local[4]'.")] = None,
) -> None:
    """Answer a ranking in SQL over files; `docs/sql.md` says what a statement may contain."""
    from skyband.cli.output import format_of, writer
    from skyband.cli.verbs import report, together
    from skyband.embedded.monitor import new_board
    from skyband.embedded.run import rank_board
    from skyband.sql import answered, bound
    from skyband.sql.statement import read_statement

    shape = format_of(format_, output)
    source = together(sources)
    statement, source_read = bound(text, {read_statement(text).table: source})
    if engine is Engine.spark:
        from skyband.cli.with_spark import rank_on_spark

        table = rank_on_spark(statement.query, source, master, on_bad.value)
        with writer(shape, output) as out:
            out.write(answered(statement, table))
        return
    board = new_board(statement.query, on_bad.value, None, threads)
    began = clock()
    table = rank_board(board, source_read)[None]
    took = clock() - began
    with writer(shape, output) as out:
        out.write(answered(statement, table))
    report(board, source_read, took, out, output)


def explain(text: Text) -> None:
    """Show the query that a statement becomes, and how it will be answered."""
    import skyband as sb

    query = sb.sql.query(text)
    print(_written(query))
    print(sb.explain(query))


def _written(value: Any) -> str:
    """How a query or a window is written in Python, without what is so by default."""
    given = []
    for each in fields(value):
        default = each.default_factory() if callable(each.default_factory) else each.default
        part = getattr(value, each.name)
        if each.init and each.repr and part != default:
            given.append(f"{each.name}={_written(part) if is_dataclass(part) else repr(part)}")
    return f"{type(value).__name__}({', '.join(given)})"
