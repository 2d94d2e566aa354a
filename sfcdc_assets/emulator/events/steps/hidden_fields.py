"""Hidden fields in events: the schema still lists them, the event carries nothing of them (docs/salesforce-streams.md,
"Permissions")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sfcdc_assets.emulator.events.event_draft import EventDraft
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import Transaction


class HiddenFields:
    """Takes hidden fields out of drafts; Salesforce does so when it delivers, this org when it publishes.

    Whether bitmaps name a hidden field that changed is not documented: `OrgSettings.hidden_fields_in_bitmaps`.
    """

    def __init__(self, org: EmulatedOrg) -> None:
        self._org = org

    def __call__(self, _transaction: Transaction, drafts: Sequence[EventDraft]) -> Sequence[EventDraft]:
        """Return the events without what field-level security hides."""
        return [self._without_hidden(each, self._org.field_security.hidden(each.entity)) for each in drafts]

    def _without_hidden(self, each: EventDraft, hidden: frozenset[str]) -> EventDraft:
        if not hidden:
            return each

        def shown(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(name for name in names if name not in hidden)

        def visible(values: Mapping[str, object]) -> dict[str, object]:
            return {name: value for name, value in values.items() if name not in hidden}

        changed = each.changed_fields if self._org.settings.hidden_fields_in_bitmaps else shown(each.changed_fields)
        return replace(
            each,
            values=visible(each.values),
            changed_fields=changed,
            nulled_fields=shown(each.nulled_fields),
            record=visible(each.record) if each.record is not None else None,
        )
