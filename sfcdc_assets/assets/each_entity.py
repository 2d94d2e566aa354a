"""Entity by entity: one that fails does not stop the others, and fails the run at its end with its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

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
        description = "; ".join(f"{entity}: {first_line(error)}" for entity, error in failures.items())
        raise dg.Failure(
            f"Failed: {description.removesuffix('.')}. All other entities of this run are done.",
            metadata={"failed_entities": ", ".join(failures)},
        )


def first_line(error: BaseException) -> str:
    """The line of an error that tells its reason; Spark's carry whole stacks. The log has the rest.

    An error in a task of ours comes back as text: a headline, then the worker's traceback with the reason at its end.
    """
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if "Traceback (most recent call last):" not in lines:
        return lines[0].strip()
    # The frames are indented; what follows the last of them is the exception.
    ends = [line for before, line in pairwise(lines) if before[0] == " " and line[0] != " "]
    return ends[-1] if ends else lines[0]


def log_materialization(
    context: dg.AssetExecutionContext, key: dg.AssetKey, entity: str, metadata: Metadata, version: int | None = None
) -> None:
    """Record one entity's materialization; a run over a range records just the entities that were worked on."""
    tags = {"dagster/data_version": str(version)} if version is not None else {}
    context.log_event(dg.AssetMaterialization(asset_key=key, partition=entity, metadata=metadata, tags=tags))
