"""Rebuild: an entity's layers are built again beside the present ones and take their place at the end.

Until then nothing of the entity changes, so a rebuild that fails or is killed costs nothing. Each layer is replaced by
one commit, in the order in which a batch commits: `current_state` is last. A crash between two of them leaves what a
crash of a batch leaves, layers that are ahead of `current_state`, and the next run goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyarrow import fs
from pyspark.sql import SparkSession

from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake import current_state, history, snapshots, text_fields
from sfcdc_assets.lake.beside import Beside, build_beside, finish, open_if_readable, put_in_place
from sfcdc_assets.lake.current_state import DOUBTED, READ_AT, REFETCH, SNAPSHOT
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.current_state import ApplyReport, apply_entity

LAYERS = (text_fields.LAYER, history.LAYER, current_state.LAYER)
"""What can be built again, in the order of its commits; raw_events, snapshot, schemas and the doubt ledger are what it
is built from."""

ATTEMPTS = 20
"""How often the present tables may move on while the new ones catch up with them."""

Apply = Callable[[Warehouse], ApplyReport]
"""Applies the entity's complete events and readings to its tables of a warehouse."""


class NothingToRebuildFrom(SfcdcError):
    """None of the configured channels' snapshots of the entity is complete."""

    def __init__(self, entity: str, channels: Sequence[str]) -> None:
        self.entity = entity
        super().__init__(
            f"{entity}: no complete snapshot on {', '.join(channels)} to rebuild it from. "
            f"`sfcdc rebuild --from-org --entity {entity}` reads it from the org."
        )


@dataclass(frozen=True)
class RebuildReport:
    """What took the place of the entity's layers: how many rows, and the position they stand at."""

    entity: str
    rows: int
    position: int


def channel_of(warehouse: Warehouse, entity: str, channels: Sequence[str]) -> str:
    """The channel that the entity's snapshots are pinned on. Raises `NothingToRebuildFrom`."""
    taken = Snapshots.open(warehouse, entity)
    found = next((channel for channel in channels if taken is not None and taken.pinned_on(channel)), None)
    if found is None:
        raise NothingToRebuildFrom(entity, channels)
    return found


def applying(spark: SparkSession, privacy: Privacy, entity: str, channel: str) -> Apply:
    """Applies with Spark what a channel has of an entity."""
    return lambda tables: apply_entity(tables, spark, privacy, entity, channel, "sfcdc rebuild")


def rebuild_entity(warehouse: Warehouse, entity: str, channel: str, apply: Apply) -> RebuildReport:
    """Build the entity's layers from what was landed and read, and put them in place.

    Raises what `apply` raises, before anything has changed, and `ConcurrentCommit` where other runs are always faster.
    """
    beside = build_beside(warehouse, [f"{layer}/{entity}" for layer in LAYERS])
    return put_layers_in_place(beside, entity, channel, apply)


def put_layers_in_place(beside: Beside, entity: str, channel: str, apply: Apply) -> RebuildReport:
    """Build all layers and let them take their place together with the other tables of `beside`, which come first.

    The present layers may move on meanwhile; the new ones are brought as far before they are put in place.
    """
    for _ in range(ATTEMPTS):
        report = apply(beside)
        try:
            _swap(beside, entity, channel)
        except ConcurrentCommit:
            continue
        finish(beside)
        return RebuildReport(entity, report.rows, report.to_position)
    raise ConcurrentCommit(current_state.name_of(entity), f"it moved on {ATTEMPTS} times while it was built again")


def _swap(beside: Beside, entity: str, channel: str) -> None:
    """Put the tables in place. Raises `ConcurrentCommit` when another run is or was at work on them."""
    state = open_if_readable(beside.present, current_state.name_of(entity))
    if state is not None:
        _let_nobody_else_commit(state, _memory(beside, current_state.name_of(entity), channel), channel)
    present = {name: open_if_readable(beside.present, name) for name in beside.tables}
    present[current_state.name_of(entity)] = state
    for name in beside.tables:
        if name == snapshots.name_of(entity):
            put_in_place(beside, name, present[name], *_snapshots(beside, entity).memory(channel))
        else:
            put_in_place(beside, name, present[name], _memory(beside, name, channel), {})


def _let_nobody_else_commit(state: Table, built: Mapping[str, int], channel: str) -> None:
    """Have the commits of runs that opened `current_state` before refused, so that they cannot move it on after the
    layers before it were replaced. Raises `ConcurrentCommit` when it has moved on already."""
    for application in (channel, SNAPSHOT, REFETCH):
        if (state.transaction_version(application) or 0) > built[application]:
            raise ConcurrentCommit(state.name, "it has newer events or readings than what was built")
    state.append(state.schema.empty_table(), {SNAPSHOT: state.transaction_version(SNAPSHOT) or 0}, {})


def _memory(beside: Beside, name: str, channel: str) -> dict[str, int]:
    """All that a layer remembers in its transaction versions, as it was built; what it does not have counts as 0."""
    built = Table.open(beside, name)
    assert built is not None, name
    remembered = (channel, SNAPSHOT, REFETCH, DOUBTED, READ_AT)
    return {application: built.transaction_version(application) or 0 for application in remembered}


def _snapshots(beside: Beside, entity: str) -> Snapshots:
    built = Snapshots.open(beside, entity)
    assert built is not None, entity
    return built


def remove_layers(warehouse: Warehouse, entity: str, *, and_snapshots: bool = False) -> list[str]:
    """Remove the entity's layers that can be made anew; with its snapshots they can from the org alone. Returns the
    names of the tables that are gone."""
    removed = []
    for layer in (*LAYERS, snapshots.LAYER) if and_snapshots else LAYERS:
        root = warehouse.filesystem(layer)
        if root.get_file_info(entity).type == fs.FileType.Directory:
            root.delete_dir(entity)
            removed.append(f"{layer}/{entity}")
    return removed
