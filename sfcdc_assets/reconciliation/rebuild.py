"""Rebuild: an entity's layers are built again beside the present ones and take their place at the end.

Until then nothing of the entity changes, so a rebuild that fails or is killed costs nothing. Each layer is replaced by
one commit, in the order in which a batch commits: `current_state` is last. Only then are the others noted as built with
it: after a crash in between the next run builds all of them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from sfcdc_assets.apply.apply_changes import ApplyReport, ToApply, apply_entity
from sfcdc_assets.lake.delta.shadow_tables import (
    ShadowTables,
    build_shadow_tables,
    built_table,
    finish,
    open_if_readable,
    put_in_place,
)
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit, TableDamaged
from sfcdc_assets.lake.tables import current_state, history, snapshots, text_fields
from sfcdc_assets.lake.tables.appended_table import Appended
from sfcdc_assets.lake.tables.change_of_channel import begin_on
from sfcdc_assets.lake.tables.current_state import noted_counts, noting
from sfcdc_assets.lake.tables.entity_checkpoint import BATCH, Checkpoint
from sfcdc_assets.lake.tables.formula_values import follow_anew
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.run_context import OrgRunContext, RunContext
from sfcdc_assets.org_reads.take_snapshot import ToCopy, take_snapshot
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.reconciliation.past_in_history import keep_versions_before
from sfcdc_assets.runtime.errors import SfcdcError

LAYERS = (text_fields.LAYER, history.LAYER, current_state.LAYER)
"""What can be built again, in the order of its commits; raw_events, snapshot, schemas and the reconciliation ledger are
what it is built from."""

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
    """What took the place of the entity's layers: how many rows, the position they stand at, and how many versions were
    kept that nothing would make again: from field history, and of before the entity got its channel."""

    entity: str
    rows: int
    position: int
    kept: int = 0


def channel_of(warehouse: Warehouse, entity: str, channels: Sequence[str]) -> str:
    """Return the channel that the entity's snapshots have their watermark on. Raises `NothingToRebuildFrom`."""
    taken = Snapshots.open(warehouse, entity)
    found = next((channel for channel in channels if taken is not None and taken.has_watermark_on(channel)), None)
    if found is None:
        raise NothingToRebuildFrom(entity, channels)
    return found


def applying(run: RunContext, entity: str, channel: str) -> Apply:
    """Return a function that applies what a channel has of an entity, with all that is the run's but its tables."""
    return lambda tables: apply_entity(replace(run, warehouse=tables), ToApply(entity, channel))


def rebuild_entity(warehouse: Warehouse, entity: str, channel: str, apply: Apply) -> RebuildReport:
    """Build the entity's layers from what was landed and read, and put them in place.

    Raises what `apply` raises and `RebuildAtWork`, before anything has changed, and `ConcurrentCommit` where other runs
    are always faster.
    """
    with build_shadow_tables(warehouse, [f"{layer}/{entity}" for layer in LAYERS]) as shadow:
        return put_layers_in_place(shadow, entity, channel, apply)


def put_layers_in_place(shadow: ShadowTables, entity: str, channel: str, apply: Apply) -> RebuildReport:
    """Build all layers and let them take their place together with the other tables of `shadow`, which come first.

    The present layers may move on meanwhile; the new ones are brought as far before they are put in place: what was
    read back and polled while a new snapshot was read, too.
    """
    kept = 0
    for _ in range(ATTEMPTS):
        _take_over_read_backs(shadow, entity)
        report = apply(shadow)
        with suppress(TableDamaged):  # of the present tables, which are replaced because of it
            kept += keep_versions_before(shadow.present, shadow, entity, _watermark(shadow, entity))
        try:
            _swap(shadow, entity, channel)
        except ConcurrentCommit:
            continue
        finish(shadow)
        follow_anew(shadow.present, entity)
        return RebuildReport(entity, report.rows, report.to_position, kept)
    raise ConcurrentCommit(current_state.name_of(entity), f"it moved on {ATTEMPTS} times while it was built again")


def _watermark(shadow: ShadowTables, entity: str) -> int:
    """Return the watermark up to which reads of the org stand for what was before them; 0 where a new one was taken,
    with which history begins again."""
    taken = Snapshots.open(shadow, entity) if snapshots.name_of(entity) not in shadow.tables else None
    return taken.watermark() if taken is not None else 0


def _take_over_read_backs(shadow: ShadowTables, entity: str) -> None:
    """Bring what was read back since a new snapshot was begun into the table that it is in."""
    name = snapshots.name_of(entity)
    present, built = open_if_readable(shadow.present, name), Snapshots.open(shadow, entity)
    if name in shadow.tables and present is not None and built is not None:
        with suppress(TableDamaged):  # of the present table, which is replaced because of it
            built.take_over_read_backs(Snapshots(present))


def _swap(shadow: ShadowTables, entity: str, channel: str) -> None:
    """Put the tables in place. Raises `ConcurrentCommit` when another run is or was at work on them, and
    `RebuildOvertaken` when one of them is gone."""
    state = open_if_readable(shadow.present, current_state.name_of(entity))
    built = [built_table(shadow, name) for name in shadow.tables][-1]
    checkpoint = Checkpoint.of(built, channel)
    if state is not None:
        _let_nobody_else_commit(state, checkpoint, channel)
        built_before = Checkpoint.of(state, channel).built_at
        checkpoint = replace(checkpoint, built_at=max(checkpoint.built_at, built_before + 1))
    present = {name: open_if_readable(shadow.present, name) for name in shadow.tables}
    taken = present.get(snapshots.name_of(entity))
    if taken is not None and Snapshots(taken).last_read_back() > checkpoint.read_back:
        raise ConcurrentCommit(taken.name, "it has newer reads of the org than what was built")
    present[current_state.name_of(entity)] = state
    appended = (text_fields.open_if_there, history.open_if_there)
    memory = {each.table.name: each.memory() for each in _opened(shadow, entity, appended)}
    versions = checkpoint.versions(channel) | noting(noted_counts(built), checkpoint.batch)
    for name in shadow.tables:
        if name == snapshots.name_of(entity):
            put_in_place(shadow, name, present[name], Snapshots(built_table(shadow, name)).versions(channel))
        else:
            put_in_place(shadow, name, present[name], memory.get(name, versions))
    for each in _opened(shadow.present, entity, appended):
        each.note_built()


def _opened(
    warehouse: Warehouse, entity: str, layers: Sequence[Callable[[Warehouse, str], Appended | None]]
) -> list[Appended]:
    return [found for layer in layers if (found := layer(warehouse, entity)) is not None]


def _let_nobody_else_commit(state: Table, built: Checkpoint, channel: str) -> None:
    """Have the commits of runs that opened `current_state` before refused, so that they cannot move it on after the
    layers before it were replaced. Raises `ConcurrentCommit` when it has moved on already."""
    present = Checkpoint.of(state, channel)
    if any(getattr(present, name) > getattr(built, name) for name in ("position", "snapshot", "read_back")):
        raise ConcurrentCommit(state.name, "it has newer events or reads of the org than what was built")
    state.append(state.schema.empty_table(), {BATCH: present.batch}, {})


def rebuild_from_org(run: OrgRunContext, entity: str, channel: str, watermarks: Watermarks) -> RebuildReport:
    """Read the entity whole and put what is built from that in place; `history` begins again.

    The snapshot has its watermark after everything that has landed, so that no event before it is read again, be its
    file damaged. Raises what `take_snapshot` and `apply_entity` raise and `RebuildAtWork`, before anything has
    changed.
    """
    warehouse = run.warehouse
    with build_shadow_tables(warehouse, [f"{layer}/{entity}" for layer in (snapshots.LAYER, *LAYERS)]) as shadow:
        present = open_if_readable(warehouse, snapshots.name_of(entity))
        taken = Snapshots(present) if present else None
        first = begin_on(warehouse, entity, channel) if taken and not taken.has_watermark_on(channel) else 0
        at_least = max(first, RawEvents.open(warehouse).last_position(channel))
        wanted = ToCopy(entity, channel, at_least, _numbers(warehouse, entity, taken))
        take_snapshot(replace(run, warehouse=shadow), wanted, lambda position: watermarks.of(channel, position))
        report = put_layers_in_place(shadow, entity, channel, applying(run, entity, channel))
        for name in shadow.tables:
            table = open_if_readable(warehouse, name)
            if table is not None:
                table.forget_older_versions()
    return report


def _numbers(warehouse: Warehouse, entity: str, taken: Snapshots | None) -> tuple[int, int]:
    """Return the last snapshot and the last read-back that any table knows of."""
    state = open_if_readable(warehouse, current_state.name_of(entity))
    known = [(taken.last_number(), taken.last_read_back())] if taken else []
    applied = Checkpoint.of(state, channel="") if state else Checkpoint()
    known.append((applied.snapshot, applied.read_back))
    return max([0, *(number for number, _ in known)]), max([0, *(read_back for _, read_back in known)])
