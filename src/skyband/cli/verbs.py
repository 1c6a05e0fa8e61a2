"""One command per query, built from the query's own fields; and those of statements in SQL."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from skyband import registry
from skyband.cli.explain import (
    Engine,
    Format,
    OnBad,
    VerbCommand,
    explained,
    in_flags,
    say,
    say_unmatched,
)
from skyband.cli.fields import (
    field_parameters,
    mapping_of,
    query_of,
    verb_of,
    window_of,
)
from skyband.errors import EngineError, QueryError
from skyband.kernels.notice import clock
from skyband.query import HeavyHitters, Query
from skyband.query.checks import delimiter

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.answers.answer import Answer
    from skyband.cli.output import AnswerWriter
    from skyband.engine.board import BoardSession

# Options that the commands of all queries have, and their help -----------------------------------


_WINDOW = "Window"
_OUTPUT = "Output"
_RUN = "How to run"


def _option(name: str, kind: Any, default: Any, *flags: str, **info: Any) -> inspect.Parameter:
    annotation = Annotated[kind, typer.Option(*flags, **info)]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def source_parameter() -> inspect.Parameter:
    """The argument that names the sources."""
    info = typer.Argument(
        help="Files, folders or globs (Parquet, CSV, JSON lines, Arrow IPC); "
        "- for standard input; NAME=PATH for a query over several streams.",
        metavar="SOURCE",
        show_default=False,
    )
    return inspect.Parameter(
        "sources", inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[list[str], info]
    )


def common_parameters(kind: type[Query]) -> list[inspect.Parameter]:
    """Options that every query has."""
    text, number, sides = str | None, int | None, "left" in kind.__annotations__
    window = {"rich_help_panel": _WINDOW, "show_default": False}
    decay, landmark = (
        window | {"hidden": not registry.algorithms(kind.kind, sort)}
        for sort in ("decay", "landmark")
    )  # a hidden option says why it cannot be used
    algorithms = ", ".join(registry.algorithms(kind.kind))
    run = {"rich_help_panel": _RUN}
    out = {"rich_help_panel": _OUTPUT}
    share = _option(
        "share",
        bool,
        False,
        "--share",
        **out,
        show_default=False,
        help="Show the total of each window and group, and each item's share of it.",
    )
    return [
        _option("window", text, None, "--window", "-w", **window,
                help="Length in time, such as '10 minutes'; an integer over integer times."
                     + (" Or one per side: 'trades=1 hour,risks=1 day'." if sides else "")),
        _option("count", number, None, "--count", "-c", **window,
                help="Length in rows, instead of --window."),
        _option("half_life", text, None, "--half-life", **decay,
                help="Instead of --window: all rows; the weight of each halves in this time."),
        _option("since", text, None, "--since", **landmark,
                help="Instead of --window: all rows from this time on, or from the 'first' row."),
        _option("slide", text, None, "--slide", "-s", **window,
                help="How often the window is answered. Default: its length."),
        _option("lateness", text, None, "--lateness", **window,
                help="How far a row may lag behind the latest one."),
        _option("revise", text, None, "--revise", **window,
                help="How much later a row may be and still correct answers."),
        _option("offset", text, None, "--offset", **window,
                help="Shift all windows, for example to '15 minutes' past the hour."),
        _option("zone", text, None, "--zone", **window,
                help="Time zone, such as 'Europe/Berlin', whose midnights end windows of days."),
        _option("format", Format | None, None, "--format", "-f", **out, show_default=False,
                help="Output format. Default: by the extension of --output, otherwise table."),
        _option("output", Path | None, None, "--output", "-o", **out, show_default=False,
                help="File to write to."),
        _option("watch", bool, False, "--watch", **out, show_default=False,
                help="Show answers as windows end: as a live table, or as lines of json or csv."),
        _option("pace", float, 0.2, "--pace", **out, min=0,
                help="Seconds between two updates of the live table, at least."),
        _option("serve", bool, False, "--serve", **out, show_default=False,
                help="Show answers in a browser, at the address that is printed."),
        _option("serve_port", int, 8470, "--serve-port", **out, min=0, max=65_535,
                help="Port of --serve; 0 picks a free one."),
        *([share] if kind is HeavyHitters else []),
        _option("plot", Path | None, None, "--plot", **out, show_default=False, metavar="FILE",
                help="Also draw the answers, into this PNG, SVG or PDF file."),
        _option("plot_as", text, None, "--plot-as", **out, show_default=False, metavar="PICTURE",
                help="bump, bars, totals, skyline or timeline. Default: what suits the query."),
        _option("changes", bool, False, "--changes", **out, show_default=False,
                help="Show what entered, left or moved instead of the answers."),
        _option("alerts", list[str] | None, None, *_alert_flags(kind), **out, metavar="WORDS",
                show_default=False,
                help="Show only these changes, with their rows: enter, leave or move."),
        _option("limit", number, None, "--limit", **out, min=1, show_default=False,
                help="Stop after this many windows."),
        _option("algorithm", text, None, "--algorithm", **run, show_default=False,
                help=f"One of: {algorithms}. Default: the fastest for the query."),
        _option("option", list[str] | None, None, "--option", metavar="NAME=VALUE", **run,
                show_default=False, help="A setting of the algorithm; may be repeated."),
        _option("on_bad", OnBad, OnBad.raise_, "--on-bad", **run,
                help="Stop at bad or late rows, or skip and count them."),
        _option("engine", Engine, Engine.local, "--engine", **run,
                help="Run in this process, or on Spark."),
        _option("delimiter", text, None, "--delimiter", **run, show_default=False,
                help="Character between the fields of CSV, such as ';'. Default: a comma."),
        _option("threads", number, None, "--threads", **run, show_default=False,
                help="Threads that read and summarise. Default: all cores of this process."),
        _option("master", text, None, "--master", **run, show_default=False,
                help="Spark's master, such as 'local[4]' or 'spark://host:7077'."),
    ]  # fmt: skip


def _alert_flags(kind: type[Query]) -> tuple[str, ...]:
    """``--on`` is short for ``--alert``, except for a query that has a field of that name."""
    return ("--alert",) if "on" in kind.__annotations__ else ("--alert", "--on")


def help_of(kind: type[Query]) -> str:
    """The text of a command, from the docstring of its query."""
    said = inspect.getdoc(kind) or ""
    first, _, rest = said.partition(">>>")[0].strip().partition("\n\n")
    rest = rest.partition("\n\n")[2] if rest.startswith("Args:") else rest
    plain = rest.partition("\n\n")[0]  # what comes then is for Python
    rest = in_flags(plain, [each.name for each in fields(kind)])
    return f"{first.replace('``', '`')}\n\n{rest}".strip()


def example_of(kind: type[Query]) -> str:
    """An example command with all required options."""
    words = []
    for parameter in field_parameters(kind):
        if parameter.default is inspect.Parameter.empty:
            flag = f"--{parameter.name}"
            sample = {"k": "10", "prefer": "price=min,volume=max", "streams": "r1,r2"}
            words.append(f"{flag} {sample.get(parameter.name, parameter.name.upper())}")
    files = "LEFT=left.parquet RIGHT=right.parquet" if "left" in kind.__annotations__ else "FILES"
    return (
        f"Example: `skyband {verb_of(kind)} {files} {' '.join(words)} "
        "--time ts --window '10 minutes' --slide '1 minute'`"
    )


def add_verb(app: typer.Typer, kind: type[Query]) -> None:
    """Add the command of a query to an app."""

    def verb(**given: Any) -> None:
        _run(kind, given)

    name = verb_of(kind)
    parameters = [source_parameter(), *field_parameters(kind), *common_parameters(kind)]
    run = explained(verb)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    app.command(name, cls=VerbCommand, help=help_of(kind), epilog=example_of(kind))(run)


# Running ------------------------------------------------------------------------------------------


def _run(kind: type[Query], given: dict[str, Any]) -> None:
    from skyband.cli.output import Picture, format_of

    window = window_of(kind, given)
    options = mapping_of("--option", given["option"] or ())
    own = {parameter.name: given[parameter.name] for parameter in field_parameters(kind)}
    query = query_of(kind, window, own, algorithm=given["algorithm"], options=options)
    given["alerts"] = _kinds(given["alerts"] or ())
    source = _source(query, given["sources"], _delimiter(given["delimiter"]))
    shape = format_of(given["format"], given["output"])
    given["picture"] = Picture(query, given["plot"], given["plot_as"], verb_of(kind))
    if given.get("share"):
        _check_share(given)
    if given["serve"] and given["plot"] is not None:
        raise EngineError("--plot draws the answers at the end; leave it out with --serve")
    if given["engine"] is Engine.spark:
        _run_spark(query, source, given, shape)
    elif given["serve"]:
        from skyband.cli.serving import serve_verb

        serve_verb(verb_of(kind), query, source, given)
    else:
        _run_local(query, source, given, shape)
    given["picture"].close()


def _check_share(given: Mapping[str, Any]) -> None:
    if given.get("aggregate") in ("mean", "min", "max"):
        raise QueryError(
            "--share divides counts or sums by their total, so leave it out with --aggregate"
        )
    if given["changes"] or given["alerts"] or given["serve"]:
        raise QueryError(
            "--share works only with whole answers; leave it out with --changes, --on and --serve"
        )


def _kinds(words: Sequence[str]) -> tuple[str, ...] | None:
    """The kinds of changes that ``--alert`` asks for; None without it."""
    from skyband.answers.changes import asked_changes

    kinds = [part.strip() for word in words for part in word.split(",") if part.strip()]
    asked = asked_changes("--alert", kinds)
    return asked if words and isinstance(asked, tuple) else None


def _delimiter(word: str | None) -> str | None:
    return None if word is None else delimiter("--delimiter", "\t" if word == "\\t" else word)


def _source(query: Query, words: list[str], delimiter: str | None = None) -> Any:
    """The query's source from paths: one source, or one per stream."""
    named = [word.partition("=") for word in words]
    # A folder such as day=3 is a path, unless the query has a stream named "day".
    if query.sources and all(equals and name in query.sources for name, equals, _ in named):
        found: dict[str, list[Any]] = {}
        for name, _, path in named:
            found.setdefault(name, []).append(path)
        return {name: together(paths, delimiter) for name, paths in found.items()}
    query.check_sources(None, example=" ".join(f"{name}=PATH" for name in query.sources))
    return together(words, delimiter)


def together(words: Sequence[str], delimiter: str | None = None) -> Any:
    """Several paths as one source; a shell that expands a pattern sorts 10 before 2."""
    from skyband.embedded.sources import FileSet

    paths = [_readable(word, delimiter) for word in words]
    files = all(isinstance(path, str) for path in paths)
    if len(paths) == 1 and not (files and delimiter):
        return paths[0]
    return FileSet(tuple(paths), delimiter) if files else paths


def _readable(word: str, delimiter: str | None) -> Any:
    """A path that exists, or the batches of standard input."""
    from skyband.cli.stdin import STDIN, Stdin
    from skyband.embedded.sources import paths_of

    if word == STDIN:
        return Stdin(delimiter)
    paths_of(word)
    return word


def _run_local(query: Query, source: Any, given: Mapping[str, Any], shape: Format) -> None:
    from skyband.cli.output import writer
    from skyband.cli.view import change_lines, watch_live
    from skyband.embedded.monitor import new_board

    if given["watch"] and shape is Format.parquet:
        raise QueryError(
            "--watch writes answers as windows end, which Parquet does not allow; use --format json"
        )
    board = new_board(query, given["on_bad"].value, None, given["threads"])
    for session in board.sessions:
        session.total = given.get("share", False)
    if given["watch"] and shape is Format.table and given["output"] is None:
        answers = _answers(board, source, given)
        if given["changes"] or given["alerts"]:
            console = Console(highlight=False)
            for line in (line for answer in answers for line in change_lines(answer, query)):
                console.print(line, soft_wrap=True)
        else:
            watch_live(answers, board.queries, given["pace"])
        report(board, source, None)
        return
    import pyarrow as pa

    began = clock()
    growing = given["watch"] or _flows(query, source, shape)
    if growing:
        with writer(shape, given["output"], query, growing=True) as out:
            for table in _tables(board, source, given, growing):
                out.write(table)
            if not out.rows and not given["watch"]:
                out.write(_empty(board, given))
        took = clock() - began
    else:
        tables = list(_tables(board, source, given, growing)) or [_empty(board, given)]
        took = clock() - began
        with writer(shape, given["output"], query) as out:
            out.write(pa.concat_tables([table.cast(tables[0].schema) for table in tables]))
    report(board, source, took, out, given["output"])


def _flows(query: Query, source: Any, shape: Format) -> bool:
    """Whether answers are written as windows end: lines, from standard input, in their order."""
    from skyband.cli.stdin import Stdin
    from skyband.window import CountWindow

    mixed = isinstance(query.window, CountWindow) and query.groups
    return isinstance(source, Stdin) and shape in (Format.json, Format.csv) and not mixed


def _answers(
    board: BoardSession,
    source: Any,
    given: Mapping[str, Any],
    progress: Callable[[int], None] | None = None,
) -> Iterator[Answer]:
    """The answers up to the limit of windows."""
    from skyband.embedded.run import watch_board

    for answer in islice(watch_board(board, source, progress, given["alerts"]), given["limit"]):
        given["picture"].take(answer)
        yield answer


def _tables(
    board: BoardSession, source: Any, given: Mapping[str, Any], growing: bool
) -> Iterator[pa.Table]:
    """The answers, or changes, as tables; if it is ``growing``, as windows end."""
    from skyband.answers.answer import with_edges
    from skyband.embedded.run import rank_board, tables_of

    shown = given["changes"] or given["alerts"]
    if given["watch"]:
        for answer in _answers(board, source, given):
            yield with_edges(answer, answer.changes) if shown else answer.table
        return
    with _progress(board, source) as progress:
        if shown or given["limit"]:
            for answer in _answers(board, source, given, progress):
                yield with_edges(answer, answer.changes) if shown else answer.table
            return
        whole = tables_of(board, source, progress) if growing else None
        for table in whole or [rank_board(board, source, progress)[None]]:
            given["picture"].take(table)
            yield table


def _empty(board: BoardSession, given: Mapping[str, Any]) -> pa.Table:
    """No answers or changes, with their columns."""
    import pyarrow as pa

    from skyband.answers.changes import changes_schema
    from skyband.embedded.run import rank_board

    schema = rank_board(board, [])[None].schema
    if given["changes"] or given["alerts"]:
        ends = [schema.field(name) for name in ("window_start", "window_end")]
        rows = given["alerts"] is not None
        schema = pa.schema([*ends, *changes_schema(board.queries[None], schema, rows)])
    return schema.empty_table()


def _run_spark(query: Query, source: Any, given: Mapping[str, Any], shape: Format) -> None:
    from skyband.cli.output import writer
    from skyband.cli.with_spark import rank_on_spark

    if "-" in given["sources"]:
        raise EngineError("Spark cannot read standard input; give files, or use --engine local")
    if given["watch"] or given["limit"]:
        raise EngineError("--watch and --limit need --engine local; on Spark, leave them out")
    if given["serve"]:
        from skyband.cli.serving import serve_spark

        serve_spark(verb_of(type(query)), query, source, given)
        return
    changes = given["alerts"] or given["changes"]
    if changes and given["plot"] is not None:
        raise EngineError(
            "on Spark, --plot draws answers, not changes; leave out --plot or --changes"
        )
    table = rank_on_spark(
        query,
        source,
        given["master"],
        on_bad=given["on_bad"].value,
        changes=changes,
        total=given.get("share", False),
    )
    given["picture"].take(table)
    with writer(shape, given["output"], query) as out:
        out.write(table)
    if given["output"] is not None:
        say(f"{out.rows:,} rows written to {given['output']}")


# Statements in SQL --------------------------------------------------------------------------------


Statement = Annotated[str, typer.Argument(metavar="STATEMENT", help="SELECT statement, in quotes.")]


def sql(
    text: Statement,
    sources: Annotated[
        list[str],
        typer.Argument(
            help="The table: files, folders or globs; - for standard input.",
            metavar="SOURCE",
        ),
    ],
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


def explain(text: Statement) -> None:
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


# Messages in addition to the answers --------------------------------------------------------------


@contextmanager
def _progress(board: BoardSession, source: Any) -> Iterator[Callable[[int], None] | None]:
    """A progress bar of the rows read, on a terminal; it is removed at the end."""
    from skyband.embedded.progress import ProgressBar

    if not Console(stderr=True).is_terminal:
        yield None
        return
    bar = ProgressBar(board, source)
    try:
        yield bar
    finally:
        bar.close()


def report(
    board: BoardSession,
    source: Any,
    took: float | None,
    out: AnswerWriter | None = None,
    output: Path | None = None,
) -> None:
    """Report how many rows were read and left out."""
    from skyband.embedded.left_out import left_out

    stats = board.stats()
    missing = left_out(board)
    if missing:
        say(missing, style="yellow")
    if 0 < stats["rows_in"] == stats["rows_filtered"]:
        say_unmatched(board.queries[None].where, source)
    if took is not None and (sys.stderr.isatty() or output is not None):
        windows = f"{stats['windows_out']:,} windows"
        where = f", {out.rows:,} rows to {output}" if out is not None and output is not None else ""
        say(f"{stats['rows_in']:,} rows read in {took:.2f} s, {windows}{where}")
