"""Entity by entity: one that fails does not stop the others, and fails the run at its end with its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import dagster as dg

from sfcdc_assets.pipeline.entities import EntityState
from sfcdc_assets.table_metadata import Metadata


def each_entity(
    context: dg.AssetExecutionContext, states: Iterable[EntityState], work: Callable[[EntityState], None]
) -> None:
    """Do the work for each entity; raises `dg.Failure` naming all that failed, after the others are done."""
    failures: dict[str, Exception] = {}
    for state in states:
        try:
            work(state)
        except Exception as error:
            # Whatever stops one entity is raised at the end, with its name.
            context.log.error(f"{state.entity} failed: {error}", exc_info=error)
            failures[state.entity] = error
    if failures:
        told = "; ".join(f"{entity}: {first_line(error)}" for entity, error in failures.items())
        raise dg.Failure(
            f"Failed: {told}. All other entities of this run are done.",
            metadata={"failed_entities": ", ".join(failures)},
        )


def first_line(error: BaseException) -> str:
    """An error's first line: Spark's carry whole Java stacks. The log has the rest."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def log_materialization(
    context: dg.AssetExecutionContext, key: dg.AssetKey, entity: str, metadata: Metadata, version: int | None = None
) -> None:
    """Record one entity's materialization; a run over a range records just the entities that were worked on."""
    tags = {"dagster/data_version": str(version)} if version is not None else {}
    context.log_event(dg.AssetMaterialization(asset_key=key, partition=entity, metadata=metadata, tags=tags))
