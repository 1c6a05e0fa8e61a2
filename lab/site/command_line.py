"""The reference of the command line, made from the commands themselves."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import typer

from skyband.cli.app import app

__all__ = ["command_line_page", "commands"]


def commands() -> dict[str, Any]:
    """Every command by its name."""
    found: Any = typer.main.get_command(app)
    return {name: each for name, each in found.commands.items() if not each.hidden}


def command_line_page() -> str:
    """The page, as Markdown."""
    lines = [
        "# Command line",
        "",
        "This page lists every command and option. It is generated from the code."
        " [The guide](../cli.md) explains how to use them.",
        "",
        "| command | what it does |",
        "|---|---|",
    ]
    every = commands()
    for name, command in every.items():
        lines.append(f"| [`{name}`](#{name}) | {_first_sentence(_prose(command.help))} |")
    for name, command in every.items():
        lines += ["", f"## {name}", "", *_section(name, command)]
    return "\n".join(lines) + "\n"


def _section(name: str, command: Any) -> list[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    words = " ".join(_argument(each) for each in arguments)
    lines = [_prose(command.help), "", "```text"]
    lines += [" ".join(f"skyband {name} {words} [OPTIONS]".split()), "```", ""]
    if command.epilog:
        lines += [_prose(command.epilog), ""]
    panels: dict[str, list[str]] = {}
    for each in (*arguments, *options):
        panel = getattr(each, "rich_help_panel", None) or ""
        panels.setdefault(str(panel), []).append(_row(each))
    for panel, rows in panels.items():
        lines += [f"**{panel}**", ""] if panel else []
        lines += ["| option | meaning | default |", "|---|---|---|", *rows, ""]
    return lines[:-1]


def _argument(each: Any) -> str:
    name = each.metavar or each.name.upper()
    return f"{name}..." if each.nargs == -1 and not name.endswith("...") else name


def _row(each: Any) -> str:
    if each.param_type_name == "argument":
        shown = f"`{_argument(each)}`"
    else:
        flags = [*each.opts, *each.secondary_opts]
        metavar = "" if each.is_flag else f" {each.metavar or _kind(each)}"
        shown = ", ".join(f"`{flag}{metavar}`" for flag in flags)
    default = "required" if each.required else _default(each)
    return f"| {shown} | {_cell(each.help)} | {default} |"


def _kind(each: Any) -> str:
    """What an option takes, in a word. Where typer keeps the type depends on its version."""
    told = getattr(each, "type_descriptor", None)
    kind = getattr(told, "annotation", None) or type(each.default)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "\\|".join(_plain(choice) for choice in kind)
    return {int: "N", float: "X", Path: "FILE"}.get(kind, "TEXT")


def _default(each: Any) -> str:
    value = each.show_default if isinstance(each.show_default, str) else each.default
    if value is None or value is False or value == () or callable(value):
        return ""
    if getattr(each, "is_flag", False):
        return ""
    return f"`{_plain(value)}`"


def _plain(value: Any) -> str:
    return str(value.value if isinstance(value, enum.Enum) else value)


def _prose(text: str | None) -> str:
    return " ".join((text or "").split())


def _first_sentence(text: str) -> str:
    return _cell(text.split(". ", maxsplit=1)[0].rstrip(".") + ".")


def _cell(text: str | None) -> str:
    return _prose(text).replace("|", "\\|")
