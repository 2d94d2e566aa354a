"""Whether the user sees every record of an object.

A user without View All is not refused: REST and Bulk answer with the records that are shared with it, and the others
look deleted. So whoever takes "not shown" for "gone" has to ask first. View All Data is a user permission of a
permission set, View All Records one of its object permissions; what a profile gives is in a set of its own, and that is
assigned like the others. See
https://developer.salesforce.com/docs/atlas.en-us.object_reference.meta/object_reference/sforce_api_objects_objectpermissions.htm
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.errors import RequestRefused
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.salesforce.record_id import is_salesforce_id
from sfcdc_assets.salesforce.session import OrgSession

_HIDDEN = frozenset({400, 403, 404})
"""How an org answers who may not ask: no such object, no access, no such resource."""
_SETS_IN_A_QUERY = 200
REMEMBERED_SECONDS = 300.0
"""A run may last for hours, and a permission be withdrawn meanwhile."""


class Sight(StrEnum):
    """What the user is shown of an object."""

    ALL = "all"
    """Every record."""
    SHARED = "shared"
    """Only the records that are shared with it."""
    UNKNOWN = "unknown"
    """The org does not say, or the object is one that permission sets do not list, such as User."""


class ViewAllMissing(SfcdcError):
    """What is not shown would be taken for deleted, so nothing is read."""

    def __init__(self, entity: str, purpose: str) -> None:
        self.entity = entity
        self.purpose = purpose
        super().__init__(
            f"{entity}: the user has neither View All Data nor View All Records on {entity}, so {purpose} would take "
            "the records that it is not shown for deleted. Nothing was read and nothing applied. Give the user View "
            f"All Records on {entity} (Setup, Permission Sets, Object Settings); the next run goes on."
        )


class ViewAll:
    """The user's sight, asked for at the first question and remembered for five minutes: three small requests at most
    each time. Raises the session's errors other than a refusal to tell."""

    def __init__(self, session: OrgSession) -> None:
        self._session = session
        self._known: Mapping[str, bool] = {}
        self._asked_at: float | None = None
        self._all_data = False

    def of(self, entity: str) -> Sight:
        """Return what the user is shown of an object."""
        now = clock.current().monotonic()
        if self._asked_at is None or now - self._asked_at >= REMEMBERED_SECONDS:
            self._known, self._asked_at = self._asked(), now
        if self._all_data:
            return Sight.ALL
        if entity not in self._known:
            return Sight.UNKNOWN
        return Sight.ALL if self._known[entity] else Sight.SHARED

    def check(self, entity: str, purpose: str) -> Sight:
        """Check again; raises `ViewAllMissing` when it is known that the user is not shown all."""
        sight = self.of(entity)
        if sight is Sight.SHARED:
            raise ViewAllMissing(entity, purpose)
        return sight

    def _asked(self) -> dict[str, bool]:
        """Object -> View All Records, of those that the user's permission sets let it read."""
        try:
            user = self._session.request("GET", "/services/oauth2/userinfo", what="userinfo")
            user_id = str(user.get("user_id")) if isinstance(user, dict) else ""
            if not is_salesforce_id(user_id):
                return {}
            sets = self._rows(
                "SELECT PermissionSetId, PermissionSet.PermissionsViewAllData FROM PermissionSetAssignment "
                f"WHERE AssigneeId = '{user_id}'"
            )
            self._all_data = any((each["PermissionSet"] or {}).get("PermissionsViewAllData") for each in sets)
            found: dict[str, bool] = {}
            ids = sorted({str(each["PermissionSetId"]) for each in sets})
            for start in range(0, 0 if self._all_data else len(ids), _SETS_IN_A_QUERY):
                listed = ", ".join(f"'{each}'" for each in ids[start : start + _SETS_IN_A_QUERY])
                for row in self._rows(
                    "SELECT SobjectType, PermissionsViewAllRecords FROM ObjectPermissions "
                    f"WHERE PermissionsRead = true AND ParentId IN ({listed})"
                ):
                    name = str(row["SobjectType"])
                    found[name] = found.get(name, False) or bool(row["PermissionsViewAllRecords"])
            return found
        except RequestRefused as refusal:
            if refusal.status in _HIDDEN:
                return {}
            raise

    def _rows(self, soql: str) -> list[dict[str, Any]]:
        return list(query_rows(self._session, soql))
