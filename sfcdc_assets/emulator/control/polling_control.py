"""What makes polling hard: transactions that stay open, stamps that move in floods, histories and shares, and many
objects; and what a perfect poller would have seen."""

from __future__ import annotations

from itertools import islice
from typing import Any

from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import ControlError, Parameters, control_route, text, whole_number
from sfcdc_assets.emulator.definitions.object_access import CompanionKind
from sfcdc_assets.emulator.definitions.whole_org import custom_objects
from sfcdc_assets.emulator.org.long_transactions import LongTransaction
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.setup.companion_setup import add_companion, track_fields

_MOST = 2_000


def polling_routes(org: EmulatedOrg) -> list[Route]:
    """`POST /emulator/open-transactions {"seconds": optional}` opens a transaction, which is committed after so many
    seconds or by `POST .../{number}/commit`; `.../roll-back` undoes it, and `GET` lists those that are open. `POST
    .../create {"entity", "values"}`, `.../update {"entity", "id", "values"}` and `.../delete {"entity", "id"}` are its
    statements: they run now, and others see what they did after the commit.

    `POST /emulator/objects/{entity}/stamp-all` moves SystemModstamp of all live records, and nothing else.
    `POST /emulator/objects/{entity}/history {"fields": [...]}` tracks fields; `.../share` and `.../feed` give the
    object those companions. `POST /emulator/many-objects {"count": N, "records": N}` adds custom objects that have no
    change events.
    `GET /emulator/seen/{entity}?at=epoch ms&after=Id&limit=N` is what a perfect poller would have found at that time.
    """

    def begin(parameters: Parameters) -> Any:
        seconds = whole_number(parameters, "seconds", 0) if "seconds" in parameters else None
        return _transaction_json(org.long_transactions.begin(seconds=seconds))

    def listing(_parameters: Parameters) -> Any:
        return [_transaction_json(each) for each in org.long_transactions.open]

    def create(parameters: Parameters) -> Any:
        return {"id": _open(org, parameters).create(text(parameters, "entity"), _values(parameters))}

    def update(parameters: Parameters) -> Any:
        entity, record_id = text(parameters, "entity"), text(parameters, "id")
        _open(org, parameters).update(entity, record_id, _values(parameters))
        return {}

    def delete(parameters: Parameters) -> Any:
        _open(org, parameters).delete(text(parameters, "entity"), text(parameters, "id"))
        return {}

    def commit(parameters: Parameters) -> Any:
        committed = _open(org, parameters).commit()
        return {"commit_number": committed and committed.commit_number}

    def roll_back(parameters: Parameters) -> Any:
        _open(org, parameters).roll_back()
        return {}

    def stamp_all(parameters: Parameters) -> Any:
        entity = _entity(org, parameters)
        if "SystemModstamp" not in org.definitions[entity].fields_by_name:
            raise ControlError(f"{entity} has no SystemModstamp")
        return {"records": org.stamp_all(entity)}

    def history(parameters: Parameters) -> Any:
        names = parameters.get("fields")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ControlError("fields must be a list of field names")
        return {"name": track_fields(org, text(parameters, "entity"), names).name}

    def share(parameters: Parameters) -> Any:
        return {"name": add_companion(org, text(parameters, "entity"), CompanionKind.SHARE).name}

    def feed(parameters: Parameters) -> Any:
        return {"name": add_companion(org, text(parameters, "entity"), CompanionKind.FEED).name}

    def many(parameters: Parameters) -> Any:
        made = custom_objects(whole_number(parameters, "count", 1, least=1))
        for definition in made:
            org.setup.add_object(definition, selected=False)
        org.populate(dict.fromkeys((each.name for each in made), whole_number(parameters, "records", 0)))
        return {"objects": [each.name for each in made]}

    def seen(parameters: Parameters) -> Any:
        entity, limit = _entity(org, parameters), whole_number(parameters, "limit", 100)
        moment = whole_number(parameters, "at", org.clock())
        found = org.seen_at(entity, moment)
        after = str(parameters.get("after", ""))
        records = list(islice((found[each] for each in sorted(found) if each > after), min(limit, _MOST)))
        is_last = not records or records[-1]["Id"] == max(found)
        return {"records": records, "next_after": None if is_last else records[-1]["Id"]}

    one = "/open-transactions/{number}"
    return [
        control_route("/open-transactions", "POST", begin),
        control_route("/open-transactions", "GET", listing),
        control_route(f"{one}/create", "POST", create),
        control_route(f"{one}/update", "POST", update),
        control_route(f"{one}/delete", "POST", delete),
        control_route(f"{one}/commit", "POST", commit),
        control_route(f"{one}/roll-back", "POST", roll_back),
        control_route("/objects/{entity}/stamp-all", "POST", stamp_all),
        control_route("/objects/{entity}/history", "POST", history),
        control_route("/objects/{entity}/share", "POST", share),
        control_route("/objects/{entity}/feed", "POST", feed),
        control_route("/many-objects", "POST", many),
        control_route("/seen/{entity}", "GET", seen),
    ]


def _transaction_json(each: LongTransaction) -> dict[str, Any]:
    return {"number": each.number, "started_at": each.started_at, "due_at": each.due_at, "locked": sorted(each.locked)}


def _open(org: EmulatedOrg, parameters: Parameters) -> LongTransaction:
    return org.long_transactions.numbered(whole_number(parameters, "number", 0))


def _entity(org: EmulatedOrg, parameters: Parameters) -> str:
    entity = text(parameters, "entity")
    if entity not in org.definitions:
        raise ControlError(f"there is no object {entity}; there are {', '.join(org.definitions)}")
    return entity


def _values(parameters: Parameters) -> dict[str, Any]:
    values = parameters.get("values")
    if not isinstance(values, dict):
        raise ControlError("values must be an object of field names and values")
    return values
