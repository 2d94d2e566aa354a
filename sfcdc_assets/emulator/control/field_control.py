"""Fields and objects that come, go and change while the org runs, as an administrator of it would have it."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import (
    ControlError,
    Parameters,
    control_route,
    text,
    truth,
    whole_number,
)
from sfcdc_assets.emulator.definitions.field_notation import field_definition
from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition
from sfcdc_assets.emulator.definitions.object_file import object_definition
from sfcdc_assets.emulator.errors import ObjectDefinitionError
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.sample_values import sample_value
from sfcdc_assets.emulator.setup.org_setup import Values

_NOT_OPTIONS = frozenset({"entity", "field", "name", "to", "value", "values", "sample"})


def field_routes(org: EmulatedOrg) -> list[Route]:
    """Return the routes that change an object's fields. The options of a field are those of an object file: `type`,
    `length`, `values` of a picklist are `picklist` here.

    `POST /emulator/objects {"name", "label", "key_prefix", "fields": [...], "selected": true|false, "records": N}` adds
    an object, with N records that no event tells of.
    `POST /emulator/objects/{entity}/fields {"name": "X__c", "type": ...}` adds a field; records that exist get `value`,
    or those of `values` (by record id), or some made by chance with `"sample": true`; no event tells of them.
    `DELETE .../fields/{field}` drops one, `POST .../fields/{field}/rename {"to": name}` renames one, and
    `POST .../fields/{field}/retype {"type": ...}` changes its type and answers how events told of it.
    `POST .../fields/{field}/rename-value {"from": old, "to": new}` renames a value of a picklist, and answers how many
    records had it; `.../encrypt` keeps a field encrypted.
    `POST .../fields/{field}/hide` and `/show` are field-level security; both answer the object's hidden fields.
    `POST /emulator/objects/{entity}/record-types {"names": [...]}` gives the object record types.
    `POST /emulator/person-accounts` lets accounts be persons, and `POST /emulator/user-preferences` gives users
    preferences; `POST /emulator/state-and-country-codes` gives addresses the codes of their states and countries.
    """

    def add_object(parameters: Parameters) -> Any:
        missing = {"name", "label", "key_prefix", "fields"} - parameters.keys()
        if missing:
            raise ControlError(f"an object needs {', '.join(sorted(missing))}")
        try:
            definition = object_definition(parameters, str(parameters["name"]))
        except ObjectDefinitionError as error:
            raise ControlError(str(error)) from None
        records = whole_number(parameters, "records", 0)
        org.setup.add_object(definition, selected=truth(parameters, "selected", default=True))
        org.populate({definition.name: records})
        return {"selected_entities": list(org.selected_entities)}

    def add_field(parameters: Parameters) -> Any:
        entity, name, options = text(parameters, "entity"), text(parameters, "name"), _options(parameters)
        try:
            values = _values(parameters, field_definition(entity, name, options), org)
            field = org.setup.add_field(entity, name, options, values=values)
        except ObjectDefinitionError as error:
            raise ControlError(str(error)) from None
        return {"name": field.name, "type": field.type, "field_id": field.field_id}

    def drop_field(parameters: Parameters) -> Any:
        org.setup.drop_field(text(parameters, "entity"), text(parameters, "field"))
        return {}

    def rename_field(parameters: Parameters) -> Any:
        org.setup.rename_field(text(parameters, "entity"), text(parameters, "field"), text(parameters, "to"))
        return {}

    def change_type(parameters: Parameters) -> Any:
        try:
            change = org.setup.change_type(text(parameters, "entity"), text(parameters, "field"), _options(parameters))
        except ObjectDefinitionError as error:
            raise ControlError(str(error)) from None
        return {"notice": change.notice, "records": change.records}

    def rename_value(parameters: Parameters) -> Any:
        entity, name = text(parameters, "entity"), text(parameters, "field")
        return {
            "records": org.setup.rename_picklist_value(entity, name, text(parameters, "from"), text(parameters, "to"))
        }

    def encrypt(parameters: Parameters) -> Any:
        org.setup.encrypt_field(text(parameters, "entity"), text(parameters, "field"))
        return {}

    def hide(parameters: Parameters) -> Any:
        org.field_security.hide(text(parameters, "entity"), text(parameters, "field"))
        return {"hidden": sorted(org.field_security.hidden(parameters["entity"]))}

    def show(parameters: Parameters) -> Any:
        org.field_security.show(text(parameters, "entity"), text(parameters, "field"))
        return {"hidden": sorted(org.field_security.hidden(parameters["entity"]))}

    def record_types(parameters: Parameters) -> Any:
        names = parameters.get("names")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise ControlError("names must be a list of texts")
        entity = text(parameters, "entity")
        org.setup.add_record_types(entity, names)
        return {"record_types": list(org.definitions[entity].record_types)}

    def person_accounts(_parameters: Parameters) -> Any:
        org.setup.enable_person_accounts()
        return {}

    def user_preferences(_parameters: Parameters) -> Any:
        org.setup.add_user_preferences()
        return {}

    def state_and_country_codes(_parameters: Parameters) -> Any:
        org.setup.enable_state_and_country_codes()
        return {}

    field = "/objects/{entity}/fields/{field}"
    return [
        control_route("/objects", "POST", add_object),
        control_route("/objects/{entity}/record-types", "POST", record_types),
        control_route("/person-accounts", "POST", person_accounts),
        control_route("/user-preferences", "POST", user_preferences),
        control_route("/state-and-country-codes", "POST", state_and_country_codes),
        control_route("/objects/{entity}/fields", "POST", add_field),
        control_route(field, "DELETE", drop_field),
        control_route(f"{field}/rename", "POST", rename_field),
        control_route(f"{field}/retype", "POST", change_type),
        control_route(f"{field}/rename-value", "POST", rename_value),
        control_route(f"{field}/encrypt", "POST", encrypt),
        control_route(f"{field}/hide", "POST", hide),
        control_route(f"{field}/show", "POST", show),
    ]


def _options(parameters: Parameters) -> dict[str, Any]:
    options = {name: value for name, value in parameters.items() if name not in _NOT_OPTIONS and name != "picklist"}
    return {**options, "values": parameters["picklist"]} if "picklist" in parameters else options


def _values(parameters: Parameters, field: FieldDefinition, org: EmulatedOrg) -> Values | None:
    if "values" in parameters:
        values = parameters["values"]
        if not isinstance(values, Mapping):
            raise ControlError("values must be an object of record ids and values")
        return values
    if "value" in parameters:
        return lambda _record: parameters["value"]
    if truth(parameters, "sample", default=False):
        dice = Random(f"{org.seed}:{field.name}")
        return lambda _record: sample_value(field, dice, now=org.clock())
    return None
