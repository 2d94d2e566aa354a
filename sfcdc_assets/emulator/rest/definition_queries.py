"""What Salesforce refuses of queries over EntityDefinition and FieldDefinition: more than one batch, and the fields of
all objects at once.

https://developer.salesforce.com/docs/atlas.en-us.api_tooling.meta/api_tooling/reference_objects_soql_limits.htm names
more (OR, NOT, GROUP BY); those queries are answered here.
"""

from __future__ import annotations

from collections.abc import Iterator

from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.object_definition import ObjectDefinition
from sfcdc_assets.emulator.soql.compiled_query import CompiledQuery
from sfcdc_assets.emulator.soql.syntax import Chain, Comparison, Condition, Membership, Name, Query

_IN_ONE_BATCH = frozenset({"EntityDefinition", "FieldDefinition"})
_FIELDS = "FieldDefinition"
_NEEDED = ("EntityDefinitionId", "DurableId")


def check_definition_query(query: Query, definition: ObjectDefinition) -> None:
    """Refuse a query for the fields of all objects. Raises QueryError MALFORMED_QUERY."""
    if definition.name != _FIELDS:
        return
    known = {each.lower() for each in _NEEDED}
    if not any(path.startswith("entitydefinition.") or path in known for path in _equalled(query.where)):
        message = f"{_FIELDS}: a filter on a reified column is required [{','.join(_NEEDED)}]"
        raise QueryError("MALFORMED_QUERY", message)


def check_one_batch(compiled: CompiledQuery) -> None:
    """Refuse a further page of groups and of definitions. Raises QueryError EXCEEDED_ID_LIMIT."""
    name = compiled.definition.name
    if compiled.counts or name in _IN_ONE_BATCH:
        what = "Aggregate query" if compiled.counts else name
        message = f"{what} does not support queryMore(), use LIMIT to restrict the results to a single batch"
        raise QueryError("EXCEEDED_ID_LIMIT", message)


def _equalled(condition: Condition | None) -> Iterator[str]:
    """The fields, in lower case, that must have one of some values for the condition to be true."""
    if isinstance(condition, Chain) and condition.operator.upper() == "AND":
        for part in condition.conditions:
            yield from _equalled(part)
    elif isinstance(condition, Membership) and not condition.negated:
        yield condition.field.text.lower()
    elif isinstance(condition, Comparison) and condition.operator in {"=", "IN"} and isinstance(condition.field, Name):
        yield condition.field.text.lower().removeprefix("fielddefinition.")
