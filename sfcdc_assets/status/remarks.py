"""What a person has to know beside the tables of `sfcdc status`, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from sfcdc_assets.entities.refused_reads import sentences
from sfcdc_assets.polls.polled_objects import reasons
from sfcdc_assets.runtime.errors import counted, enumerated
from sfcdc_assets.settings.channel_kinds import feeds_entities
from sfcdc_assets.status.status_report import (
    ChannelStatus,
    EntityStatus,
    FormulaStatus,
    LostCheckpointStatus,
    PrivacyStatus,
    WarehouseStatus,
)

LOST_CHECKPOINTS_SHOWN = 5
UNREAD_SECONDS = 3_600
"""After so long without an answer of a channel, "up to date" in the tables is as of then, which is said."""


def remarks_on(status: WarehouseStatus) -> Iterator[str]:
    """Yield what a person has to know beside the tables, a sentence or two each: what waits, is refused, lost, left out
    or damaged, why, and what ends it."""
    for channel in status.channels:
        yield from _of_channel(channel, status.at)
    for damage in status.damaged:
        yield damage.message
    if status.waiting:
        yield _waiting(status.waiting)
        if status.waiting_because:
            yield f"No copy was begun at the last look: {status.waiting_because}."
    yield from sentences(status.refused_reads)
    for why in sorted({entity.not_fed for entity in status.entities if entity.not_fed}):
        yield _not_fed([entity.entity for entity in status.entities if entity.not_fed == why], why)
    for entity in status.entities:
        yield from _of_entity(entity)
    for purpose, requests in status.requests.items():
        if requests.waiting:
            noun = "object waits" if len(requests.waiting) == 1 else "objects wait"
            yield (
                f"{len(requests.waiting)} {noun} for {purpose} since {requests.waiting_since}, because "
                f"{requests.waiting_because}: {enumerated(requests.waiting)}."
            )
    if status.left_out:
        yield f"SFCDC_POLL leaves out {reasons(status.left_out)}"
    if status.without_asset:
        lacks = "has no asset of its own" if len(status.without_asset) == 1 else "have no assets of their own"
        yield (
            f"{enumerated(status.without_asset)} {lacks} in Dagster yet: load the code location again (Deployment, "
            "Reload)."
        )
    yield from _formulas(status.formulas)
    yield from _privacy(status.privacy)


def _of_channel(channel: ChannelStatus, at: str | None) -> Iterator[str]:
    if channel.pending:
        yield (
            f"{channel.channel}: {counted(channel.pending, 'event')} delivered that could not be landed yet "
            f"({(channel.pending_reason or '').rstrip('.')}). They are kept, and the next try lands them."
        )
    if channel.stopped_because:
        yield (
            f"{channel.channel}: no object could be asked since {channel.stopped_since}: "
            f"{channel.stopped_because.rstrip('.')}. Changes after that are not in the tables yet."
        )
    elif channel.read_at and at and _seconds(channel.read_at, at) > UNREAD_SECONDS:
        yield (
            f"{channel.channel} was last read at {channel.read_at}; what has happened in the org since is in no "
            "table. See whether Dagster, or what calls `sfcdc sync`, is at work."
        )
    for lost in channel.lost_checkpoints[:LOST_CHECKPOINTS_SHOWN]:
        yield f"{channel.channel}: {_lost_checkpoint(channel.channel, lost)}"
    if len(channel.lost_checkpoints) > LOST_CHECKPOINTS_SHOWN:
        yield f"{channel.channel}: --json lists all {len(channel.lost_checkpoints)} lost checkpoints."


def _of_entity(entity: EntityStatus) -> Iterator[str]:
    for why in entity.missed:
        yield f"{why}. It is suspect until it was read again; put back what was taken away, and that follows."
    if entity.filter_expression:
        yield _filtered(entity)
    if entity.not_polled:
        until = f", and what was changed since {entity.polled_until} is not known" if entity.polled_until else ""
        yield f"{entity.entity} could not be polled{until}: {entity.not_polled.rstrip('.')}. It is asked again."
    if entity.not_counted:
        yield (
            f"{entity.entity}: what was deleted for good, or changed without a stamp, is not known: "
            f"{entity.not_counted.rstrip('.')}. It is looked for again."
        )


def _seconds(since: str, until: str) -> float:
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()


def _formulas(formulas: Mapping[str, FormulaStatus]) -> Iterator[str]:
    for entity, each in formulas.items():
        said = [f"the oldest values were read at {each.oldest}" if each.oldest else "no value was read yet"]
        waiting = f"waiting for the next budget (SFCDC_FORMULA_PERCENT): {counted(each.postponed, 'record')}"
        said += [waiting] if each.postponed else []
        said += [f"the last look failed ({each.error.rstrip('.')})"] if each.error else []
        if each.formulas or each.error:
            yield f"{entity}: {counted(each.formulas, 'formula')}; {'; '.join(said)}."
        for name, why in each.withheld.items():
            yield f"{entity}.{name}: this formula is withheld, because {why}."


def _waiting(waiting: Mapping[str, int | None]) -> str:
    """Return the entities that are not copied yet, and which of them are next."""
    known = [records for records in waiting.values() if records is not None]
    size = f", about {counted(sum(known), 'record')}" if known else ""
    unknown = f" and {len(waiting) - len(known)} of unknown size" if known and len(known) < len(waiting) else ""
    noun = "entity waits" if len(waiting) == 1 else "entities wait"
    return f"{len(waiting)} {noun} for a snapshot{size}{unknown}; next: {enumerated(waiting)}."


def _not_fed(entities: Sequence[str], why: str) -> str:
    verb, tables = ("is", "its tables stay") if len(entities) == 1 else ("are", "their tables stay")
    return f"{enumerated(entities)} {verb} not fed by these settings, and {tables} as they are: {why}."


def _filtered(entity: EntityStatus) -> str:
    audited = f"last audited {entity.last_audit}" if entity.last_audit else "never audited"
    return (
        f"{entity.entity}: {entity.channel} filters its events ({entity.filter_expression}); changes outside the "
        f"filter are found by the audit only, {audited}."
    )


def _lost_checkpoint(channel: str, lost: LostCheckpointStatus) -> str:
    what = (
        f"the checkpoint was lost at position {lost.position} ({lost.reason.rstrip('.')}); what happened from "
        f"{lost.bridged_from or 'the beginning'} to {lost.bridged_to} "
    )
    if not feeds_entities(channel):
        if lost.bridged:
            return f"{what}was still kept and is in the table."
        return f"{what}may be missing: the stream was begun again at the earliest event that Salesforce still kept."
    if lost.bridged:
        return f"{what}is bridged: every entity was read again since."
    return f"{what}is not bridged yet: {', '.join(lost.waiting)} will be read again by the next `sfcdc sync` or tick."


def _privacy(status: PrivacyStatus) -> Iterator[str]:
    for entity in sorted({*status.left_out, *status.hashed}):
        parts = [
            f"{counted(len(of_entities[entity]), 'column')} {words}"
            for of_entities, words in ((status.left_out, "left out"), (status.hashed, "hashed"))
            if of_entities.get(entity)
        ]
        yield f"{entity}: {', '.join(parts)} for privacy; --json names them."
    for entity, tables in status.conflicts.items():
        yield f"{entity}: {', '.join(tables)} were written with other settings of SFCDC_EXCLUDE, SFCDC_HASH or its key."
    for rule in status.rules_without_column:
        yield f"SFCDC_EXCLUDE or SFCDC_HASH: {rule} names no column of an entity that is known."
