"""What a query is compiled to: one SQLite query with bound parameters, and the meaning of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.soql.literal_value import Parameter
from sfcdc_assets.emulator.soql.syntax import Query


@dataclass(frozen=True)
class SelectedField:
    """A field of the result: its path, and where its values are in a row (a compound address has several)."""

    path: tuple[str, ...]
    field: FieldDefinition
    first: int
    components: tuple[FieldDefinition, ...] = ()


@dataclass(frozen=True)
class ParentRecord:
    """A parent record of the result (`Owner` of `Owner.Name`): its object, and where its id is in a row."""

    path: tuple[str, ...]
    definition: ObjectDefinition
    id_column: int


@dataclass(frozen=True)
class ParentByType:
    """A parent that may be of several objects: where its id is in a row, and the fields to show of each object."""

    name: str
    id_column: int
    fields: Mapping[str, tuple[SelectedField, ...]]
    """By object; one that is not here is not shown."""
    definitions: tuple[ObjectDefinition, ...]
    """The objects it may be of."""


@dataclass(frozen=True)
class CompiledQuery:
    """An SQL query and how to read its rows. Column 0 is the record's Id, except for counts."""

    query: Query
    definition: ObjectDefinition
    sql: str
    parameters: tuple[Parameter, ...]
    selected: tuple[SelectedField, ...] = ()
    parents: tuple[ParentRecord, ...] = ()
    counts: tuple[str, ...] = ()
    """Names of the columns of an aggregate query, in order; `SELECT COUNT()` has the one name `count`."""
    count_fields: tuple[FieldDefinition | None, ...] = ()
    """Whose form the values of those columns have; None for plain numbers."""
    children: tuple[ChildRows, ...] = ()
    by_type: tuple[ParentByType, ...] = ()
    others: tuple[ObjectDefinition, ...] = ()
    """Further objects that the query reads: parents of records, and those of inner queries."""


@dataclass(frozen=True)
class ChildRows:
    """An inner query of a record's children: `compiled` has one more parameter, the parents' ids as a JSON list, and
    one more column, the parent's id. `limit` and `offset` count for each parent."""

    name: str
    compiled: CompiledQuery
    limit: int | None
    offset: int
