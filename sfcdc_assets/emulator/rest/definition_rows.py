"""The rows of EntityDefinition and FieldDefinition: the org's objects and fields, as Setup shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.soql.compiled_query import CompiledQuery
from sfcdc_assets.emulator.soql.condition import is_filterable, is_groupable, is_sortable
from sfcdc_assets.emulator.soql.query_rules import equalled
from sfcdc_assets.emulator.soql.syntax import Query

Facts = Iterator[tuple[str, Mapping[str, StoredValue]]]
"""Id and what is known of each row; the rest is null."""


def visible_objects(org: EmulatedOrg) -> list[ObjectDefinition]:
    """Return those that the client knows, with the fields that it may see."""
    definitions = org.field_security.visible_definitions
    return [each for name, each in definitions.items() if name not in org.hidden_objects]


def object_facts(org: EmulatedOrg) -> Facts:
    """Rows of EntityDefinition."""
    for each in visible_objects(org):
        yield (
            each.name,
            {
                "DurableId": each.name,
                "QualifiedApiName": each.name,
                "DeveloperName": each.name.removesuffix("__c"),
                "MasterLabel": each.label,
                "Label": each.label,
                "PluralLabel": each.label_plural,
                "KeyPrefix": each.key_prefix,
                **dict.fromkeys(
                    (
                        "IsApexTriggerable", "IsTriggerable", "IsCustomizable", "IsSearchable", "IsLayoutable",
                        "IsEverCreatable", "IsEverUpdatable", "IsFlsEnabled",
                    ),
                    int(each.is_written),
                ),
                "IsQueryable": int(each.access.queryable),
                "IsRetrieveable": int(each.access.queryable and each.access.retrieveable),
                "IsReplicateable": int(each.is_replicateable),
                "IsIdEnabled": 1,
                "IsEverDeletable": int(each.deletable and each.is_written),
                "PublisherId": _publisher(custom=each.custom),
                "InternalSharingModel": "ReadWrite",
                "ExternalSharingModel": "Private",
            },
        )  # fmt: skip


def field_facts(org: EmulatedOrg) -> Facts:
    """Rows of FieldDefinition."""
    for each in visible_objects(org):
        for field in each.fields:
            durable_id = f"{each.name}.{field.field_id or field.name.removesuffix('Id')}"
            yield durable_id, _field(each, field, durable_id)


def _field(definition: ObjectDefinition, field: FieldDefinition, durable_id: str) -> dict[str, StoredValue]:
    return {
        "DurableId": durable_id,
        "QualifiedApiName": field.name,
        "EntityDefinitionId": definition.name,
        "DeveloperName": field.name.removesuffix("__c"),
        "MasterLabel": field.label,
        "Label": field.label,
        "DataType": _data_type(field),
        "ValueTypeId": field.type,
        "Length": field.length,
        "Precision": field.precision,
        "Scale": field.scale,
        "IsNillable": int(field.nillable),
        "IsCalculated": int(field.calculated),
        "IsIndexed": int(field.unique or field.external_id or field.type in {"id", "reference"}),
        "IsNameField": int(field.name == definition.name_field),
        "IsCompound": int(field.is_compound),
        "IsPolymorphicForeignKey": int(len(field.reference_to) > 1),
        "RelationshipName": field.relationship_name,
        "ExtraTypeInfo": field.extra_type_info,
        "IsApiFilterable": int(is_filterable(field)),
        "IsApiSortable": int(is_sortable(field)),
        "IsApiGroupable": int(is_groupable(field)),
        "PublisherId": _publisher(custom=field.custom),
    }


def _publisher(*, custom: bool) -> str:
    return "<local>" if custom else "System"


def _data_type(field: FieldDefinition) -> str:
    """Return the data type as Setup shows it: Text(80), Lookup(Account), Number(16, 2)."""
    if field.type == "reference":
        return f"Lookup({','.join(field.reference_to)})"
    if field.type in {"double", "currency", "percent", "int"}:
        name = {"double": "Number", "int": "Number"}.get(field.type, field.type.capitalize())
        return f"{name}({field.precision - field.scale}, {field.scale})"
    if field.type == "textarea":
        return f"Long Text Area({field.length})" if field.length > 255 else "Text Area(255)"
    names = {"string": f"Text({field.length})", "boolean": "Checkbox", "datetime": "Date/Time", "url": "URL(255)"}
    return names.get(field.type, field.type.capitalize())


_IN_ONE_BATCH = frozenset({"EntityDefinition", "FieldDefinition"})
_FIELDS = "FieldDefinition"
_NEEDED = ("EntityDefinitionId", "DurableId")


def check_definition_query(query: Query, definition: ObjectDefinition) -> None:
    """Refuse a query for the fields of all objects. Raises QueryError MALFORMED_QUERY."""
    if definition.name != _FIELDS:
        return
    known = {each.lower() for each in _NEEDED}
    if not any(path.startswith("entitydefinition.") or path in known for path in equalled(query, definition)):
        message = f"{_FIELDS}: a filter on a reified column is required [{','.join(_NEEDED)}]"
        raise QueryError("MALFORMED_QUERY", message)


def check_one_batch(compiled: CompiledQuery) -> None:
    """Refuse a further page of groups and of definitions. Raises QueryError EXCEEDED_ID_LIMIT."""
    name = compiled.definition.name
    if compiled.counts or name in _IN_ONE_BATCH:
        what = "Aggregate query" if compiled.counts else name
        message = f"{what} does not support queryMore(), use LIMIT to restrict the results to a single batch"
        raise QueryError("EXCEEDED_ID_LIMIT", message)
