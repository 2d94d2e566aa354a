"""Events for all records of an object, `001*`: what their bitmaps say is not documented, so it is a setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfcdc_assets.emulator.events.event_draft import EventDraft
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import Transaction


class Wildcards:
    """Empties the bitmaps of such events unless `OrgSettings.wildcard_names_field` is on. Their bodies are empty."""

    def __init__(self, org: EmulatedOrg) -> None:
        self._org = org

    def __call__(self, _transaction: Transaction, drafts: Sequence[EventDraft]) -> Sequence[EventDraft]:
        """Return the events, those about a wildcard naming no fields where the org is set to name none."""
        if self._org.settings.wildcard_names_field:
            return drafts
        return [
            replace(each, changed_fields=(), nulled_fields=()) if each.record_ids[0].endswith("*") else each
            for each in drafts
        ]
