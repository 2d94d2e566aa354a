"""Reading and changing the org's settings while it runs."""

from __future__ import annotations

from dataclasses import fields, replace
from types import NoneType
from typing import Any, get_args, get_type_hints

from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import ControlError, Parameters, control_route
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings

_FIXED = frozenset({"credentials", "api_versions"})
"""Who may log in, and what a client has seen of the org when it began."""
_CHOICES = {
    name: get_args(hint) for name, hint in get_type_hints(OrgSettings).items() if get_args(hint) and name not in _FIXED
}


def setting_routes(org: EmulatedOrg) -> list[Route]:
    """`GET /emulator/settings`, and `POST` with a JSON object of names and values; they hold until the process ends."""

    def show(_parameters: Parameters) -> Any:
        return changeable(org.settings)

    def change(parameters: Parameters) -> Any:
        known = changeable(org.settings)
        for name, value in parameters.items():
            if name not in known:
                raise ControlError(f"{name} is no setting that can be changed; there are {', '.join(known)}")
            _check(name, known[name], value)
        org.settings = replace(org.settings, **dict(parameters))
        return changeable(org.settings)

    return [control_route("/settings", "GET", show), control_route("/settings", "POST", change)]


def changeable(settings: OrgSettings) -> dict[str, Any]:
    """Return the settings that can be changed while the org runs."""
    return {field.name: getattr(settings, field.name) for field in fields(settings) if field.name not in _FIXED}


def _check(name: str, known: object, value: object) -> None:
    if isinstance(known, dict):
        lists = value.values() if isinstance(value, dict) else [None]
        if not all(isinstance(names, list) and all(isinstance(one, str) for one in names) for names in lists):
            raise ControlError(f"{name} must be an object of lists of field names")
    elif isinstance(known, str) and len(choices := _CHOICES.get(name, ())) > 1 and value not in choices:
        raise ControlError(f"{name} must be one of {', '.join(choices)}")
    elif NoneType in (kinds := _CHOICES.get(name, ())):
        if type(value) not in kinds or (isinstance(value, int) and value < 0):
            raise ControlError(f"{name} must be null or a value like 1, sent as JSON")
    elif type(value) is not type(known) or (isinstance(value, int) and value < 0):
        raise ControlError(f"{name} must be a value like {known!r}, sent as JSON")
