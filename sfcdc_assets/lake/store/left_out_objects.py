"""Objects that a pattern of `SFCDC_POLL` matches and that are not polled, as a note in the warehouse.

For `sfcdc status`, which asks no org, and so that what the org has refused to a copy is not asked for by every run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sfcdc_assets.lake.store.notes import failing_nothing, put_json, read_json
from sfcdc_assets.lake.warehouse import Warehouse

PATH = "channels_read/left_out_objects.json"
BELIEVED_MS = 7 * 86_400_000
"""How long a refusal is believed: the org may have another release then, or the user other permissions."""
_LOCK = threading.Lock()


@dataclass(frozen=True)
class LeftOut:
    """Object -> why: those that `refused` a copy, and at which time (epoch ms); and all when they were last chosen."""

    refused: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    objects: Mapping[str, str] = field(default_factory=dict)


def left_out_objects(warehouse: Warehouse) -> Mapping[str, str]:
    """Return those of the last choice, and why. Raises what `read_note` raises."""
    return _read(warehouse).objects


def refused_objects(warehouse: Warehouse, now_ms: int) -> dict[str, str]:
    """Return those that refused a copy of late, and why. Raises what `read_note` raises."""
    refused = _read(warehouse).refused
    return {entity: why for entity, (why, at_ms) in refused.items() if now_ms - at_ms < BELIEVED_MS}


def note_left_out(warehouse: Warehouse, objects: Mapping[str, str]) -> None:
    """Replace those of the last choice. That the warehouse does not take them fails nothing."""
    _note(warehouse, lambda before: replace(before, objects=dict(objects)))


def note_refused(warehouse: Warehouse, entity: str, why: str, now_ms: int) -> None:
    """Add one that refused a copy. That the warehouse does not take it fails nothing: it is asked for again."""
    _note(warehouse, lambda before: replace(before, refused={**before.refused, entity: (why, now_ms)}))


def _read(warehouse: Warehouse) -> LeftOut:
    return read_json(warehouse, PATH, _left_out, otherwise=LeftOut())


def _left_out(noted: Any) -> LeftOut:
    refused = {entity: (str(why), int(at_ms)) for entity, (why, at_ms) in noted.get("refused", {}).items()}
    return LeftOut(refused, {entity: str(why) for entity, why in noted.get("objects", {}).items()})


def _note(warehouse: Warehouse, change: Callable[[LeftOut], LeftOut]) -> None:
    with failing_nothing("which objects are left out"), _LOCK:
        before = _read(warehouse)
        after = change(before)
        if after != before:
            put_json(warehouse, PATH, asdict(after))
