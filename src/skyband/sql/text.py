"""The text of a statement: its syntax tree, and the places that messages name."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from skyband.errors import EngineError, QueryError, how_to_install


class SqlText:
    """One statement, parsed: ``statement`` is its tree, ``skyline`` what follows SKYLINE OF."""

    def __init__(self, text: str) -> None:
        """Raises QueryError for what is no statement, or several."""
        if not isinstance(text, str):
            raise QueryError(f"a statement is a string such as 'SELECT ...', not {text!r}")
        self.text = text
        glot, self.dialect = _sqlglot()
        try:
            self.tokens = self.dialect.tokenize(text)
            self.keywords = {each.text.upper() for each in self.tokens}
            words, wishes = self._split()
            found = [each for each in self.dialect.parser().parse(words, text) if each is not None]
            self.skyline = self._skyline(wishes)
        except glot.errors.ParseError as problem:
            where = problem.errors[0] if problem.errors else {}
            place = where.get("line"), where.get("col")
            token = next((t for t in self.tokens if (t.line, t.col) == place), self.tokens[0])
            message = re.sub(r"( for| but got)? <.*", "", str(where.get("description", problem)))
            raise self.problem(token, message.rstrip(".")) from None
        except glot.errors.TokenError as problem:
            raise QueryError(f"SQL: a string or a name has no end: {problem}") from None
        if len(found) != 1:
            raise QueryError(f"give one SELECT statement, not {len(found) or 'an empty text'}")
        self.statement, self.words = found[0], words

    def check_whole(self) -> None:
        """Refuse what the parser passed over or made up, such as one of two commas."""
        text = self.statement.sql(dialect=self.dialect, comments=False)
        given, read = (_words(each) for each in (self.words, self.dialect.tokenize(text)))
        lost, more = given - read, read - given
        if lost or set(more) - {"AS", "NULLS", "FIRST", "LAST"}:
            where = (each for each in self.words if set(_words([each])) & set(lost))
            raise self.problem(next(where, self.statement), f"this reads as {text}; write it so")

    def problem(self, where: Any, message: str, error: Any = QueryError) -> Any:
        """An error at a node of the tree, a token, or the first token with a text."""
        if isinstance(where, str):
            word = where.upper()
            places = [t.start for t in self.tokens if t.text.upper().split(" ")[0] == word]
            places = places or [max(self.text.upper().find(word), 0)]
        elif hasattr(where, "walk"):
            places = [each.meta["start"] for each in where.walk() if "start" in each.meta]
        else:
            places = [where.start]
        offset = min(places, default=0)
        line = self.text.count("\n", 0, offset) + 1
        column = offset - self.text.rfind("\n", 0, offset)
        rest = " ".join(self.text[offset : offset + 80].split())
        shown = rest if len(rest) <= 40 else f"{rest[:40]}..."
        return error(f"SQL, line {line}, column {column}, at {shown!r}: {message}")

    def _split(self) -> tuple[list[Any], list[Any]]:
        """The words that sqlglot knows, and those after SKYLINE OF, which it does not."""
        texts = [each.text.upper() for each in self.tokens]
        while texts and texts[-1] == ";":
            texts.pop()
        marks = [i for i in range(len(texts)) if texts[i : i + 2] == ["SKYLINE", "OF"]]
        end = min(marks, default=len(texts))
        words = []
        for i in range(end):
            last = [*texts, ")"][i + 1] in (",", ")")
            named = texts[i] == "TABLE" and texts[i - 1] in ("(", ",", "=>", "FROM") and not last
            if not (named or (texts[i] == "ASC" and last)):
                words.append(self.tokens[i])
        return words, [*self.tokens[end + 2 : len(texts)], *self.tokens[end : len(texts)][:1]]

    def _skyline(self, tokens: list[Any]) -> list[tuple[Any, str]]:
        """The expressions after SKYLINE OF, and what is preferred of each."""
        found, part, depth = [], list[Any](), 0
        for i, each in enumerate(tokens):
            depth += (each.text == "(") - (each.text == ")")
            if i < len(tokens) - 1 and (each.text != "," or depth):
                part.append(each)
                continue
            if len(part) < 2 or part[-1].text.upper() not in ("MIN", "MAX", "DIFF"):
                raise self.problem([each, *part][-1], "give columns, each with MIN, MAX or DIFF")
            (node,) = self.dialect.parser().parse(part[:-1], self.text)
            found.append((node, part[-1].text.lower()))
            part = []
        return found


def _words(tokens: list[Any]) -> Counter[str]:
    texts = " ".join(each.text for each in tokens).upper().replace("<>", "!=").replace(":=", "=>")
    return Counter(texts.split())


def _sqlglot() -> tuple[Any, Any]:
    """The package, and plain SQL with names in double quotes or in backticks."""
    try:
        import sqlglot
    except ImportError:
        raise EngineError(f"SQL needs sqlglot: {how_to_install('sql')}") from None

    class Words(sqlglot.Dialect):
        class Tokenizer(sqlglot.tokens.Tokenizer):
            IDENTIFIERS = ['"', "`"]  # noqa: RUF012 - sqlglot's word

    return sqlglot, Words()
