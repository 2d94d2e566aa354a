"""The text of a formula to its syntax tree, by the grammar in formula.lark."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedInput, UnexpectedToken

from sfcdc_assets.emulator.formulas.syntax import Call, Chain, Constant, Node, Prefixed, Reference

_GRAMMAR = Path(__file__).with_name("formula.lark")
_MAX_LENGTH = 3_900
_MAX_DEPTH = 60
"""So many parentheses within one another: what computes a formula goes down with them."""
_TEXT_COMMENT_OR_PARENTHESIS = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|/\*.*?\*/|[()]""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


class FormulaSyntaxError(Exception):
    """A formula that the org does not take, with the reason."""


@lru_cache(maxsize=1_000)
def parse_formula(text: str) -> Node:
    """Return the syntax tree. Raises FormulaSyntaxError."""
    if len(text) > _MAX_LENGTH:
        raise FormulaSyntaxError(f"Formula is too long ({len(text):,} characters). Maximum length is 3,900 characters.")
    _check_depth(text)
    try:
        node = cast(Node, _parser().parse(text))  # a transformer is at work, so that it is no tree of lark's
    except UnexpectedInput as error:
        is_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        position = len(text) if is_end else error.pos_in_stream or 0
        found = "the end" if is_end else repr(text[position : position + 20])
        raise FormulaSyntaxError(f"Error: Syntax error. Found {found} at character {position + 1}") from None
    return node


def _check_depth(text: str) -> None:
    depth = 0
    for found in _TEXT_COMMENT_OR_PARENTHESIS.finditer(text):
        depth += (found[0] == "(") - (found[0] == ")")
        if depth > _MAX_DEPTH:
            raise FormulaSyntaxError(f"a formula nests at most {_MAX_DEPTH} parentheses")


class _ToSyntax(Transformer[Token, Node]):
    """A method for each rule of the grammar, and named like it."""

    def formula(self, children: list[Node]) -> Node:
        return children[0]

    def group(self, children: list[Node]) -> Node:
        return children[0]

    def chain(self, children: list[Any]) -> Node:
        first, *rest = children
        if not rest:
            node: Node = first
            return node
        return Chain(first, tuple((str(sign), node) for sign, node in zip(rest[::2], rest[1::2], strict=True)))

    def prefixed(self, children: list[Any]) -> Node:
        *prefixes, operand = children
        if not prefixes:
            node: Node = operand
            return node
        return Prefixed(tuple("!" if sign.type == "NOT" else str(sign) for sign in prefixes), operand)

    def reference(self, children: list[Token]) -> Node:
        return Reference(str(children[0]))

    def call(self, children: list[Any]) -> Node:
        name, *arguments = children
        return Call(str(name).upper(), tuple(arguments))

    def text(self, children: list[Token]) -> Node:
        return Constant(_ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), children[0][1:-1]))

    def number(self, children: list[Token]) -> Node:
        return Constant(Decimal(children[0]))

    def true(self, _children: list[Token]) -> Node:
        return Constant(value=True)

    def false(self, _children: list[Token]) -> Node:
        return Constant(value=False)

    def null(self, _children: list[Token]) -> Node:
        return Constant(None)


@cache
def _parser() -> Lark:
    # Trees of LALR are built from the leaves up, so a formula of many operands needs no deep stack.
    grammar = _GRAMMAR.read_text(encoding="utf-8")
    return Lark(grammar, start="formula", parser="lalr", transformer=_ToSyntax(), maybe_placeholders=False)
