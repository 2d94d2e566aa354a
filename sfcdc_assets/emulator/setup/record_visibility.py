"""View All: whether the client's user sees every record of an object, or only those shared with it.

Without the permission REST and Bulk answer as if the other records did not exist; no request is refused. Sharing is
reduced to what a client can tell apart: the records its user owns, or, where an object has no owner, a sixth of them.
Events come all the same (Salesforce asks for the permission when a stream is opened, not while it lasts).
"""

from __future__ import annotations

import json

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org_core import OrgCore
from sfcdc_assets.emulator.org.standard_users import StandardUsers

WITHOUT_OBJECT_PERMISSIONS = frozenset({"User"})
"""Objects that ObjectPermissions does not list. Users see each other unless an org switches that off."""
_SETTING = "view_all"
_SHARED = 6
"""One of so many records of an object without owners is shared with the user."""


class ViewAll:
    """What the client's user may see of one org, kept in its database."""

    def __init__(self, org: OrgCore, users: StandardUsers) -> None:
        self._org, self._users = org, users
        kept = json.loads(org.database.setting(_SETTING) or '{"given": true, "but_for": []}')
        self._given: bool = kept["given"]
        self._but_for = frozenset(kept["but_for"])

    @property
    def of_all_data(self) -> bool:
        """Whether the user has View All Data."""
        return self._given and not self._but_for and not self._org.faults.lasts(Fault.PERMISSION_WITHDRAWN)

    def of(self, entity: str) -> bool:
        """Return whether the user sees all records of an object."""
        if entity in WITHOUT_OBJECT_PERMISSIONS:
            return True
        return self._given != (entity in self._but_for) and not self._is_withdrawn(entity)

    def withdraw(self, entity: str | None = None) -> None:
        """Take View All Data away, and View All Records on every object; or, of one object, these two."""
        self._set(entity, given=False)

    def give_back(self, entity: str | None = None) -> None:
        """Give View All Data back; or View All Records on one object."""
        self._set(entity, given=True)

    def condition(self, definition: ObjectDefinition) -> str | None:
        """Return what the rows `r` of an object must fulfil to be seen, as SQL; None: nothing."""
        if self.of(definition.name):
            return None
        if definition.field("OwnerId") is not None:
            return f"r.\"OwnerId\" = '{self._users.integration}'"
        return f"sf_hash('{self._org.seed}:' || r.\"Id\") % {_SHARED} = 0"

    def _is_withdrawn(self, entity: str) -> bool:
        """Return whether the fault that withdraws the permission for a while holds for an object."""
        faults = self._org.faults
        if not faults.lasts(Fault.PERMISSION_WITHDRAWN):
            return False
        return faults.option(Fault.PERMISSION_WITHDRAWN, "entity", entity) == entity

    def _set(self, entity: str | None, *, given: bool) -> None:
        if entity is None:
            self._given, self._but_for = given, frozenset()
        elif entity not in self._org.definitions:
            raise RecordError("INVALID_TYPE", f"there is no object {entity}")
        elif entity not in WITHOUT_OBJECT_PERMISSIONS and (self._given != (entity in self._but_for)) != given:
            self._but_for ^= {entity}
        with self._org.database.transaction():
            document = {"given": self._given, "but_for": sorted(self._but_for)}
            self._org.database.set_setting(_SETTING, json.dumps(document))
