"""SOQL text to syntax tree, by the grammar in soql.lark.

Most queries select fields by name alone, which a regular expression takes apart in a fraction of the parser's time:
the parser is given one name in their place, and as many blanks as keep all that follows where it stands.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError

from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.soql.refusal import refusal
from sfcdc_assets.emulator.soql.syntax import Name, Query
from sfcdc_assets.emulator.soql.tree import ToSyntax

_GRAMMAR = Path(__file__).with_name("soql.lark")
_MAX_LENGTH = 100_000
_MAX_DEPTH = 100
_TEXT_OR_PARENTHESIS = re.compile(r"'(?:[^'\\]|\\.)*'?|[()]", re.DOTALL)
"""A text need not end: looking for each quote's end in vain would take a time that grows with the square."""
_NAME = re.compile(r"[A-Za-z]\w*(?:\.[A-Za-z]\w*)*", re.ASCII)
_NAMES_ALONE = re.compile(
    rf"\s*SELECT\s+(?P<names>{_NAME.pattern}(?:\s*,\s*{_NAME.pattern})+)\s+FROM\s", re.ASCII | re.IGNORECASE
)
_BRANCHES = re.compile(r"TYPEOF\b", re.IGNORECASE)


def parse_query(text: str) -> Query:
    """Return the syntax tree of a query. Raises QueryError MALFORMED_QUERY for anything the grammar has not."""
    if len(text) > _MAX_LENGTH:
        raise refusal("QUERY_TOO_COMPLICATED", text[:80], 0, f"SOQL queries have at most {_MAX_LENGTH:,} characters")
    _check_depth(text)
    found = _NAMES_ALONE.match(text)
    if found is None or _BRANCHES.search(found["names"]):
        return _parsed(text, text)
    begin, end = found.span("names")
    query = _parsed(text, f"{text[:begin]}X{' ' * (end - begin - 1)}{text[end:]}")
    return replace(query, items=tuple(Name(each[0], each.start()) for each in _NAME.finditer(text, begin, end)))


def _parsed(text: str, shortened: str) -> Query:
    """Return the syntax tree of a text, which errors show, by another one that has the same words at the same
    places."""
    try:
        tree = _parser().parse(shortened)
    except UnexpectedToken as error:
        position = error.token.start_pos if error.token.type != "$END" else len(text)
        shown = str(error.token) if error.token.type != "$END" else "<EOF>"
        raise refusal("MALFORMED_QUERY", text, position or 0, f"unexpected token: '{shown}'") from None
    except UnexpectedCharacters as error:
        position = error.pos_in_stream or 0
        raise refusal("MALFORMED_QUERY", text, position, f"unexpected token: '{text[position]}'") from None
    except UnexpectedEOF:
        raise refusal("MALFORMED_QUERY", text, len(text), "unexpected token: '<EOF>'") from None
    try:
        query: Query = ToSyntax(text).transform(tree)
    except VisitError as error:
        # lark wraps what its callbacks raise; the refusal inside is what the client has to see.
        if isinstance(error.orig_exc, QueryError):
            raise error.orig_exc from None
        raise
    return query


def _check_depth(text: str) -> None:
    """Bound the depth: what walks the tree later on goes a level down for each parenthesis, which has to end
    somewhere."""
    depth = 0
    for found in _TEXT_OR_PARENTHESIS.finditer(text):
        depth += (found[0] == "(") - (found[0] == ")")
        if depth > _MAX_DEPTH:
            reason = f"a query nests at most {_MAX_DEPTH} parentheses"
            raise refusal("QUERY_TOO_COMPLICATED", text, found.start(), reason)


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR.read_text(encoding="utf-8"), start="query", parser="lalr", maybe_placeholders=False)
