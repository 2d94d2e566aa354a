"""What the org does by itself as time goes by: it commits transactions whose time has come, empties the recycle bin of
what is too old, hides what was purged, and lets contracts expire. Nothing runs in the background: whoever asks the org
something comes after it."""

from __future__ import annotations

from collections.abc import Sequence

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org.long_transactions import LongTransactions
from sfcdc_assets.emulator.org.org_core import OrgCore
from sfcdc_assets.emulator.org.settings import HOUR
from sfcdc_assets.emulator.org.standard_users import StandardUsers
from sfcdc_assets.runtime.times import utc

_ROWS_A_MEGABYTE = 25


class Housekeeping:
    """Of one org."""

    def __init__(self, org: OrgCore, users: StandardUsers, long_transactions: LongTransactions) -> None:
        self._org, self._users, self._long_transactions = org, users, long_transactions
        self._next_sweep = org.clock() + HOUR
        self._is_busy = False

    def look(self) -> None:
        """Do what is due. The recycle bin is looked at once an hour, so records stay up to an hour longer. Inside a
        transaction nothing is done."""
        org = self._org
        if self._is_busy or not (self._long_transactions.open or self._next_sweep <= org.clock()):
            return
        with org.database.lock:
            if org.is_in_transaction or self._is_busy:
                return
            self._is_busy = True
            try:
                self._long_transactions.commit_due()
                if self._next_sweep <= org.clock():
                    self._next_sweep = org.clock() + HOUR
                    self.empty_old_bins()
                    self.expire_contracts()
            finally:
                self._is_busy = False

    def empty_old_bins(self) -> None:
        """Remove for good what has been in the recycle bin too long, and hide what was purged."""
        org, now = self._org, self._org.clock()
        for definition in org.definitions.values():
            self._purge(definition, org.store.binned_until(definition, now - org.settings.recycle_bin_lifetime))
        self._empty_full_bin()
        with org.database.transaction():
            org.store.hide_purged(org.definitions, now)

    def _empty_full_bin(self) -> None:
        """Remove the oldest records of a bin that holds more than 25 a megabyte of data storage, though none that went
        there in the last two hours (Salesforce Help, "View, Restore, and Manage the Recycle Bin")."""
        org = self._org
        definitions = [each for each in org.definitions.values() if each.is_undeletable]
        beyond = sum(len(org.store.deleted_ids(each)) for each in definitions)
        beyond -= _ROWS_A_MEGABYTE * org.settings.data_storage_mb
        if beyond <= 0:
            return
        binned = [
            (org.store.stored(definition, record_id) or {}, definition)
            for definition in definitions
            for record_id in org.store.binned_until(definition, org.clock() - 2 * HOUR)
        ]
        binned.sort(key=lambda each: (int(each[0]["SystemModstamp"] or 0), str(each[0]["Id"])))
        for row, definition in binned[:beyond]:
            self._purge(definition, [str(row["Id"])])

    def _purge(self, definition: ObjectDefinition, record_ids: Sequence[str]) -> None:
        if record_ids and definition.deletable:
            with self._org.transaction() as work:
                for record_id in record_ids:
                    # It may have gone with another one.
                    if not self._org.store.is_purged(definition, record_id):
                        work.hard_delete(definition.name, record_id)

    def expire_contracts(self) -> None:
        """Let contracts expire whose last day is over: no stamp of theirs moves (Object Reference, "Contract")."""
        org = self._org
        if "Contract" not in org.definitions:
            return
        today = utc(org.clock()).date().isoformat()
        expired = [
            str(each["Id"])
            for each in org.records("Contract")
            if each["Status"] == "Activated" and each["EndDate"] is not None and str(each["EndDate"]) < today
        ]
        if expired:
            with org.transaction(user_id=self._users.automated_process) as work:
                for record_id in expired:
                    work.set_unstamped("Contract", record_id, {"Status": "Expired"})
