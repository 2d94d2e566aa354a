"""The columns of an entity's tables: what its newest event schema carries, and every column a table already has, as far
as SFCDC_EXCLUDE and SFCDC_HASH let them in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column, columns, columns_of_arrow_schema, hashed_fields
from sfcdc_assets.change_events.compound_field import leaf_columns
from sfcdc_assets.change_events.event_schema import schema_fields
from sfcdc_assets.change_events.privacy import NOTHING_PRIVATE, Compounds, Privacy, PrivacyConflict
from sfcdc_assets.lake.tables.schemas import EventSchema, Schemas, described_by
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.api_name import by_any_case
from sfcdc_assets.salesforce.object_description import ObjectDescription


class SchemaMissing(SfcdcError):
    """No Avro schema of the entity is known, so its columns are not either."""

    def __init__(self, entity: str) -> None:
        self.entity = entity
        super().__init__(
            f"{entity}: no change event schema is known. Check that Change Data Capture is switched on for {entity} "
            "(Setup, Change Data Capture) and that the integration user has View All on it, then take its snapshot."
        )


RETIRED = {"salesforce.retired": "true"}
"""Metadata of a column whose field the object no longer has; its last values stay."""


class PrivacyChanged(SfcdcError):
    """Tables of an entity were written with other settings of SFCDC_EXCLUDE, SFCDC_HASH or its key."""

    def __init__(self, entity: str, conflicts: Mapping[str, Sequence[PrivacyConflict]]) -> None:
        self.entity = entity
        self.conflicts = conflicts
        description = "; ".join(f"in {table} {', '.join(map(str, found))}" for table, found in conflicts.items())
        super().__init__(
            f"{entity}: its tables were written with other settings of SFCDC_EXCLUDE, SFCDC_HASH or SFCDC_HASH_KEY: "
            f"{description}. Set them back, or run `sfcdc rebuild --from-org --entity {entity}`, which removes the "
            "entity's tables and copies it again."
        )


def retired_columns(schemas: Schemas, entity: str, table: Sequence[Column]) -> frozenset[str]:
    """Names of table columns that the object, as it was last described, no longer has (or hides from the user)."""
    describe = newest_describe(schemas.of_entity(entity))
    if describe is None:
        return frozenset()
    fields = by_any_case(describe.field_names)
    return frozenset(column.name for column in table if column.name.lower() not in fields and column.name != "Id")


def entity_columns(schemas: Schemas, entity: str, table: pa.Schema | None, privacy: Privacy) -> tuple[Column, ...]:
    """Return the readable fields that any known schema carries, in describe's order, then the table's retired columns;
    without those that are left out for privacy, and hashed ones with their key.

    Several schemas are in use at a time (events wait for up to three days), so none of them alone has all columns;
    the freshest describe says which fields there are now. A field that was made again in another case has the column
    that it had, under the column's name. Raises `SchemaMissing`.
    """
    known = schemas.of_entity(entity)
    if not known:
        raise SchemaMissing(entity)
    describe = newest_describe(known)
    described = next((schema.describe_json for schema in reversed(known) if schema.describe_json), None)
    every = [column for schema in known for column in _columns(schema.schema_json, described)]
    spelt = by_any_case(column.name for column in every)
    found = {column.name: column for column in every if spelt[column.name.lower()] == column.name}
    if describe is not None:
        order = {field.name: number for number, field in enumerate(describe.fields)}
        order["Id"] = -1
        found = dict(sorted(found.items(), key=lambda item: order[item[0]]))
    present = {column.name: column for column in (columns_of_arrow_schema(table) if table is not None else ())}
    own = by_any_case(present)
    found = {column.name: column for column in (_in_case_of(own, each) for each in found.values())}
    found |= {
        name: replace(found[name], types_before=column.types_before, came_at=column.came_at, absences=column.absences)
        for name, column in present.items()
        if name in found and (column.types_before or column.came_at or column.absences)
    }
    # A text that was ever large has values in `text_fields`.
    large = {column.name for column in present.values() if column.large_text}
    for name in large & found.keys():
        if found[name].type is ColumnType.STRING:
            found[name] = replace(found[name], large_text=True)
    retired = [column for name, column in present.items() if name not in found]
    return privacy.columns(entity, (*found.values(), *retired), _compounds_if_concerned(known, entity, privacy))


@lru_cache(maxsize=256)
def _columns(schema_json: str, describe_json: str | None) -> tuple[Column, ...]:
    """Return what a schema and a describe make, of which each run of an entity asks several times."""
    return columns(json.loads(schema_json), described_by(describe_json) if describe_json else None)


def _in_case_of(own: Mapping[str, str], column: Column) -> Column:
    """Return the column under the name that the table has for it, which readers know."""
    name = own.get(column.name.lower(), column.name)
    return column if name == column.name else replace(column, name=name, field=column.name)


def columns_of_table(schemas: Schemas, entity: str, table: pa.Schema, privacy: Privacy) -> tuple[Column, ...]:
    """Return the columns of a table of the entity, the hashed ones with their key. Raises `PrivacyChanged`."""
    check_privacy(schemas, entity, {"its table": table}, privacy)
    return privacy.columns(
        entity, columns_of_arrow_schema(table), _compounds_if_concerned(schemas.of_entity(entity), entity, privacy)
    )


def check_privacy(schemas: Schemas, entity: str, tables: Mapping[str, pa.Schema], privacy: Privacy) -> None:
    """Raise `PrivacyChanged` when the entity's tables (by name) are not as the settings want them."""
    conflicts = privacy_conflicts(schemas, entity, tables, privacy)
    if conflicts:
        raise PrivacyChanged(entity, conflicts)


def privacy_conflicts(
    schemas: Schemas, entity: str, tables: Mapping[str, pa.Schema], privacy: Privacy
) -> Mapping[str, Sequence[PrivacyConflict]]:
    """Table -> its columns that are to be left out now, or to be hashed, or to be hashed otherwise, if it has any."""
    return conflicts_in(entity, tables, privacy, lambda each: compounds(schemas, each))


def conflicts_in(
    entity: str, tables: Mapping[str, pa.Schema], privacy: Privacy, compounds_of: Callable[[str], Compounds]
) -> Mapping[str, Sequence[PrivacyConflict]]:
    """Return the conflicts. Where no rule concerns the entity only hashed columns are not as the settings want them,
    and nobody asks what belongs to which compound field."""
    if privacy.concerns(entity):
        known, looked_at = compounds_of(entity), tables
    else:
        known, looked_at = {}, {name: hashed_fields(schema) for name, schema in tables.items()}
    found = {name: privacy.conflicts(entity, columns_of_arrow_schema(looked_at[name]), known) for name in looked_at}
    return {name: conflicts for name, conflicts in found.items() if conflicts}


@dataclass(frozen=True)
class PrivateColumns:
    """Columns of an entity that are left out, and that are hashed, by the settings; and all names that rules may use
    for its columns, those of compounds too."""

    left_out: tuple[str, ...]
    hashed: tuple[str, ...]
    names: frozenset[str]


def private_columns(schemas: Schemas, entity: str, privacy: Privacy) -> PrivateColumns:
    """Return what the settings say of the columns that the entity has now. Raises `SchemaMissing`."""
    every = entity_columns(schemas, entity, None, NOTHING_PRIVATE)
    kept = {column.name: column for column in entity_columns(schemas, entity, None, privacy)}
    of_compounds = compounds(schemas, entity)
    names = {column.name for column in every}
    return PrivateColumns(
        tuple(column.name for column in every if column.name not in kept),
        tuple(name for name, column in kept.items() if column.hash_key is not None),
        frozenset(names.union(*(of_compounds.get(name, ()) for name in names))),
    )


def _compounds_if_concerned(known: Sequence[EventSchema], entity: str, privacy: Privacy) -> Compounds:
    """None where no rule asks for them: they are read from all of the entity's schemas."""
    return _compounds(known) if privacy.concerns(entity) else {}


def compounds(schemas: Schemas, entity: str) -> Compounds:
    """Return which compound fields the entity's columns belong to or once belonged to, as events and describe say."""
    return _compounds(schemas.of_entity(entity))


def _compounds(known: Sequence[EventSchema]) -> Compounds:
    """Return which compound fields the columns belong to or once belonged to, as events and describe say."""
    found: dict[str, set[str]] = {}
    for schema in known:
        for field in schema_fields(json.loads(schema.schema_json))[1:]:
            for name, _, child in leaf_columns(field):
                if child is not None:
                    found.setdefault(name, set()).add(field.name)
        for described in schema.describe.fields if schema.describe else ():
            if described.compound_field_name:
                found.setdefault(described.name, set()).add(described.compound_field_name)
    return found


def newest_describe(known: Sequence[EventSchema]) -> ObjectDescription | None:
    """Return the object as it was last described, by the schemas of an entity; None where it never was."""
    return next((schema.describe for schema in reversed(known) if schema.describe_json), None)
