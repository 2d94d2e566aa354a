"""Data versions of what jobs report: which content a partition has, by which code, computed from which input.

Dagster writes these tags for what an asset's own function yields. A job that materializes a partition from an op has to
write them itself, or "unsynced" never shows and `code_version` means nothing (docs/dagster-notes.md, "Data versions").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    DEFAULT_DATA_VERSION,
    NULL_EVENT_POINTER,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)

from sfcdc_assets.assets.specs import CODE_VERSION

LOOKED_BACK = 20
"""How many materializations of an input are looked at for the one that was used."""


def tags_of_root(version: str, inputs: Sequence[dg.AssetKey] = ()) -> dict[str, str]:
    """Tags of what is read from outside; `inputs`: external assets it stands below."""
    return _tags(version, dict.fromkeys(inputs, (DEFAULT_DATA_VERSION.value, NULL_EVENT_POINTER)))


def tags_of_table(
    instance: dg.DagsterInstance, version: str, entity: str, used: Mapping[dg.AssetKey, int]
) -> dict[str, str]:
    """Tags of a partition that was computed from the same partition of others; `used`: up to which of their versions,
    which are numbers."""
    return _tags(version, {key: _input(instance, key, entity, at_most) for key, at_most in used.items()})


def _tags(version: str, inputs: Mapping[dg.AssetKey, tuple[str, str]]) -> dict[str, str]:
    tags = {
        CODE_VERSION_TAG: CODE_VERSION,
        DATA_VERSION_TAG: version,
        DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
    }
    for key, (input_version, pointer) in inputs.items():
        tags[get_input_data_version_tag(key)] = input_version
        tags[get_input_event_pointer_tag(key)] = pointer
    return tags


def _input(instance: dg.DagsterInstance, key: dg.AssetKey, entity: str, at_most: int) -> tuple[str, str]:
    """Version and storage id of the newest materialization that is not beyond what was used: nearly always the newest,
    and each one read is a large record."""
    wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[entity])
    for limit in (1, LOOKED_BACK):
        for record in instance.fetch_materializations(wanted, limit=limit).records:
            newest = record.asset_materialization
            found = (newest.tags or {}).get(DATA_VERSION_TAG) if newest else None
            if found is not None and found.isdigit() and int(found) <= at_most:
                return found, str(record.storage_id)
    return DEFAULT_DATA_VERSION.value, NULL_EVENT_POINTER
