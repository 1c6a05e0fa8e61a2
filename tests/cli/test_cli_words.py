"""Command-line options are derived from the fields of a query, and so is the help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import pytest

import skyband as sb
from skyband.query import Query

typer = pytest.importorskip("typer")
testing = pytest.importorskip("typer.testing")

from skyband.cli import fields as cli_fields  # noqa: E402
from skyband.cli.app import app  # noqa: E402
from skyband.cli.explain import as_options  # noqa: E402
from skyband.cli.verbs import add_verb  # noqa: E402
from support.command_line import FIVE_MINUTES, PLAIN, good, run  # noqa: E402


def required(kind: type[Query]) -> list[str]:
    """The options that a query must have, as its help shows them."""
    from skyband.cli.verbs import example_of

    words = example_of(kind).partition(" --time")[0].split()
    return words[next(i for i, word in enumerate(words) if word.startswith("--")) :]


class TestFields:
    """Options are derived from the fields of a query and their types."""

    def test_every_field_of_every_query_is_an_option(self) -> None:
        for kind in Query.__subclasses__():
            if not kind.__module__.startswith("skyband."):
                continue
            text = good(cli_fields.verb_of(kind), "--help")
            for each in fields(kind):
                if each.init and each.name not in cli_fields.COMMON:
                    assert f"--{each.name.replace('_', '-')}" in text, (kind, each.name)

    def test_fields_do_not_collide_with_common_options(self) -> None:
        from skyband.cli.verbs import common_parameters

        for kind in Query.__subclasses__():
            own = {p.name for p in cli_fields.field_parameters(kind)}
            assert not own & {p.name for p in common_parameters(kind)}, kind

    def test_help_lists_the_windows_that_a_query_takes(self) -> None:
        from skyband import registry

        words = {"decay": "--half-life", "landmark": "--since"}
        for kind in Query.__subclasses__():
            if kind.__module__.startswith("skyband."):
                verb = cli_fields.verb_of(kind)
                text, refused = good(verb, "--help"), run(verb, "x", *required(kind)).stderr
                for sort, word in words.items():
                    takes = bool(registry.algorithms(kind.kind, sort))
                    assert (word in text) == (word in refused) == takes, (verb, word)

    def test_help_names_pages_that_say_more(self) -> None:
        pages = {
            verb: re.findall(r"docs/\w+[.]md", good(verb, "--help"))
            for verb in ("pipeline", "serve")
        }
        assert pages == {"pipeline": ["docs/jobs.md"], "serve": ["docs/serve.md"]}

    def test_a_new_query_appears_by_itself(self) -> None:
        @dataclass(frozen=True, kw_only=True)
        class Median(Query):
            kind: ClassVar[str] = "Skyline"  # borrows the algorithms of a query that exists
            column: str
            quantiles: tuple[str, ...] = ()
            strict: bool = False

        try:
            mine = typer.Typer()
            mine.callback()(lambda: None)
            add_verb(mine, Median)
            text = testing.CliRunner().invoke(mine, ["median", "--help"]).stdout
            for option in ("--column", "--quantiles", "--strict", "--window", "--format"):
                assert option in text
        finally:
            from skyband.query import Skyline, base

            base.KINDS["Skyline"] = Skyline

    @pytest.mark.parametrize(
        ("kind", "words", "value"),
        [
            (sb.FusedTopK, {"time": ["ts"]}, {"time": "ts"}),
            (sb.FusedTopK, {"time": ["a=ts,b=at"]}, {"time": {"a": "ts", "b": "at"}}),
            (sb.FusedTopK, {"bounds": ["0:2"]}, {"bounds": (0.0, 2.0)}),
            (sb.FusedTopK, {"bounds": ["0,2"]}, {"bounds": (0, 2)}),
            (sb.FusedTopK, {"bounds": ["a=0:2", "b=1:3"]}, {"pairs": ((0.0, 2.0), (1.0, 3.0))}),
            (sb.FusedTopK, {"combine": ["max"]}, {"combine": "max"}),
            (sb.FusedTopK, {"combine": ["a=1,b=0.5"]}, {"weights": (1.0, 0.5)}),
            (sb.FusedTopK, {"combine": ["0.25,0.75"]}, {"weights": (0.25, 0.75)}),
            (sb.FusedTopK, {"recurrences": ["3"]}, {"recurrences": 3}),
            (sb.FusedTopK, {"recurrences": ["estimate"]}, {"recurrences": "estimate"}),
            (sb.HeavyHitters, {"item": ["host"]}, {"item": "host"}),
            (sb.HeavyHitters, {"item": ["host,port"]}, {"item": ("host", "port")}),
            (sb.HeavyHitters, {"item": ["host", "port"]}, {"item": ("host", "port")}),
            (sb.HeavyHitters, {"item": ["1"], "by": ["2"]}, {"item": "1", "by": ("2",)}),
            (sb.Skyline, {"prefer": ["a=min,b=max"]}, {"prefer": {"a": "min", "b": "max"}}),
        ],
    )
    def test_words_become_values(
        self, kind: type[Query], words: dict[str, Any], value: Mapping[str, Any]
    ) -> None:
        examples: dict[str, dict[str, Any]] = {
            "FusedTopK": {"k": 1, "id": "i", "value": "v", "streams": ["a,b"], "time": ["ts"]},
            "HeavyHitters": {"k": 1, "item": ["x"], "time": "ts"},
            "Skyline": {"prefer": ["a=min"], "time": "ts"},
        }
        query = cli_fields.query_of(kind, FIVE_MINUTES, examples[kind.kind] | words)
        for name, wanted in value.items():
            assert getattr(query, name) == wanted

    @pytest.mark.parametrize("words", [["price"], ["price=min", "volume"], [" , "]])
    def test_bad_words(self, words: list[str]) -> None:
        with pytest.raises(sb.QueryError, match="--prefer"):
            cli_fields.query_of(sb.Skyline, FIVE_MINUTES, {"prefer": words, "time": "ts"})

    def test_messages_speak_of_options(self) -> None:
        message = "give epsilon > 0, time='x y', on_bad='skip' or prefer="
        said = as_options(message, ["time", "on_bad"])
        assert said == "give epsilon > 0, --time 'x y', --on-bad skip or prefer="


class TestHelp:
    def test_the_verbs(self) -> None:
        text = good("--help")
        verbs = ["demo", "topk", "heavy-hitters", "uncertain", "fused", "skyline", "skyline-join"]
        found = re.findall(r"^│ ([a-z-]+) ", text, re.MULTILINE)
        assert [verb for verb in found if verb in verbs] == verbs
        assert {"bench", "reproduce"} <= set(found)

    def test_topk_as_it_was_seen_last(self) -> None:
        """Compare the text of the help with a stored copy; the layout is typer's and not compared.

        After an intended change, replace the stored text.
        """
        verb = typer.main.get_command(app).commands["topk"]
        lines = [" ".join((verb.help or "").split()), (verb.epilog or "").strip(), ""]
        for each in verb.params:
            names = ", ".join([*each.opts, *each.secondary_opts])
            needed = " (required)" if each.required else ""
            lines.append(f"{names}{needed}: {getattr(each, 'help', '')}")
        text = re.sub("One of: [^.]+[.]", "One of: ….", "\n".join(lines) + "\n")
        seen = Path(__file__).with_name("help_topk.txt")
        assert text == seen.read_text(encoding="utf-8")

    @pytest.mark.parametrize("verb", ["topk", "fused", "skyline-join", "pipeline", "serve", "init"])
    def test_help_speaks_of_flags(self, verb: str) -> None:
        text = " ".join(good(verb, "--help").split())
        assert "<bool>" not in text
        assert not re.search(r"[a-z_]=(True|False|\")", text), text
        if verb == "fused":
            assert "With --repeats other than sum, any number" in text
        if verb == "topk":
            assert "--distinct latest shows the one with the best score" in text
            assert "--largest --no-largest" in text

    def test_completion(self) -> None:
        words = {"COMP_WORDS": "skyband topk --sc", "COMP_CWORD": "2"}
        result = run(env=PLAIN | {"_SKYBAND_COMPLETE": "complete_bash"} | words)
        assert result.stdout.split() == ["--score"]
        assert "--install-completion" in good("--help")

    def test_every_verb_has_help_from_its_query(self) -> None:
        for kind in (sb.TopK, sb.UncertainTopK, sb.SkylineJoin):
            first = (inspect.getdoc(kind) or "").partition("\n")[0].replace("``", "")
            text = " ".join(good(cli_fields.verb_of(kind), "--help").split())
            assert first in text

    def test_version(self) -> None:
        assert re.fullmatch(r"skyband \d+\.\d+\.\d+\S*\n", good("--version"))
