"""Data storage: how much of it the org's records take, and that new ones are refused when it is full.

A record takes what Salesforce reckons for its object, whatever is in it; records in the recycle bin take nothing
(https://help.salesforce.com/s/articleView?id=000383664&type=1, "Salesforce record size overview").
"""

from __future__ import annotations

from collections.abc import Callable

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.org_core import OrgCore

_KILOBYTES = {"Campaign": 8, "CampaignMember": 1}
_OTHERS, _LARGEST = 2, 8
_NOT_COUNTED = frozenset(
    {
        "User", "UserRole", "Product2", "Pricebook2", "PricebookEntry", "EventRelation", "OpportunityLineItem",
        "OpportunityContactRole",
    }
)  # fmt: skip


class DataStorage:
    """That of one org; the most it has is `OrgSettings.data_storage_mb`."""

    def __init__(self, org: OrgCore) -> None:
        self._org = org

    @property
    def used_mb(self) -> float:
        """What the records take now."""
        return self._kilobytes(exact=True) / 1024

    def gate(self) -> Callable[[], None]:
        """Return the gate of one transaction: to be called before each record that it creates. Raises RecordError
        STORAGE_LIMIT_EXCEEDED if there is no room for another one."""
        room = 0

        def check() -> None:
            nonlocal room
            room -= _LARGEST
            if room < 0:
                room = self._room()
                if room <= 0:
                    raise RecordError("STORAGE_LIMIT_EXCEEDED", "storage limit exceeded")

        return check

    def _room(self) -> int:
        """Kilobytes that are free, or at least so many: to count records takes time, their highest number does not."""
        most = self._org.settings.data_storage_mb * 1024
        at_least = most - self._kilobytes(exact=False)
        return at_least if at_least > 0 else most - self._kilobytes(exact=True)

    def _kilobytes(self, *, exact: bool) -> int:
        org = self._org
        with org.database.lock:
            return sum(
                _KILOBYTES.get(name, _OTHERS)
                * (org.store.count(definition, include_deleted=False) if exact else org.store.most_rows(definition))
                for name, definition in org.definitions.items()
                if name not in _NOT_COUNTED
            )
