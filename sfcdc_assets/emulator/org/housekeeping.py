"""What the org does by itself as time goes by: it commits transactions whose time has come, empties the recycle bin of
what is too old, hides what was purged, and lets contracts expire. Nothing runs in the background: whoever asks the org
something comes after it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sfcdc_assets.emulator.org.settings import HOUR

if TYPE_CHECKING:
    from sfcdc_assets.emulator.org.org import EmulatedOrg


class Housekeeping:
    """Of one org."""

    def __init__(self, org: EmulatedOrg) -> None:
        self._org = org
        self._next_sweep = org.clock() + HOUR
        self._is_busy = False

    def look(self) -> None:
        """Do what is due. The recycle bin is looked at once an hour, so records stay up to an hour longer. Inside a
        transaction nothing is done."""
        org = self._org
        if self._is_busy or not (org.long_transactions.open or self._next_sweep <= org.clock()):
            return
        with org.database.lock:
            if org.is_in_transaction or self._is_busy:
                return
            self._is_busy = True
            try:
                org.long_transactions.commit_due()
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
            oldest = org.store.binned_until(definition, now - org.settings.recycle_bin_lifetime)
            if oldest and definition.deletable:
                with org.transaction() as work:
                    for record_id in oldest:
                        # It may have gone with another one.
                        if not org.store.is_purged(definition, record_id):
                            work.hard_delete(definition.name, record_id)
        with org.database.transaction():
            org.store.hide_purged(org.definitions, now)

    def expire_contracts(self) -> None:
        """Let contracts expire whose last day is over: no stamp of theirs moves (Object Reference, "Contract")."""
        org = self._org
        if "Contract" not in org.definitions:
            return
        today = datetime.fromtimestamp(org.clock() / 1000, UTC).date().isoformat()
        expired = [
            str(each["Id"])
            for each in org.records("Contract")
            if each["Status"] == "Activated" and each["EndDate"] is not None and str(each["EndDate"]) < today
        ]
        if expired:
            with org.transaction(user_id=org.users.automated_process) as work:
                for record_id in expired:
                    work.set_unstamped("Contract", record_id, {"Status": "Expired"})
