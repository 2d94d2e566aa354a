"""The first change event of a new org.

A stream that never brought an event answers only with a keepalive, up to 270 s after it was begun. The stream of a real
org had events long before anybody subscribes, so that of a new emulated one gets one too.
"""

from __future__ import annotations

from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.org.org import EmulatedOrg


def make_first_change(org: EmulatedOrg, bus: EventBus) -> None:
    """Unless the bus has published something: let the org change one of its records, in a transaction of its own.

    An org without records has users.
    """
    if bus.last_number:
        return
    changes = {"OwnerId": org.users.automated_process, "Title": "at work"}
    for entity in org.selected_entities:
        for record in org.records(entity):
            for field, value in changes.items():
                if field in record and record[field] != value:
                    with org.transaction() as work:
                        work.update(entity, str(record["Id"]), {field: value})
                    return
