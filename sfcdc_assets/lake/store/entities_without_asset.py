"""Entities that came after Dagster loaded its definitions, as a note in the warehouse, for `sfcdc status`.

Their tables are kept as all others. What they lack until the code location is loaded again is the asset of their own,
on which others depend; a code server says so here, by channel, when it finds that the list has changed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from sfcdc_assets.lake.store.notes import put_note, read_note, remove_note
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.channel_kinds import folder_of, kind_of

FOLDER = "channels_read"
log = logging.getLogger(__name__)


def note_without_asset(warehouse: Warehouse, channel: str, entities: Sequence[str]) -> None:
    """Replace the list of a channel. That the warehouse does not take it fails nothing."""
    path = _path_of(channel)
    try:
        if entities:
            put_note(warehouse, path, json.dumps({"channel": channel, "entities": list(entities)}).encode())
        elif read_note(warehouse, path) is not None:
            remove_note(warehouse, path)
    except SfcdcError as error:
        log.warning("%s: it cannot be noted which entities have no asset of their own yet: %s", channel, error)


def without_asset(warehouse: Warehouse, channels: Sequence[str]) -> tuple[str, ...]:
    """Return the entities of these channels, in order. Raises what `read_note` raises."""
    found: set[str] = set()
    for channel in channels:
        noted = read_note(warehouse, _path_of(channel))
        try:
            found |= set() if noted is None else {str(each) for each in json.loads(noted)["entities"]}
        except (ValueError, TypeError, KeyError):
            continue
    return tuple(sorted(found))


def _path_of(channel: str) -> str:
    return f"{FOLDER}/without_asset-{kind_of(channel)}-{folder_of(channel)}.json"
