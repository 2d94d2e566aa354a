"""Data storage: how much of it the org's records take, and that new ones are refused when it is full.

A record takes what Salesforce reckons for its object, whatever is in it; records in the recycle bin take nothing
(https://help.salesforce.com/s/articleView?id=000383664&type=1, "Salesforce record size overview").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfcdc_assets.emulator.errors import RecordError

if TYPE_CHECKING:
    from sfcdc_assets.emulator.org import EmulatedOrg

_KILOBYTES = {"Campaign": 8, "CampaignMember": 1}
_OTHERS = 2
_NOT_COUNTED = frozenset(
    {
        "User", "UserRole", "Product2", "Pricebook2", "PricebookEntry", "EventRelation", "OpportunityLineItem",
        "OpportunityContactRole",
    }
)  # fmt: skip


class DataStorage:
    """That of one org; the most it has is `OrgSettings.data_storage_mb`."""

    def __init__(self, org: EmulatedOrg) -> None:
        self._org = org

    @property
    def used_mb(self) -> float:
        """What the records take now."""
        return self._kilobytes(exact=True) / 1024

    def check(self) -> None:
        """Raises RecordError STORAGE_LIMIT_EXCEEDED if there is no room for another record."""
        most = self._org.settings.data_storage_mb * 1024
        # To count them takes time, and there are at most as many as numbers given to rows.
        if self._kilobytes(exact=False) >= most and self._kilobytes(exact=True) >= most:
            raise RecordError("STORAGE_LIMIT_EXCEEDED", "storage limit exceeded")

    def _kilobytes(self, *, exact: bool) -> int:
        org = self._org
        with org.database.lock:
            return sum(
                _KILOBYTES.get(name, _OTHERS)
                * (org.store.count(definition, include_deleted=False) if exact else org.store.most_rows(definition))
                for name, definition in org.definitions.items()
                if name not in _NOT_COUNTED
            )
