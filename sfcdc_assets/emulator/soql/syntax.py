"""The syntax tree of a SOQL query. Every name and literal knows where it stands, for error messages with a caret."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class Name:
    """A field path (`Owner.Name`), an object name or a keyword argument, as written."""

    text: str
    position: int
    """Offset of its first character in the query."""


class LiteralKind(StrEnum):
    """What a literal looks like; whether it fits the field is decided later."""

    STRING = "STRING"
    NUMBER = "NUMBER"
    DATETIME = "DATETIME"
    DATE = "DATE"
    TIME = "TIME"
    BOOLEAN = "BOOLEAN"
    NULL = "NULL"
    DATE_LITERAL = "DATE_LITERAL"


@dataclass(frozen=True)
class Literal:
    """A literal as written, quotes and escapes included."""

    kind: LiteralKind
    text: str
    position: int


@dataclass(frozen=True)
class Comparison:
    """`field operator literals`: operators are = != < <= > >= LIKE IN NOT IN INCLUDES EXCLUDES."""

    field: Name
    operator: str
    literals: tuple[Literal, ...]


@dataclass(frozen=True)
class Negation:
    """NOT of one condition."""

    condition: Condition


@dataclass(frozen=True)
class Chain:
    """Conditions joined by one and the same operator, AND or OR."""

    operator: str
    conditions: tuple[Condition, ...]


Condition = Comparison | Negation | Chain


@dataclass(frozen=True)
class CountedField:
    """`COUNT(field) alias`."""

    field: Name
    alias: str | None


@dataclass(frozen=True)
class FieldGroup:
    """`FIELDS(ALL)`, `FIELDS(STANDARD)` or `FIELDS(CUSTOM)`."""

    group: Name


SelectItem = Name | CountedField | FieldGroup


@dataclass(frozen=True)
class Ordering:
    """One field of ORDER BY; nulls come first unless NULLS LAST is said."""

    field: Name
    descending: bool
    nulls_last: bool


@dataclass(frozen=True)
class Query:
    """A whole query; `items` is empty for `SELECT COUNT()`."""

    text: str
    items: tuple[SelectItem, ...]
    entity: Name
    where: Condition | None
    order_by: tuple[Ordering, ...]
    limit: int | None
    offset: int
    all_rows: bool

    @property
    def is_count(self) -> bool:
        """Whether it is `SELECT COUNT() FROM ...`."""
        return not self.items
