"""What an administrator takes from the client's user, and gives back: permissions, and keys of encrypted fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import Parameters, control_route, text
from sfcdc_assets.emulator.org.org import EmulatedOrg


def permission_routes(org: EmulatedOrg) -> list[Route]:
    """`POST /emulator/view-all/withdraw` takes View All Data away, with `entity` the sight of one object's records;
    `.../give-back` gives it back. `GET /emulator/view-all` tells how it stands.

    `POST /emulator/encryption-keys/rotate` makes another key active, `.../encrypt-again` has all values encrypted with
    it, `.../destroy` destroys those before it, and `.../restore` imports them again.
    """

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

    def keys(work: Callable[[], None]) -> Callable[[Parameters], Any]:
        def done(_: Parameters) -> Any:
            work()
            return {"rotated_at": org.encryption_keys.rotated_at}

        return done

    return [
        control_route("/encryption-keys/rotate", "POST", keys(org.encryption_keys.rotate)),
        control_route("/encryption-keys/encrypt-again", "POST", keys(org.encryption_keys.encrypt_again)),
        control_route("/encryption-keys/destroy", "POST", keys(org.encryption_keys.destroy)),
        control_route("/encryption-keys/restore", "POST", keys(org.encryption_keys.restore)),
        control_route("/view-all", "GET", described),
        control_route("/view-all/withdraw", "POST", withdraw),
        control_route("/view-all/give-back", "POST", give_back),
    ]
