"""A query as a value: what is asked for, however it may be written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Path:
    """A field, over parents or not: `("Account", "Owner", "Name")`."""

    steps: tuple[str, ...]

    @property
    def text(self) -> str:
        return ".".join(self.steps)


@dataclass(frozen=True)
class Part:
    """A date function of a date or datetime."""

    function: str
    path: Path
    in_user_zone: bool = False

    @property
    def text(self) -> str:
        inner = f"convertTimezone({self.path.text})" if self.in_user_zone else self.path.text
        return f"{self.function}({inner})"


@dataclass(frozen=True)
class Total:
    """An aggregate of a field."""

    function: str
    path: Path

    @property
    def text(self) -> str:
        return f"{self.function}({self.path.text})"


Operand = Path | Part | Total


@dataclass(frozen=True)
class Literal:
    """What a literal is written like, and stands for: for `DATE_LITERAL` its own text."""

    text: str
    value: Any
    is_date_literal: bool = False


@dataclass(frozen=True)
class Test:
    """A comparison; `is_labelled`: of `toLabel(field)`."""

    __test__ = False
    operand: Operand
    operator: str
    literals: tuple[Literal, ...]
    is_labelled: bool = False


@dataclass(frozen=True)
class Join:
    """`field IN (SELECT inner FROM entity WHERE ...)`."""

    path: Path
    negated: bool
    entity: str
    inner: Path
    where: Condition | None


@dataclass(frozen=True)
class Not:
    condition: Condition


@dataclass(frozen=True)
class Chain:
    word: str
    conditions: tuple[Condition, ...]


Condition = Test | Join | Not | Chain


@dataclass(frozen=True)
class Item:
    """A selected field, date function or aggregate; `wrapped` in toLabel or FORMAT."""

    operand: Operand
    alias: str | None = None
    wrapped: str | None = None


@dataclass(frozen=True)
class TypeOf:
    """The fields of a parent by its object; under None those of ELSE."""

    relationship: str
    fields: dict[str | None, tuple[str, ...]]


@dataclass(frozen=True)
class Order:
    operand: Operand
    direction: str = ""
    nulls: str = ""


@dataclass(frozen=True)
class Query:
    """`is_total`: its order leaves nothing open. `relationship`: the name in FROM of a query of children."""

    entity: str
    items: tuple[Item, ...]
    where: Condition | None = None
    group_by: tuple[Path | Part, ...] = ()
    having: Condition | None = None
    order_by: tuple[Order, ...] = ()
    is_total: bool = False
    limit: int | None = None
    offset: int = 0
    all_rows: bool = False
    children: tuple[Query, ...] = ()
    typeof: TypeOf | None = None
    relationship: str | None = None
    is_count: bool = False

    @property
    def is_aggregate(self) -> bool:
        return bool(self.group_by) or any(isinstance(item.operand, Total) for item in self.items)
