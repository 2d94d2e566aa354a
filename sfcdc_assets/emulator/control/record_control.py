"""The records as they are, and what administrators do to them: emptied bins, hard deletes, converted fields."""

from __future__ import annotations

from itertools import islice
from typing import Any

from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import ControlError, Parameters, control_route, text, whole_number
from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org.org import EmulatedOrg

_MOST = 2_000


def record_routes(org: EmulatedOrg) -> list[Route]:
    """Return the routes to the truth, page by page, and to the actions.

    `GET /emulator/records/{entity}?after=Id&limit=N`: records in order of Id, deleted ones too, with all stored and
    computed fields; `next_after` is null on the last page; `purged`, on the first, lists the ids that are gone.
    `POST /emulator/recycle-bin/empty {"entity": optional}` and
    `POST /emulator/records/{entity}/hard-delete {"ids": [...]}` remove records for good; only live ones raise an event.
    `POST /emulator/records/{entity}/clear-field {"field": name}` nulls a field of all records, with one event `001*`;
    `POST /emulator/records/{entity}/archive {"ids": [...]}` archives activities, with gap events. `.../convert-field`
    makes a picklist a multi-select one, with a gap event for each record that has a value.
    """

    def records(parameters: Parameters) -> Any:
        definition = _definition(org, parameters)
        limit = min(_MOST, whole_number(parameters, "limit", 500, least=1))
        after = str(parameters.get("after", ""))
        with org.database.lock:
            found = list(islice(org.store.records(definition, include_deleted=True, after=after), limit))
            purged = org.store.purged_ids(definition) if not after else []
        following = found[-1]["Id"] if len(found) == limit else None
        return {"records": found, "next_after": following, "purged": purged}

    def empty(parameters: Parameters) -> Any:
        definitions = [_definition(org, parameters)] if "entity" in parameters else list(org.definitions.values())
        removed = 0
        with org.transaction() as unit_of_work:
            for definition in definitions:
                if definition.deletable:
                    for record_id in org.store.deleted_ids(definition):
                        unit_of_work.hard_delete(definition.name, record_id)
                        removed += 1
        return {"removed": removed}

    def hard_delete(parameters: Parameters) -> Any:
        definition, ids = _definition(org, parameters), _ids(parameters)
        with org.transaction() as unit_of_work:
            for record_id in ids:
                unit_of_work.hard_delete(definition.name, record_id)
        return {"removed": len(ids)}

    def archive(parameters: Parameters) -> Any:
        definition, ids = _definition(org, parameters), _ids(parameters)
        with org.transaction(user_id=org.users.automated_process) as unit_of_work:
            for record_id in ids:
                unit_of_work.archive(definition.name, record_id)
        return {"archived": len(ids)}

    def clear_field(parameters: Parameters) -> Any:
        definition = _definition(org, parameters)
        with org.transaction() as unit_of_work:
            unit_of_work.clear_field(definition.name, text(parameters, "field"))
        return {"record_ids": [definition.key_prefix + "*"]}

    def convert_field(parameters: Parameters) -> Any:
        definition = _definition(org, parameters)
        field = definition.field(text(parameters, "field"))
        if field is None or field.type != "picklist":
            raise ControlError(f"{definition.name} has no picklist {parameters['field']}")
        return {"records": org.setup.change_type(definition.name, field.name, {"type": "multipicklist"}).records}

    return [
        control_route("/records/{entity}", "GET", records),
        control_route("/recycle-bin/empty", "POST", empty),
        control_route("/records/{entity}/hard-delete", "POST", hard_delete),
        control_route("/records/{entity}/archive", "POST", archive),
        control_route("/records/{entity}/clear-field", "POST", clear_field),
        control_route("/records/{entity}/convert-field", "POST", convert_field),
    ]


def _ids(parameters: Parameters) -> list[str]:
    ids = parameters.get("ids")
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise ControlError("ids must be a list of record ids")
    return ids


def _definition(org: EmulatedOrg, parameters: Parameters) -> ObjectDefinition:
    name = text(parameters, "entity")
    if name not in org.definitions:
        raise ControlError(f"there is no object {name}; there are {', '.join(org.definitions)}")
    return org.definitions[name]
