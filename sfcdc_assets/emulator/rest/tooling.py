"""tooling/query for PlatformEventChannelMember: which objects the ChangeEvents channel carries (facts section 8,
Tooling)."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.database import quoted
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.ids import instance_characters, new_id
from sfcdc_assets.emulator.object_definition import ObjectDefinition
from sfcdc_assets.emulator.object_file import object_definition
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.record_json import record_json
from sfcdc_assets.emulator.rest.rest_context import RestContext
from sfcdc_assets.emulator.soql.compiler import compile_query
from sfcdc_assets.emulator.store import columns_of

_MEMBER = object_definition(
    {
        "name": "PlatformEventChannelMember",
        "label": "Platform Event Channel Member",
        "key_prefix": "0v8",
        "name_field": "DeveloperName",
        "fields": [
            {"DeveloperName": {"type": "string", "length": 80}},
            {"MasterLabel": {"type": "string", "length": 80}},
            {"EventChannel": {"type": "string"}},
            {"SelectedEntity": {"type": "string"}},
        ],
    },
    "PlatformEventChannelMember",
)


def add_tooling(context: RestContext) -> None:
    """The query resource of the Tooling API, with this one object."""

    def query(request: ApiRequest) -> Response:
        text = request.query.get("q")
        if not text:
            raise ApiError("MALFORMED_QUERY", "A query string has to be specified")
        database = context.org.database
        compiled = compile_query(text, {_MEMBER.name: _MEMBER}, now=context.org.clock())
        with database.lock:
            # Made anew for each query, because the objects of the channel are a plain list that anyone may change.
            database.execute(f"CREATE TEMP TABLE {quoted(_MEMBER.name)} ({', '.join(_columns(_MEMBER))})")
            try:
                rows = [_member(context, number, name) for number, name in enumerate(context.org.selected_entities, 1)]
                marks = ", ".join("?" * len(_columns(_MEMBER)))
                database.execute_many(f"INSERT INTO {quoted(_MEMBER.name)} VALUES ({marks})", rows)
                found = database.rows(compiled.sql, compiled.parameters)
            finally:
                database.execute(f"DROP TABLE {quoted(_MEMBER.name)}")
        if compiled.query.is_count:
            return JSONResponse({"totalSize": found[0][0], "size": found[0][0], "done": True, "records": []})
        records = [record_json(compiled, row, f"{request.data_path}/tooling") for row in found]
        body = {"size": len(records), "totalSize": len(records), "done": True, "queryLocator": None}
        return JSONResponse(body | {"entityTypeName": _MEMBER.name, "records": records})

    context.add("/tooling/query", {"GET": query})


def event_entity(name: str) -> str:
    """Account -> AccountChangeEvent, Invoice_Statement__c -> Invoice_Statement__ChangeEvent."""
    return f"{name[:-1]}ChangeEvent" if name.endswith("__c") else f"{name}ChangeEvent"


def _columns(definition: ObjectDefinition) -> list[str]:
    return [quoted(field.name) for field in columns_of(definition)]


def _member(context: RestContext, number: int, name: str) -> tuple[str | int, ...]:
    org, entity = context.org, event_entity(name)
    changed = int(org.definitions_modified.timestamp()) * 1000
    values: dict[str, str | int] = {
        "Id": new_id("0v8", instance_characters(org.seed), number),
        "IsDeleted": 0,
        "DeveloperName": f"ChangeEvents_{entity}".replace("__", "_"),
        "MasterLabel": entity,
        "EventChannel": "ChangeEvents",
        "SelectedEntity": entity,
        "CreatedDate": changed,
        "CreatedById": org.users.integration,
        "LastModifiedDate": changed,
        "LastModifiedById": org.users.integration,
        "SystemModstamp": changed,
    }
    return tuple(values[field.name] for field in columns_of(_MEMBER))
