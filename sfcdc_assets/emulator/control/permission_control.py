"""Permissions that an administrator takes away from the client's user, and gives back."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import Parameters, control_route, text
from sfcdc_assets.emulator.org import EmulatedOrg


def permission_routes(org: EmulatedOrg) -> list[Route]:
    """`POST /emulator/view-all/withdraw` takes View All Data away, with `entity` the sight of one object's records;
    `.../give-back` gives it back. `GET /emulator/view-all` tells how it stands."""

    def described(_: Parameters) -> Any:
        return {
            "all_data": org.view_all.of_all_data,
            "objects": {each: org.view_all.of(each) for each in org.definitions},
        }

    def entity_of(parameters: Parameters) -> str | None:
        return text(parameters, "entity") if "entity" in parameters else None

    def withdraw(parameters: Parameters) -> Any:
        org.view_all.withdraw(entity_of(parameters))
        return described(parameters)

    def give_back(parameters: Parameters) -> Any:
        org.view_all.give_back(entity_of(parameters))
        return described(parameters)

    return [
        control_route("/view-all", "GET", described),
        control_route("/view-all/withdraw", "POST", withdraw),
        control_route("/view-all/give-back", "POST", give_back),
    ]
