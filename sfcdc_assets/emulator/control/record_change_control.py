"""Changing records as a person does, whose values are text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import ControlError, Parameters, control_route, text
from sfcdc_assets.emulator.org.record_editing import RecordEditing, record_id_of


def record_change_routes(editing: RecordEditing) -> list[Route]:
    """`POST /emulator/change {"target": id or object, "values": {field: text}, "action": ...}`.

    `action` is `save` (the default: updates the record, or creates one of an object), `delete`, `undelete` or `convert`
    (a lead). An empty text is null. Answers `entity`, `id` and what was `done`; a conversion also the new ids.
    """

    def change(parameters: Parameters) -> Any:
        target, action = text(parameters, "target"), parameters.get("action", "save")
        values = parameters.get("values", {})
        if not isinstance(values, Mapping) or not all(isinstance(each, str) for each in values.values()):
            raise ControlError("values must be an object of field names and texts")
        definition = editing.definition_of(target)
        entity = definition.name
        if target.lower() == entity.lower():
            if action != "save":
                raise ControlError(f"to {action} a record, give its id as target")
            return {"entity": entity, "id": editing.create(entity, values), "done": "created"}
        record_id = record_id_of(target)
        if action == "save":
            editing.update(entity, record_id, values)
            return {"entity": entity, "id": record_id, "done": "updated"}
        if action == "delete":
            editing.delete(entity, record_id)
            return {"entity": entity, "id": record_id, "done": "deleted"}
        if action == "undelete":
            editing.undelete(entity, record_id)
            return {"entity": entity, "id": record_id, "done": "undeleted"}
        if action == "convert" and entity == "Lead":
            lead = editing.convert(record_id)
            ids = {"account": lead.account_id, "contact": lead.contact_id, "opportunity": lead.opportunity_id}
            return {"entity": entity, "id": record_id, "done": "converted", **ids}
        raise ControlError("action must be save, delete, undelete or, for a lead, convert")

    return [control_route("/change", "POST", change)]
