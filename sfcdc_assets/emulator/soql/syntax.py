"""The syntax tree of a SOQL query. Every name and literal knows where it stands, for error messages with a caret."""

from __future__ import annotations

from collections.abc import Iterator
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
class Aggregate:
    """`COUNT(field)`, `SUM(field)` and so on; the function is in capitals."""

    function: str
    field: Name


@dataclass(frozen=True)
class DateFunction:
    """`CALENDAR_YEAR(field)` and so on, in capitals; `in_user_zone`: of `convertTimezone(field)`."""

    function: str
    field: Name
    in_user_zone: bool = False


Operand = Name | Aggregate | DateFunction


def named_field(operand: Operand) -> Name:
    """Return the field that an operand is, or is made of."""
    return operand if isinstance(operand, Name) else operand.field


@dataclass(frozen=True)
class Comparison:
    """`field operator literals`: operators are = != < <= > >= LIKE IN NOT IN INCLUDES EXCLUDES. Only HAVING compares
    aggregates."""

    field: Operand
    operator: str
    literals: tuple[Literal, ...]

    @property
    def position(self) -> int:
        """Where the left side stands."""
        return named_field(self.field).position


@dataclass(frozen=True)
class Membership:
    """`field IN (SELECT ...)`, or NOT IN."""

    field: Name
    query: Query
    negated: bool


@dataclass(frozen=True)
class Negation:
    """NOT of one condition."""

    condition: Condition


@dataclass(frozen=True)
class Chain:
    """Conditions joined by one and the same operator, AND or OR."""

    operator: str
    conditions: tuple[Condition, ...]


Condition = Comparison | Membership | Negation | Chain


def tests_in(condition: Condition) -> Iterator[Comparison | Membership]:
    """Yield what a condition is made of, left to right, without what joins or negates it."""
    if isinstance(condition, Negation):
        yield from tests_in(condition.condition)
    elif isinstance(condition, Chain):
        for part in condition.conditions:
            yield from tests_in(part)
    else:
        yield condition


@dataclass(frozen=True)
class ComputedField:
    """An aggregate or a date function among the selected fields."""

    operand: Aggregate | DateFunction
    alias: str | None


@dataclass(frozen=True)
class AliasedField:
    """`Name n`, which only grouped fields may have, and `toLabel(Status) label`."""

    field: Name
    alias: str
    is_label: bool = False


@dataclass(frozen=True)
class FormattedField:
    """`FORMAT(Amount) shown`, of a field or of an aggregate."""

    operand: Operand
    alias: str | None


@dataclass(frozen=True)
class ChildQuery:
    """`(SELECT ... FROM Contacts)` among the selected fields: its entity is the relationship's name."""

    query: Query


@dataclass(frozen=True)
class FieldGroup:
    """`FIELDS(ALL)`, `FIELDS(STANDARD)` or `FIELDS(CUSTOM)`."""

    group: Name


@dataclass(frozen=True)
class TypeBranch:
    """`WHEN Account THEN Phone, Name`; `entity` is None for ELSE."""

    entity: Name | None
    fields: tuple[Name, ...]


@dataclass(frozen=True)
class TypeOf:
    """`TYPEOF What WHEN Account THEN Phone ELSE Name END`: fields of a parent that may be of several objects."""

    relationship: Name
    branches: tuple[TypeBranch, ...]


SelectItem = Name | ComputedField | AliasedField | FormattedField | ChildQuery | FieldGroup | TypeOf


@dataclass(frozen=True)
class Ordering:
    """One field of ORDER BY; nulls come first unless NULLS LAST is said."""

    field: Operand
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
    alias: str | None = None
    group_by: tuple[Name | DateFunction, ...] = ()
    having: Condition | None = None

    @property
    def is_aggregate(self) -> bool:
        """Whether its rows are groups and not records."""
        return bool(self.group_by) or any(
            isinstance(item, ComputedField | FormattedField) and isinstance(item.operand, Aggregate)
            for item in self.items
        )

    @property
    def is_count(self) -> bool:
        """Whether it is `SELECT COUNT() FROM ...`."""
        return not self.items
