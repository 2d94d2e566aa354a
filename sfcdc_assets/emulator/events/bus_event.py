"""An event as it is published, before the bus gives it a replay id."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class BusEvent:
    """One event, of an object (a change event) or a platform event: `entity` is its name."""

    entity: str
    schema_id: str
    schema_json: str
    payload: bytes
    event_id: str | None = None
    """The uuid, if the bus is not to choose one."""
    beside_previous: bool = False
    """Shares the replay id of the event before it."""
    copy_after: int | None = None
    """Published a second time, under the same uuid, after so many other events."""
    is_selected: bool = True
    """On the channel of all change events; one that is not is on custom channels, and on its own topic."""
    channel_payloads: tuple[tuple[str, tuple[bytes, ...]], ...] = ()
    """Custom channels, and the payloads published on them: several if it is taken apart there."""
