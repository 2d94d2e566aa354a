"""The query of a PushTopic: which are supported, in the vendor's words (Streaming API Developer Guide, "PushTopic
Queries"), and what notifications need of one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.soql.compiler import compile_query
from sfcdc_assets.emulator.soql.syntax import Condition, Name, tests_in

LONGEST = 1_300
STANDARD_OBJECTS = frozenset({"Account", "Campaign", "Case", "Contact", "Lead", "Opportunity", "Task"})
"""Beside all custom objects."""

_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)
_WHERE = re.compile(r"\bWHERE\b", re.IGNORECASE)
_NOT_SUPPORTED = (
    (re.compile(r"\bTYPEOF\b", re.IGNORECASE), "'TYPEOF' clause is not allowed"),
    (re.compile(r"\bIN\s*\(\s*SELECT\b", re.IGNORECASE), "semi/anti join sub-selects are not supported"),
    (
        re.compile(r"\b(?:AVG|MAX|MIN|SUM|COUNT|COUNT_DISTINCT)\s*\(", re.IGNORECASE),
        "Aggregate queries are not supported",
    ),
    (re.compile(r"\bGROUP\s+BY\b", re.IGNORECASE), "Aggregate queries are not supported"),
    (re.compile(r"\bORDER\s+BY\b", re.IGNORECASE), "'ORDER BY' clause is not allowed"),
    (re.compile(r"\bLIMIT\b", re.IGNORECASE), "'LIMIT' is not allowed"),
    (re.compile(r"\bOFFSET\b", re.IGNORECASE), "'OFFSET' clause is not allowed"),
    (re.compile(r"\bNOT\b(?!\s+IN\b)", re.IGNORECASE), "'NOT' is not supported"),
)


@dataclass(frozen=True)
class TopicQuery:
    """A supported query: the object, the fields it selects and those its condition names (API names, compounds as
    such), and the condition's text."""

    entity: str
    selected: tuple[str, ...]
    where_fields: tuple[str, ...]
    where: str | None


def topic_query(text: str, definitions: Mapping[str, ObjectDefinition], hidden: frozenset[str]) -> TopicQuery:
    """Check a query. Raises QueryError (INVALID_FIELD mostly) with the vendor's text, or that of SOQL."""
    masked = _TEXT.sub(lambda found: "'" + "x" * (len(found[0]) - 2) + "'", text)
    for pattern, message in _NOT_SUPPORTED:
        if pattern.search(masked):
            raise QueryError("INVALID_FIELD", message)
    compiled = compile_query(text.rstrip("; \n"), definitions, now=0, hidden=hidden)
    query, definition = compiled.query, compiled.definition
    if not definition.custom and definition.name not in STANDARD_OBJECTS:
        raise QueryError("INVALID_FIELD", f"entity type {definition.name} is not supported in PushTopic queries")
    where = tuple(dict.fromkeys(_names(query.where))) if query.where else ()
    names = [item.text for item in query.items if isinstance(item, Name)]
    if any("." in name for name in (*names, *where)):
        raise QueryError("INVALID_FIELD", "relationships are not supported")
    selected = tuple(_field(definition, name).name for name in names)
    if len(names) != len(query.items) or "Id" not in selected:
        raise QueryError("INVALID_FIELD", "the Id field must be in the SELECT clause")
    named = [_field(definition, name) for name in where]
    for field in named:
        if field.type == "textarea":
            raise QueryError("INVALID_FIELD", f"field {field.name} is a text area and cannot be searched")
        if field.is_formula:
            raise QueryError("INVALID_FIELD", f"formula field {field.name} is not supported in the WHERE clause")
    at = _WHERE.search(masked)
    condition = text[at.end() :].strip().rstrip(";").strip() if at else None
    return TopicQuery(definition.name, selected, tuple(field.name for field in named), condition)


def _field(definition: ObjectDefinition, name: str) -> FieldDefinition:
    field = definition.field(name)
    if field is None:
        raise QueryError("INVALID_FIELD", f"No such column '{name}' on entity '{definition.name}'")
    return field


def _names(condition: Condition) -> Iterator[str]:
    """Yield the fields that a condition names. Raises QueryError for date functions of them."""
    for test in tests_in(condition):
        if not isinstance(test.field, Name):
            raise QueryError("MALFORMED_QUERY", f"unexpected token: '{test.field.function}'")
        yield test.field.text
