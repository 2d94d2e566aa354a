"""The results of a run that a person launched over one entity or several."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import dagster as dg

from sfcdc_assets.table_metadata import Metadata

OfEntities = Mapping[str, Mapping[dg.AssetKey, Metadata]]
VersionsOfEntities = Mapping[str, Mapping[dg.AssetKey, str]]


def results(
    context: dg.AssetExecutionContext, metadata: OfEntities, versions: VersionsOfEntities
) -> Iterator[dg.MaterializeResult]:
    """One for each asset of the step; each partition has the metadata of its own entity.

    Dagster gives all partitions of a run one data version. That of a single entity is its table's; that of a range
    changes when any of them changes.
    """
    for entity, of_assets in metadata.items():
        for key, of_asset in of_assets.items():
            context.add_asset_metadata(of_asset, asset_key=key, partition_key=entity)
    for key in context.selected_asset_keys:
        own = {entity: of_assets[key] for entity, of_assets in versions.items()}
        yield dg.MaterializeResult(key, data_version=dg.DataVersion(_of_all(own)))


def materializations(metadata: OfEntities, versions: VersionsOfEntities) -> Iterator[dg.AssetMaterialization]:
    """The same for the entities that are done, where others have failed: a step that fails has no results."""
    for entity, of_assets in metadata.items():
        for key, of_asset in of_assets.items():
            tags = {"dagster/data_version": versions[entity][key]}
            yield dg.AssetMaterialization(key, partition=entity, metadata=of_asset, tags=tags)


def _of_all(versions: Mapping[str, str]) -> str:
    if len(versions) == 1:
        return next(iter(versions.values()))
    return hashlib.sha256(repr(sorted(versions.items())).encode()).hexdigest()[:16]
