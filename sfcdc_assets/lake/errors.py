"""What can go wrong with the tables, each with the table and the remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sfcdc_assets.runtime.errors import SfcdcError, TransientError, enumerated
from sfcdc_assets.salesforce.object_shape import SHAPE_TABLES


class TableNameUnusable(SfcdcError):
    """A table would lie outside of the warehouse, or under a name that is none."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"{table!a} is no name of a table: nothing was read or written. Names of objects have letters, digits "
            "and underscores; find out which system gave this one."
        )


class WarehousePathUnusable(SfcdcError):
    """The warehouse's path has characters with which its tables would not be found again."""

    def __init__(self, path: str, found: str) -> None:
        self.path, self.found = path, found
        super().__init__(
            f"SFCDC_WAREHOUSE: {path!r} has {found!r} in its path, which the Delta library cannot open. Use a path "
            "without control characters, brackets, backslashes, ^, | and percent escapes such as %20, and in an object "
            "store without ?, # and steps that are empty, `.` or `..`; spaces and letters of any script are fine."
        )


class WarehouseNotWritable(SfcdcError):
    """The warehouse's root cannot be written."""

    def __init__(self, root: str, reason: str) -> None:
        self.root = root
        super().__init__(
            f"SFCDC_WAREHOUSE: the warehouse {root} cannot be written ({reason}). "
            "Point it to a folder or an object store this process may write to."
        )


class StoreRefused(SfcdcError):
    """The object store of the warehouse does not take what this process writes; nothing was written."""

    def __init__(self, root: str, reason: str, remedy: str) -> None:
        self.root, self.reason, self.remedy = root, reason, remedy
        super().__init__(f"SFCDC_WAREHOUSE: the warehouse {root} cannot be used ({reason}). {remedy}")


class StoreUnavailable(TransientError):
    """The object store of the warehouse was not reached."""

    def __init__(self, root: str, reason: str) -> None:
        self.root, self.reason = root, reason
        super().__init__(
            f"The object store of the warehouse {root} does not answer ({reason}). Check the network, "
            "the address of the store and its status; the next run continues from here."
        )


class CommitsNotAtomic(SfcdcError):
    """The store lets two writers commit the same version of a table, so that one's events would be lost."""

    def __init__(self, root: str, accepted: int, writers: int) -> None:
        self.root, self.accepted, self.writers = root, accepted, writers
        super().__init__(
            f"SFCDC_WAREHOUSE: of {writers} commits of one version of a table in {root} its store accepted {accepted}, "
            "so commits would be lost. Nothing was written. Use a store with conditional writes (Amazon S3, Azure and "
            "Google have them, and current releases of stores that speak S3), and unset AWS_S3_ALLOW_UNSAFE_RENAME; or "
            "set AWS_S3_LOCKING_PROVIDER=dynamodb with DELTA_DYNAMO_TABLE_NAME."
        )


class ConcurrentCommit(TransientError):
    """Another writer committed first; nothing of this attempt is in the table. Reopen, decide again, try again."""

    def __init__(self, table: str, reason: str) -> None:
        self.table = table
        super().__init__(f"Table {table}: another writer committed first ({reason}). Reopen the table and try again.")


class UnreadableTable(SfcdcError):
    """A table carries features that its plain Parquet files do not show (deletion vectors, column mapping)."""

    def __init__(self, table: str, features: str) -> None:
        self.table = table
        super().__init__(
            f"Table {table} uses {features}, which change what its files mean. "
            "Make it again with `sfcdc rebuild`, and do not set such features on it."
        )


class NoCut(SfcdcError):
    """There is no consistent cut of a channel, or none that is old enough."""

    def __init__(self, warehouse: str, channel: str, at: datetime | None) -> None:
        self.warehouse, self.channel, self.at = warehouse, channel, at
        of = f" of {channel}" if channel else ""
        when = f" at or before {at.isoformat()}" if at else " yet"
        remedy = "Ask for a later time" if at else "Run `sfcdc sync --until-caught-up`, which makes the first one"
        super().__init__(f"The warehouse {warehouse} has no consistent cut{of}{when}. {remedy}.")


class EntitiesLag(SfcdcError):
    """Entities do not stand at the cut, and the reader wants none that lags."""

    def __init__(self, lagging: Sequence[object]) -> None:
        self.lagging = tuple(lagging)
        super().__init__(
            f"{'; '.join(map(str, self.lagging))}. `sfcdc status` and `gap_reconciliation` say what keeps it; without "
            "`strict` it is shown as it was then."
        )


class NotYetInCut(SfcdcError, LookupError):
    """Entities were asked for that have tables, of which no consistent cut was noted yet: events of a transaction that
    may go on were waiting when they were copied."""

    def __init__(self, entities: Sequence[str]) -> None:
        self.entities = tuple(entities)
        have, them = ("has", "it") if len(self.entities) == 1 else ("have", "them")
        super().__init__(
            f"{' and '.join(self.entities)} {have} tables, but no consistent cut yet. Run `sfcdc sync "
            f"--until-caught-up`, which notes the first one where a channel or polls still feed {them}."
        )


class UnknownInCut(SfcdcError, LookupError):
    """An entity was asked for that a cut does not have; `near`: the one of `known` that is most like the name, if one
    is."""

    def __init__(self, entity: str, known: Sequence[str], near: str | None) -> None:
        self.entity, self.known, self.near = entity, tuple(known), near
        remedy = f"Did you mean {near}?" if near else f"Entities that are: {enumerated(self.known, _LISTED) or 'none'}"
        super().__init__(f"{entity} is not in the cut. {remedy}")


_LISTED = 20
"""Entities in one message."""


class CutGone(SfcdcError):
    """A table was rebuilt after a cut, or a cut's version of it was cleaned up."""

    def __init__(self, table: str, version: int, position: int) -> None:
        self.table, self.version, self.position = table, version, position
        super().__init__(
            f"The cut at position {position} names version {version} of {table}, and that table was rebuilt since, or "
            "its old versions were removed. Use a newer cut; `sfcdc sync` notes one."
        )


class TableDamaged(SfcdcError):
    """A table, or a file that it names, cannot be read."""

    def __init__(self, table: str, entity: str | None, file: str | None, reason: str) -> None:
        self.table, self.entity, self.file = table, entity, file
        of = f" ({entity})" if entity and entity not in table else ""
        what = f"file {file}" if file else "its log"
        super().__init__(f"Table {table}{of} is damaged: {what} {reason}. {mend(table, entity)}")


class TableNotWritten(SfcdcError):
    """The store took no file: the disk is full, a quota is used up, the folder is read-only."""

    def __init__(self, table: str, up_to: Mapping[str, int], root: str, reason: str) -> None:
        self.table, self.up_to = table, dict(up_to)
        at = ", ".join(f"{channel} at position {position}" for channel, position in up_to.items())
        super().__init__(
            f"Table {table} could not be written{f' ({at})' if at else ''}: {reason}. The table is as it was before. "
            f"Make room below {root}, or make it writable; the next `sfcdc sync` continues from here."
        )


def mend(table: str, entity: str | None = None) -> str:
    """Return the sentence that says how a damaged table is mended."""
    layer, _, of = table.partition("/")
    name = of or entity
    if layer in ("text_fields", "history", "current_state"):
        return f"`sfcdc rebuild --entity {name}` builds it again from what was landed."
    if layer in ("raw_events", "snapshot") and name:
        return f"Restore the file, or read {name} from the org again: `sfcdc rebuild --from-org --entity {name}`."
    if layer == "gap_reconciliation":
        return f"Restore it, or remove the folder {table} and run `sfcdc rebuild --from-org --entity {name}`."
    if layer == "push_topic_state":
        return f"Remove the folder {table}: the next `sfcdc sync` folds it again, and `check_topics` asks the query."
    if layer in ("consistent_cuts", "quarantine", "lost_checkpoints"):
        return f"Restore it, or remove the folder {table}: the next `sfcdc sync` begins a new one."
    if layer == "channel_members":
        return (
            f"Restore it, or remove the folder {table}: the next `sfcdc sync` begins a new one, and `sfcdc verify` "
            "finds what was missed of objects that were off their channels, or filtered, meanwhile."
        )
    if layer in {each.name for each in SHAPE_TABLES}:
        return f"Restore it, or remove the folder {table}: what objects look like is asked again within a day."
    return f"Restore the folder {table}, or set SFCDC_WAREHOUSE to a new folder to copy the org again."
