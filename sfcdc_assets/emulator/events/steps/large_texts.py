"""Differences in place of large texts, in UPDATE events (docs/salesforce-streams.md, "Large-text diffs")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from sfcdc_assets.emulator.events.avro.event_body import EventCodec
from sfcdc_assets.emulator.events.event_draft import EventDraft
from sfcdc_assets.emulator.events.text_difference import Convention, text_difference
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import UPDATE, Transaction


class LargeTexts:
    """Replaces the new value of a large text by its difference to the old one where Salesforce does so."""

    def __init__(self, org: EmulatedOrg, codec: Callable[[str], EventCodec]) -> None:
        self._org = org
        self._codec = codec

    def __call__(self, transaction: Transaction, drafts: Sequence[EventDraft]) -> Sequence[EventDraft]:
        """Return the events with diffs in place of large texts that changed a little."""
        return [self._with_differences(transaction, each) for each in drafts]

    def _with_differences(self, transaction: Transaction, each: EventDraft) -> EventDraft:
        if each.change_type != UPDATE or each.before is None:
            return each
        differences: dict[str, object] = {}
        for name in each.changed_fields:
            if name not in self._codec(each.entity).large_texts:
                continue
            before, after = each.before.get(name), each.values.get(name)
            if isinstance(before, str) and isinstance(after, str):
                difference = text_difference(before, after, self._convention(transaction, each, name))
                if difference is not None:
                    differences[name] = difference
        if not differences:
            return each
        return replace(each, values={**each.values, **differences}, diff_fields=tuple(differences))

    def _convention(self, transaction: Transaction, each: EventDraft, name: str) -> Convention:
        convention = self._org.settings.diff_convention
        if convention != "mixed":
            return convention
        conventions: tuple[Convention, Convention] = ("java-diff-utils", "posix")
        return Random(f"{self._org.seed}:{transaction.commit_number}:{each.record_ids}:{name}").choice(conventions)
