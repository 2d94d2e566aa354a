"""The shape of an object, as rows: the object itself, its fields, picklist values and record types, and what refers to
it.

Columns are attributes of describe in snake_case (`labelPlural` is `label_plural`), as the Object Reference and the REST
API Developer Guide explain them ("sObject Describe"). `object_description` has the few of them that columns of tables
are made from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sfcdc_assets.salesforce.api_name import is_api_name

Row = Mapping[str, Any]

OBJECT = "entity_name"
"""The column with the API name of the object that was described."""
SORT_ORDER = "sort_order"
_HASH_BYTES = 7
_SPELT = {"child_sobject": "childSObject"}


@dataclass(frozen=True)
class ShapeTable:
    """A table of the shapes of all objects. `key`: the columns that say which row is which."""

    name: str
    key: tuple[str, ...]
    schema: pa.Schema


def _table(
    name: str, key: Sequence[str], *, texts: str = "", flags: str = "", numbers: str = "", lists: str = ""
) -> ShapeTable:
    typed = [(pa.string(), texts), (pa.bool_(), flags), (pa.int32(), numbers), (pa.list_(pa.string()), lists)]
    columns = [(column, type_) for type_, columns in typed for column in columns.split()]
    return ShapeTable(name, (OBJECT, *key), pa.schema([(OBJECT, pa.string()), *columns]))


OBJECTS = _table(
    "objects",
    [],
    texts="label label_plural key_prefix associate_entity_type associate_parent_entity",
    flags="custom custom_setting queryable retrieveable replicateable searchable createable updateable deletable "
    "undeletable mergeable triggerable layoutable feed_enabled has_subtypes is_subtype deprecated_and_hidden",
)
FIELDS = _table(
    "fields",
    ["name"],
    texts="name label type soap_type inline_help_text compound_field_name extra_type_info calculated_formula "
    "default_value default_value_formula controller_name relationship_name reference_target_field",
    flags="custom nillable calculated auto_number unique external_id id_lookup name_field case_sensitive encrypted "
    "createable updateable filterable sortable groupable aggregatable permissionable restricted_picklist "
    "dependent_picklist polymorphic_foreign_key cascade_delete restricted_delete html_formatted deprecated_and_hidden",
    numbers="length byte_length precision scale digits relationship_order",
    lists="reference_to",
)
PICKLIST_VALUES = _table(
    "picklist_values",
    ["field", "value"],
    texts="field value label valid_for",
    flags="active default_value",
    numbers=SORT_ORDER,
)
RELATIONSHIPS = _table(
    "relationships",
    ["child_sobject", "field"],
    texts="child_sobject field relationship_name",
    flags="cascade_delete restricted_delete deprecated_and_hidden",
    lists="junction_id_list_names junction_reference_to",
)
RECORD_TYPES = _table(
    "record_types",
    ["record_type_id"],
    texts="record_type_id name developer_name",
    flags="active available default_record_type_mapping master",
)
SHAPE_TABLES = (OBJECTS, FIELDS, PICKLIST_VALUES, RELATIONSHIPS, RECORD_TYPES)


@dataclass(frozen=True)
class ObjectShape:
    """What one describe said: the name of each table -> the object's rows in it, each key once."""

    entity: str
    rows: Mapping[str, tuple[Row, ...]]

    @classmethod
    def from_describe(cls, described: Mapping[str, Any]) -> ObjectShape:
        """Read a raw describe. What it leaves out, or says in another type, is null or no row. Raises `KeyError`
        without a name."""
        fields = [each for each in _list(described, "fields") if is_api_name(each.get("name"))]
        values = [
            {"field": field["name"], SORT_ORDER: number, **each}
            for field in fields
            for number, each in enumerate(_list(field, "picklistValues"), 1)
        ]
        said: Mapping[ShapeTable, Iterable[Row]] = {
            OBJECTS: [described],
            FIELDS: fields,
            PICKLIST_VALUES: values,
            RELATIONSHIPS: _list(described, "childRelationships"),
            RECORD_TYPES: _list(described, "recordTypeInfos"),
        }
        entity = str(described["name"])
        return cls(entity, {table.name: tuple(_rows(entity, table, rows)) for table, rows in said.items()})

    def fingerprint(self, table: ShapeTable) -> int:
        """Return a number below 2**56 that another content of the object's rows, or other columns, would change."""
        said = json.dumps([table.schema.names, self.rows[table.name]], sort_keys=True)
        return int.from_bytes(hashlib.sha256(said.encode()).digest()[:_HASH_BYTES])


def _rows(entity: str, table: ShapeTable, said: Iterable[Row]) -> Iterator[Row]:
    columns = [(field.name, _attribute(field.name), _READ[field.type]) for field in table.schema]
    seen = set()
    for each in said:
        row = {name: read(each.get(attribute, each.get(name))) for name, attribute, read in columns}
        row[OBJECT] = entity
        key = tuple(row[name] for name in table.key)
        if None not in key and key not in seen:
            seen.add(key)
            yield row


def _attribute(column: str) -> str:
    """Return how describe spells a column's name."""
    first, *others = column.split("_")
    return _SPELT.get(column) or first + "".join(part.capitalize() for part in others)


def _text(said: object) -> str | None:
    """Return it as text: a default value may be of any type."""
    return said if said is None or isinstance(said, str) else json.dumps(said)


def _flag(said: object) -> bool | None:
    return said if isinstance(said, bool) else None


def _number(said: object) -> int | None:
    return said if isinstance(said, int) and not isinstance(said, bool) and abs(said) < 2**31 else None


def _names(said: object) -> list[str] | None:
    return [str(each) for each in said] if isinstance(said, list) else None


_READ: Mapping[pa.DataType, Callable[[object], object]] = {
    pa.string(): _text,
    pa.bool_(): _flag,
    pa.int32(): _number,
    pa.list_(pa.string()): _names,
}
"""How a value of describe becomes one of a column of this type; what is none of it is null."""


def _list(said: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = said.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
