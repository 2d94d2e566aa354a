"""What `sfcdc status` says, as values; `to_json` is the form that `--json` prints. Times are ISO 8601 in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class LostCheckpointStatus:
    """A break of the channel's order: reading the org bridges the time between the two; `waiting` were not read yet.
    Of a channel without entities nothing can be read: `bridged` says that all events of that time were still kept."""

    reason: str
    position: int
    bridged_from: str | None
    bridged_to: str
    bridged: bool
    waiting: tuple[str, ...]


@dataclass(frozen=True)
class ChannelStatus:
    """What has landed of a channel; `replay_id`, in hex, is one of `transport`, the protocol it was last read by;
    `lost_checkpoints` newest first, `lost_checkpoint` the newest. `read_at`: when a reading
    of it was last answered, to a minute, even if it brought nothing. `repeated_deliveries`: how many the org was
    charged for events that had come before; `pending` events were delivered and could not be landed yet, for
    `pending_reason`."""

    channel: str
    position: int = 0
    complete_position: int = 0
    replay_id: str | None = None
    transport: str | None = None
    landed_at: str | None = None
    read_at: str | None = None
    repeated_deliveries: int = 0
    pending: int = 0
    pending_reason: str | None = None
    lost_checkpoint: LostCheckpointStatus | None = None
    lost_checkpoints: tuple[LostCheckpointStatus, ...] = ()
    stopped_because: str | None = None
    """Of polled objects: why none could be asked at the last reading; null where they were."""
    stopped_since: str | None = None


@dataclass(frozen=True)
class EventTableStatus:
    """The table of a channel that carries no change events. `problems`: rows with values that fit no column."""

    channel: str
    table: str
    rows: int = 0
    problems: int = 0
    newest_event: str | None = None


@dataclass(frozen=True)
class SnapshotStatus:
    """How far the newest snapshot has come."""

    number: int
    rows: int
    complete: bool


@dataclass(frozen=True)
class TableSize:
    """What a table's log says: rows, files and bytes of its newest version. Rows may be of a batch that was not
    committed."""

    rows: int
    files: int
    bytes: int


@dataclass(frozen=True)
class EntityStatus:
    """An entity's tables. `channel` is the one that they rest on, `new_channel` one that comes before it by now;
    `applied` the position up to which its events are in `current_state`, whose Delta version is `version`; `missed` why
    changes may have raised no event that is not made up for yet; `not_fed` why the settings let nothing feed the
    tables, which stay as they are. Of a polled entity, `polled_until`: up to when its changes were seen (UTC, by the
    org's clock); `not_polled`: why its last poll failed. So many events, or polled records, wait to be applied
    (`waiting_events`), the oldest committed in the org, or read, `lag_seconds` ago, None where that cannot be read;
    `sizes` by layer."""

    entity: str
    snapshot: SnapshotStatus | None = None
    rows: int = 0
    deleted: int = 0
    suspects: int = 0
    channel: str | None = None
    applied: int | None = None
    up_to_date: bool = False
    new_channel: str | None = None
    not_fed: str | None = None
    version: int | None = None
    open_suspects: Mapping[str, int] = field(default_factory=dict)
    filter_expression: str | None = None
    last_audit: str | None = None
    polled_until: str | None = None
    not_polled: str | None = None
    not_counted: str | None = None
    """Why what no stamp tells of (records deleted for good, changes without a stamp) was last looked for in vain."""
    missed: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    waiting_events: int | None = 0
    lag_seconds: float | None = 0.0
    sizes: Mapping[str, TableSize] = field(default_factory=dict)


@dataclass(frozen=True)
class TopicStatus:
    """A PushTopic's tables: notifications are landed up to position `landed` and folded up to `applied`; rows, and of
    them those of deleted records and of such that left the topic's filter; when the topic's query was last asked."""

    topic: str
    channel: str
    landed: int = 0
    applied: int | None = None
    rows: int = 0
    deleted: int = 0
    left: int = 0
    last_check: str | None = None


@dataclass(frozen=True)
class PrivacyStatus:
    """Columns that the settings leave out or hash, rules that match none, and tables written with other settings."""

    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hashed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rules_without_column: tuple[str, ...] = ()
    conflicts: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class FormulaStatus:
    """The formula fields of an entity: how many are read, when the oldest value was read (UTC; null before the first),
    how many records wait for the next budget, those that are withheld, each with why, and why the last look failed."""

    formulas: int
    oldest: str | None
    postponed: int = 0
    withheld: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True)
class AllowanceStatus:
    """What the org allows in 24 hours, and what of it was left when it was last asked (UTC)."""

    maximum: int
    remaining: int
    asked_at: str


@dataclass(frozen=True)
class CutStatus:
    """The newest consistent cut of a channel: its position, when its last transaction was committed in the org, when it
    was reached by our clock (UTC), and how many entities lag behind it."""

    position: int
    commit_timestamp: str | None
    applied_at: str | None
    lagging: int


@dataclass(frozen=True)
class RequestStatus:
    """API requests that were made for a purpose in 24 hours; objects that wait for more of them, why, and since when
    some do (UTC)."""

    in_24_hours: int
    waiting: tuple[str, ...] = ()
    waiting_because: str | None = None
    waiting_since: str | None = None


@dataclass(frozen=True)
class DamageStatus:
    """A damaged table; `message` has the command that mends it."""

    table: str
    entity: str | None
    file: str | None
    message: str


@dataclass(frozen=True)
class WarehouseStatus:
    """The whole."""

    warehouse: str
    organization: str | None
    channels: tuple[ChannelStatus, ...]
    entities: tuple[EntityStatus, ...]
    privacy: PrivacyStatus
    refused_reads: Mapping[str, str]
    quarantined: int
    damaged: tuple[DamageStatus, ...]
    event_tables: tuple[EventTableStatus, ...] = ()
    topics: tuple[TopicStatus, ...] = ()
    waiting: Mapping[str, int | None] = field(default_factory=dict)
    """Entities of which no copy is complete, in the order in which they are copied, with about how many records each
    has, null where the org does not say."""
    waiting_because: str | None = None
    """Why no copy of them was begun when that was last looked at; null where copies were begun."""
    formulas: Mapping[str, FormulaStatus] = field(default_factory=dict)
    """By entity."""
    requests: Mapping[str, RequestStatus] = field(default_factory=dict)
    """By purpose: `polls`, `formulas`."""
    cuts: Mapping[str, CutStatus] = field(default_factory=dict)
    """The newest by channel."""
    cuts_kept: int = 0
    allowances: Mapping[str, AllowanceStatus] = field(default_factory=dict)
    """By Salesforce's name, as the org last said."""
    raw_events: TableSize | None = None
    at: str | None = None
    """When the report was made (UTC)."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Objects that a pattern of SFCDC_POLL matches and that are not polled, with the reason."""
    without_asset: tuple[str, ...] = ()
    """Entities that have no asset of their own in Dagster before its code location is loaded again."""

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON-able values."""
        return asdict(self)
