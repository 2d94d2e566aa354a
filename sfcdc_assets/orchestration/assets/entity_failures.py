"""Entities that fail: what is reported of them, and where it shows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

import dagster as dg
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent
from dagster._core.execution.plan.objects import StepFailureData

from sfcdc_assets.orchestration.table_metadata import Metadata
from sfcdc_assets.runtime.errors import SfcdcError

REPORTABLE = "reportable"
"""Metadata of a failure: what of its reason may leave the machine, in a notice. The key is in the events of runs that
failed before, whose descriptions may not leave it."""


class UnknownEntity(SfcdcError):
    """A run names an entity that no configured channel carries."""

    def __init__(self, entity: str, channels: tuple[str, ...]) -> None:
        self.entity = entity
        super().__init__(
            f"{entity}: no configured channel carries it ({', '.join(channels)}). Select it for Change Data Capture in "
            "the org's Setup, add its channel to SFCDC_CHANNELS, or add it to SFCDC_ENTITIES if that filters."
        )


def chosen(known: Mapping[str, str], wanted: Iterable[str], channels: tuple[str, ...]) -> dict[str, str]:
    """Return the wanted ones with their channels. Raises `UnknownEntity`."""
    for entity in wanted:
        if entity not in known:
            raise UnknownEntity(entity, channels)
    return {entity: known[entity] for entity in wanted}


def failure_of(entity: str, error: BaseException) -> dg.Failure:
    """Return what an entity's own step ends with."""
    description = first_line(error)
    if not description.startswith(f"{entity}:"):
        description = f"{entity}: {description}"
    metadata = {"failed_entities": entity, REPORTABLE: f"{entity}: {without_values(error).removeprefix(f'{entity}: ')}"}
    return dg.Failure(description, metadata=metadata, allow_retries=False)


def failure_of_some(failures: Mapping[str, BaseException]) -> dg.Failure:
    """Return what a step over several entities ends with, after the others are done."""
    description = "; ".join(f"{entity}: {first_line(error)}" for entity, error in failures.items())
    reportable = "; ".join(f"{entity}: {without_values(error).rstrip('.')}" for entity, error in failures.items())
    return dg.Failure(
        f"Failed: {description.removesuffix('.')}. All other entities of this run are done.",
        metadata={"failed_entities": ", ".join(failures), REPORTABLE: reportable},
        allow_retries=False,
    )


def without_values(error: BaseException) -> str:
    """Return why something failed, as it may leave the machine: in the words of an error of ours or of the operating
    system. Any other's message may quote a record, so of that one there is the class."""
    if isinstance(error, SfcdcError):
        return first_line(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__} (the run's log has its message)"


def reportable_reason(step: StepFailureData) -> str | None:
    """Return why a step failed, as it may leave the machine (`without_values`)."""
    if step.user_failure_data is not None:
        reportable = step.user_failure_data.metadata.get(REPORTABLE)
        return str(reportable.value) if reportable is not None else step.user_failure_data.description
    error = (step.error.cause or step.error) if step.error is not None else None
    if error is None or not error.cls_name:
        return None
    if error.cls_name in {each.__name__ for each in _classes_below(SfcdcError)}:
        return error.message.strip().splitlines()[0].partition(f"{error.cls_name}: ")[2]
    return f"{error.cls_name} (the run's log has its message)"


def _classes_below(kind: type[Exception]) -> Iterator[type[Exception]]:
    for each in kind.__subclasses__():
        yield each
        yield from _classes_below(each)


def mark_as_failed(context: dg.OpExecutionContext, keys: Iterable[dg.AssetKey], entity: str) -> None:
    """Show the entity's partitions as failed, and no other's, until they are materialized again.

    Dagster shows a partition as failed when a run that planned to materialize it fails without having done so. A job's
    run plans nothing beforehand, so what was to be done is reported here, when it is known that it was not.
    """
    step_key = context.get_step_execution_context().step.key
    for key in keys:
        planned = AssetMaterializationPlannedData(key, partition=entity)
        event = DagsterEvent.build_asset_materialization_planned_event(context.job_name, step_key, planned)
        context.instance.report_dagster_event(event, context.run_id)


def first_line(error: BaseException) -> str:
    """Return the line of an error that names its reason; Spark's carry whole stacks. The log has the rest.

    An error in a task of ours comes back as text: a headline, then the worker's traceback with the reason at its end.
    """
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if "Traceback (most recent call last):" not in lines:
        return lines[0].strip()
    # The frames are indented; what follows the last of them is the exception.
    ends = [line for before, line in pairwise(lines) if before[0] == " " and line[0] != " "]
    return ends[-1] if ends else lines[0]


OfEntities = Mapping[str, Mapping[dg.AssetKey, Metadata]]
VersionsOfEntities = Mapping[str, Mapping[dg.AssetKey, str]]


def results(
    context: dg.AssetExecutionContext, metadata: OfEntities, versions: VersionsOfEntities
) -> Iterator[dg.MaterializeResult[None]]:
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
    """Yield the materializations of the entities that are done, where others have failed: a step that fails has no
    results."""
    for entity, of_assets in metadata.items():
        for key, of_asset in of_assets.items():
            tags = {"dagster/data_version": versions[entity][key]}
            yield dg.AssetMaterialization(key, partition=entity, metadata=of_asset, tags=tags)


def _of_all(versions: Mapping[str, str]) -> str:
    if len(versions) == 1:
        return next(iter(versions.values()))
    return hashlib.sha256(repr(sorted(versions.items())).encode()).hexdigest()[:16]
