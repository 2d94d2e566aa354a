"""The parser's tree to the syntax tree: a method for each rule of soql.lark."""

from __future__ import annotations

import re
from typing import Any

from lark import Token, Transformer

from sfcdc_assets.emulator.soql.refusal import refusal
from sfcdc_assets.emulator.soql.syntax import (
    Aggregate,
    AliasedField,
    Chain,
    ChildQuery,
    Comparison,
    ComputedField,
    Condition,
    DateFunction,
    FieldGroup,
    FormattedField,
    Literal,
    LiteralKind,
    Membership,
    Name,
    Negation,
    Operand,
    Ordering,
    Query,
    TypeBranch,
    TypeOf,
)


def _name(token: Token) -> Name:
    return Name(str(token), token.start_pos or 0)


def _operand(part: Token | Operand) -> Operand:
    return _name(part) if isinstance(part, Token) else part


class ToSyntax(Transformer[Token, Query]):
    """One method a rule. Raises QueryError MALFORMED_QUERY for words that a rule leaves open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def query(self, parts: list[Any]) -> Query:
        items, (entity, alias), *rest = parts
        clauses = dict(rest)
        return Query(
            text=self._text,
            items=items,
            entity=entity,
            alias=alias,
            where=clauses.get("where"),
            order_by=clauses.get("order_by", ()),
            limit=clauses.get("limit"),
            offset=clauses.get("offset", 0),
            all_rows="all_rows" in clauses,
            group_by=clauses.get("group_by", ()),
            having=clauses.get("having"),
        )

    def entity(self, parts: list[Token]) -> tuple[Name, str | None]:
        return _name(parts[0]), str(parts[1]) if len(parts) > 1 else None

    def scope(self, parts: list[Token]) -> tuple[str, bool]:
        return self._word("scope", parts, {"EVERYTHING", "MINE", "TEAM"})

    def security(self, parts: list[Token]) -> tuple[str, bool]:
        return self._word("security", parts, {"SECURITY_ENFORCED", "USER_MODE", "SYSTEM_MODE"})

    def purpose(self, parts: list[Token]) -> tuple[str, bool]:
        return self._word("purpose", parts, {"VIEW", "REFERENCE", "UPDATE"})

    def _word(self, clause: str, parts: list[Token], allowed: set[str]) -> tuple[str, bool]:
        for token in parts:
            if token.upper() not in allowed:
                raise refusal("MALFORMED_QUERY", self._text, token.start_pos or 0, f"unexpected token: '{token}'")
        return clause, True

    def count_all(self, parts: list[Token]) -> tuple[()]:
        if parts[0].upper() != "COUNT":
            raise refusal("MALFORMED_QUERY", self._text, parts[0].start_pos or 0, "unexpected token: ')'")
        return ()

    def select_items(self, parts: list[Any]) -> tuple[Any, ...]:
        return tuple(parts)

    def selected_field(self, parts: list[Token]) -> Name | AliasedField:
        name = _name(parts[0])
        return AliasedField(name, str(parts[1])) if len(parts) > 1 else name

    def aggregate(self, parts: list[Token]) -> Aggregate:
        return Aggregate(parts[0].upper(), _name(parts[1]))

    def date_function(self, parts: list[Token]) -> DateFunction:
        return DateFunction(parts[0].upper(), _name(parts[1]))

    def date_function_in_user_zone(self, parts: list[Token]) -> DateFunction:
        return DateFunction(parts[0].upper(), _name(parts[1]), in_user_zone=True)

    def computed_field(self, parts: list[Any]) -> ComputedField:
        return ComputedField(parts[0], str(parts[1]) if len(parts) > 1 else None)

    def formatted_field(self, parts: list[Any]) -> FormattedField:
        return FormattedField(_operand(parts[0]), str(parts[1]) if len(parts) > 1 else None)

    def labelled_field(self, parts: list[Token]) -> AliasedField:
        name = _name(parts[0])
        return AliasedField(name, str(parts[1]) if len(parts) > 1 else name.text, is_label=True)

    def child_query(self, parts: list[Query]) -> ChildQuery:
        return ChildQuery(parts[0])

    def type_branch(self, parts: list[Token]) -> TypeBranch:
        return TypeBranch(_name(parts[0]), tuple(_name(part) for part in parts[1:]))

    def type_else(self, parts: list[Token]) -> TypeBranch:
        return TypeBranch(None, tuple(_name(part) for part in parts))

    def type_of(self, parts: list[Any]) -> TypeOf:
        return TypeOf(_name(parts[0]), tuple(parts[1:]))

    def field_group(self, parts: list[Token]) -> FieldGroup:
        return FieldGroup(_name(parts[0]))

    def where(self, parts: list[Condition]) -> tuple[str, Condition]:
        return "where", parts[0]

    def group_by(self, parts: list[Token | DateFunction]) -> tuple[str, tuple[Operand, ...]]:
        return "group_by", tuple(_operand(part) for part in parts)

    def having(self, parts: list[Condition]) -> tuple[str, Condition]:
        return "having", parts[0]

    def in_query(self, parts: list[Any]) -> Membership:
        return self._membership(parts, negated=False)

    def not_in_query(self, parts: list[Any]) -> Membership:
        return self._membership(parts, negated=True)

    def _membership(self, parts: list[Any], *, negated: bool) -> Membership:
        operand = _operand(parts[0])
        if not isinstance(operand, Name):
            reason = "The left operand of a semi join must be a field"
            raise refusal("MALFORMED_QUERY", self._text, operand.field.position, reason)
        return Membership(operand, parts[1], negated)

    def negation(self, parts: list[Condition]) -> Negation:
        return Negation(parts[0])

    def conjunction(self, parts: list[Condition]) -> Chain:
        return Chain("AND", tuple(parts))

    def disjunction(self, parts: list[Condition]) -> Chain:
        return Chain("OR", tuple(parts))

    def compare(self, parts: list[Any]) -> Comparison:
        operator = "!=" if parts[1] == "<>" else str(parts[1])
        return Comparison(_operand(parts[0]), operator, (parts[2],))

    def like(self, parts: list[Any]) -> Comparison:
        return Comparison(_operand(parts[0]), "LIKE", (parts[1],))

    def is_in(self, parts: list[Any]) -> Comparison:
        return Comparison(_operand(parts[0]), "IN", parts[1])

    def not_in(self, parts: list[Any]) -> Comparison:
        return Comparison(_operand(parts[0]), "NOT IN", parts[1])

    def includes(self, parts: list[Any]) -> Comparison:
        return Comparison(_operand(parts[0]), "INCLUDES", parts[1])

    def excludes(self, parts: list[Any]) -> Comparison:
        return Comparison(_operand(parts[0]), "EXCLUDES", parts[1])

    def literals(self, parts: list[Literal]) -> tuple[Literal, ...]:
        return tuple(parts)

    def literal(self, parts: list[Token]) -> Literal:
        token = parts[0]
        kind = "BOOLEAN" if token.type in {"TRUE", "FALSE"} else token.type
        return Literal(LiteralKind(kind), str(token), token.start_pos or 0)

    def order_by(self, parts: list[Ordering]) -> tuple[str, tuple[Ordering, ...]]:
        return "order_by", tuple(parts)

    def ordering(self, parts: list[Any]) -> Ordering:
        words = [str(part).upper() for part in parts[1:]]
        return Ordering(_operand(parts[0]), descending="DESC" in words, nulls_last="LAST" in words)

    def nulls(self, parts: list[Token]) -> str:
        return str(parts[0])

    def limit(self, parts: list[Token]) -> tuple[str, int]:
        return "limit", self._whole_number(parts[0])

    def offset(self, parts: list[Token]) -> tuple[str, int]:
        return "offset", self._whole_number(parts[0])

    def all_rows(self, _parts: list[Any]) -> tuple[str, bool]:
        return "all_rows", True

    def _whole_number(self, token: Token) -> int:
        if not re.fullmatch(r"\d{1,9}", token):
            raise refusal("MALFORMED_QUERY", self._text, token.start_pos or 0, f"unexpected token: '{token}'")
        return int(token)
