"""Polled objects that are behind the org because they are not asked: their polls fail, or wait for the org's allowance.

The others are asked meanwhile, so neither a failed tick nor the channel's last reading says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sfcdc_assets.lake.store.poll_notes import read_poll_notes
from sfcdc_assets.lake.store.request_ledger import POLLS, read_ledger
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.settings.settings import Settings

FAILURES = 2
"""After so many in a row: one whose fields have changed fails once, and is asked for the new ones then."""


@dataclass(frozen=True)
class UnpolledObject:
    """An object, up to when its changes were seen (epoch ms, UTC, by the org's clock), and why no later."""

    entity: str
    seen_until_ms: int
    why: str

    def __str__(self) -> str:
        return f"{self.entity} is not polled ({' '.join(self.why.split()).rstrip('.')})"


def unpolled_objects(warehouse: Warehouse, settings: Settings, seconds: float, now_ms: int) -> Iterator[UnpolledObject]:
    """Yield the wanted objects whose changes were not seen for longer than so many seconds, and not because their time
    has not come. Reads notes alone, and raises what `read_note` raises."""
    if POLLED not in settings.feeding_channels:
        return
    postponed = read_ledger(warehouse).postponed.get(POLLS)
    for entity, note in sorted(read_poll_notes(warehouse).items()):
        waits = postponed.why if postponed is not None and entity in postponed.objects else None
        why = waits if note.failures < FAILURES else note.error
        is_wanted = not settings.entities or entity in settings.entities
        if why and is_wanted and note.seen_until_ms and now_ms - note.seen_until_ms > seconds * 1000:
            yield UnpolledObject(entity, note.seen_until_ms, why)
