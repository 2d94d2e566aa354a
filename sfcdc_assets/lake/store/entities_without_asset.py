"""Entities that came after Dagster loaded its definitions, as a note in the warehouse, for `sfcdc status`.

Their tables are kept as all others. What they lack until the code location is loaded again is the asset of their own,
on which others depend; a code server says so here, by channel, when it finds that the list has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from sfcdc_assets.lake.store.notes import failing_nothing, put_json, read_json, read_note, remove_note
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.channel_kinds import folder_of, kind_of

FOLDER = "channels_read"


def note_without_asset(warehouse: Warehouse, channel: str, entities: Sequence[str]) -> None:
    """Replace the list of a channel. That the warehouse does not take it fails nothing."""
    path = _path_of(channel)
    with failing_nothing(f"which entities of {channel} have no asset of their own yet"):
        if entities:
            put_json(warehouse, path, {"channel": channel, "entities": list(entities)})
        elif read_note(warehouse, path) is not None:
            remove_note(warehouse, path)


def without_asset(warehouse: Warehouse, channels: Sequence[str]) -> tuple[str, ...]:
    """Return the entities of these channels, in order. Raises what `read_note` raises."""
    none: list[str] = []
    found = (
        read_json(warehouse, _path_of(each), lambda noted: list(map(str, noted["entities"])), none) for each in channels
    )
    return tuple(sorted({*chain.from_iterable(found)}))


def _path_of(channel: str) -> str:
    return f"{FOLDER}/without_asset-{kind_of(channel)}-{folder_of(channel)}.json"
