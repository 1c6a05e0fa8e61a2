"""Reads flat JSON records that all have the same keys in the same order, and the same blanks.

What stands between the values is known, so it is compared byte by byte and nothing is looked up:

    {"ts": "2026-11-16T10:00:00Z", "key": 17}
    ├ literal ┤├ a value        ┤├ literal ┤├ a value   then the last literal, and the record ends

A record that differs in any way, or holds what needs more than a look (escapes, objects, numbers
that do not fit), is not matched. It must be read by other means.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Codes, Ints, Mask
from skyband.kernels.borrow import borrowed
from skyband.kernels.jit import piece
from skyband.kernels.patient import kernel
from skyband.kernels.strings import Bytes, Words

# Kinds of values.
SKIPPED = 0  # any text, number, true, false or null
TEXT = 1
WHOLE = 2  # a whole number
NUMBER = 3  # any number, as its text
TRUTH = 4

ROOM = 16
"""Bytes that are read beyond the last record, and written beyond the last text."""

_QUOTE, _BACKSLASH, _MINUS, _PLUS, _DOT = 34, 92, 45, 43, 46
_ZERO, _NINE, _LOWER, _UPPER = 48, 57, 101, 69  # 0, 9, e and E
_N, _U, _L, _T, _R, _E, _F, _A, _S = 110, 117, 108, 116, 114, 101, 102, 97, 115
_BLANK, _HIGH = 32, 128
_MOST_DIGITS = 18  # so many always fit into 64 bits
_NONE, _FIRST, _EIGHT = np.uint64(0), np.uint64(0x80), np.uint64(8)
_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _BACKSLASHES = np.uint64(_QUOTE) * _ONES, np.uint64(_BACKSLASH) * _ONES
_BLANKS = np.uint64(_BLANK) * _ONES


class Layout(NamedTuple):
    """What stands before each value, and what the values are.

    The bytes ``ends[i - 1]`` to ``ends[i]`` of ``literal`` come before value i, and the last ones,
    up to ``ends[-1]``, after all values. ``column`` is the row of the arrays of ``RecordValues``
    that takes a value.
    """

    literal: Words
    ends: Ints
    kind: Ints
    column: Ints
    least: Ints
    most: Ints


class RecordValues(NamedTuple):
    """The values of records that were matched, one row per column of the kind.

    Text i of a column is ``text[column, end[column, i]:end[column, i + 1]]``, and ``words`` are the
    words of ``text``. ``there`` has one row per value of the layout.
    """

    whole: Any
    words: Any
    end: Any
    there: Any


@piece
def _null(data: Bytes, at: int, stop: int) -> Any:
    return (
        at + 4 <= stop
        and data[at] == _N
        and data[at + 1] == _U
        and data[at + 2] == _L
        and data[at + 3] == _L
    )


@piece
def _truth_end(data: Bytes, at: int, stop: int) -> Any:
    """The place after ``true`` or ``false``; -1 if neither is there."""
    if at + 4 <= stop and data[at] == _T and data[at + 1] == _R and data[at + 2] == _U:
        return at + 4 if data[at + 3] == _E else -1
    if at + 5 <= stop and data[at] == _F and data[at + 1] == _A and data[at + 2] == _L:
        return at + 5 if data[at + 3] == _S and data[at + 4] == _E else -1
    return -1


@piece
def _stops(word: np.uint64) -> Any:
    """Bits in the bytes of a word that are quotes, backslashes or control characters.

    Only the lowest bit is certain: a byte after such a byte may be marked without being one.
    """
    quote, escape = word ^ _QUOTES, word ^ _BACKSLASHES
    found = ((quote - _ONES) & ~quote) | ((escape - _ONES) & ~escape)
    return (found | ((word - _BLANKS) & ~word)) & _TOPS


@piece
def _copied_text(words: Words, at: int, stop: int, into: Words, o: int) -> Any:
    """Copy text from ``at`` on up to its closing quote, whose place it returns.

    It is the place of a backslash or a control character if that comes first, and ``stop`` or
    beyond if there is none of them. Some more bytes are copied too.
    """
    while at < stop:
        word = words[at]
        into[o] = word
        found = _stops(word)
        if found != _NONE:
            while found & _FIRST == _NONE:
                found >>= _EIGHT
                at += 1
            return at
        at += 8
        o += 8
    return at


@piece
def _text_end(data: Bytes, at: int, stop: int) -> Any:
    """The place after the closing quote; -1 if the text is not plain ASCII or does not end."""
    while at < stop:
        c = data[at]
        if c == _QUOTE:
            return at + 1
        if c < _BLANK or c == _BACKSLASH or c >= _HIGH:
            return -1
        at += 1
    return -1


@piece
def _literal_end(words: Words, at: int, literal: Words, begin: int, end: int) -> Any:
    """The place after a literal; -1 if something else is there."""
    while begin + 8 <= end:
        if words[at] != literal[begin]:
            return -1
        at += 8
        begin += 8
    if begin < end:
        shift = np.uint64(8 * (8 - (end - begin)))
        if (words[at] ^ literal[begin]) << shift != _NONE:
            return -1
    return at + end - begin


@piece
def _digits_end(data: Bytes, at: int, stop: int) -> Any:
    while at < stop and _ZERO <= data[at] <= _NINE:
        at += 1
    return at


@piece
def _number_end(data: Bytes, at: int, stop: int) -> Any:
    """The place after a number as JSON writes them; -1 if there is none."""
    if at < stop and data[at] == _MINUS:
        at += 1
    first = at
    at = _digits_end(data, at, stop)
    if at == first or (data[first] == _ZERO and at > first + 1):
        return -1
    if at < stop and data[at] == _DOT:
        first = at + 1
        at = _digits_end(data, first, stop)
        if at == first:
            return -1
    if at < stop and (data[at] == _LOWER or data[at] == _UPPER):
        first = at + 1
        if first < stop and (data[first] == _MINUS or data[first] == _PLUS):
            first += 1
        at = _digits_end(data, first, stop)
        if at == first:
            return -1
    return at


@kernel
def match_records(
    data: Bytes, words: Words, offsets: Codes, rows: Ints, layout: Layout, values: RecordValues,
    matched: Mask,
) -> int:  # fmt: skip
    """Read these rows; returns how many have the layout, and marks them.

    Row i is ``data[offsets[i]:offsets[i + 1]]``. ``words`` are the words of ``data``, which has at
    least ``ROOM`` bytes after the last row. Only rows that have the layout take a place in
    ``values``.
    """
    literal, ends, kind = borrowed(layout.literal), borrowed(layout.ends), borrowed(layout.kind)
    column, least, most = borrowed(layout.column), borrowed(layout.least), borrowed(layout.most)
    whole, text = borrowed(values.whole), borrowed(values.words)
    end, there = borrowed(values.end), borrowed(values.there)
    source, source_words = borrowed(data), borrowed(words)
    n = 0
    for i in range(len(rows)):
        row = rows[i]
        at: Any = np.int64(offsets[row])
        stop: Any = np.int64(offsets[row + 1])
        lit = 0
        for field in range(len(kind)):
            if at + ends[field] - lit >= stop:
                at = -1
                break
            at = _literal_end(source_words, at, literal, lit, ends[field])
            if at < 0:
                break
            lit = ends[field]
            what, to = kind[field], column[field]
            c = source[at]
            there[field, n] = c != _N
            first = at
            if c == _N:
                at = at + 4 if _null(source, at, stop) else -1
                if what == TEXT or what == NUMBER:
                    end[to, n + 1] = end[to, n]
                elif what != SKIPPED:
                    whole[to, n] = 0
            elif what == TEXT:
                at = -1
                if c == _QUOTE:
                    o = end[to, n]
                    at = _copied_text(source_words, first + 1, stop, text[to], o)
                    end[to, n + 1] = o + at - first - 1
                    at = at + 1 if at < stop and source[at] == _QUOTE else -1
            elif what == WHOLE:
                first += c == _MINUS
                at = first
                number = np.int64(0)
                while at < stop and _ZERO <= source[at] <= _NINE and at - first <= _MOST_DIGITS:
                    number = number * 10 + (source[at] - _ZERO)
                    at += 1
                size = at - first
                zero = source[first] == _ZERO and (size > 1 or c == _MINUS)
                number = -number if c == _MINUS else number
                whole[to, n] = number
                fits = least[field] <= number <= most[field]
                if size == 0 or size > _MOST_DIGITS or zero or not fits:
                    at = -1
            elif what == TRUTH or (what == SKIPPED and (c == _T or c == _F)):
                if what == TRUTH:
                    whole[to, n] = c == _T
                at = _truth_end(source, at, stop)
            elif what == SKIPPED and c == _QUOTE:
                at = _text_end(source, at + 1, stop)
            else:
                at = _number_end(source, at, stop)
                if what == NUMBER and at >= 0:
                    o = end[to, n]
                    for j in range(0, at - first, 8):
                        text[to, o + j] = source_words[first + j]
                    end[to, n + 1] = o + at - first
            if at < 0:
                break
        if at >= 0 and stop - at == ends[-1] - lit:
            if _literal_end(source_words, at, literal, lit, ends[-1]) == stop:
                matched[i] = True
                n += 1
    return n
