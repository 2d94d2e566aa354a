"""What a tick says: what has landed, and why it asks for no run."""

from __future__ import annotations

from collections.abc import Sequence

from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.entities.refused_reads import sentences
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.runtime.errors import counted, enumerated
from sfcdc_assets.settings.channel_kinds import is_polled

NAMES_SHOWN = 20
"""Entities in one line."""


def landed_sentence(report: LandingReport, by: str, count: int | None = None) -> str:
    """Say how much has landed, and how far the channel stands; `count`: instead of what the report has."""
    events = report.count if count is None else count
    if is_polled(report.channel):
        return f"{counted(events, 'changed record')} of polled objects read{by}, position {report.position}"
    description = f"{counted(events, 'event')} landed on {report.channel}{by}, position {report.position}"
    return description if report.has_answered else f"{description} (the stream has not answered yet)"


def idle_sentence(
    report: LandingReport,
    description: str,
    states: Sequence[EntityState],
    snapshot_run: str | None,
    no_room: str | None,
) -> str:
    """Say why a tick asks for no run, after `description`: what is waited for, or that all is up to date."""
    damaged = [str(state.damaged) for state in states if state.damaged is not None]
    if damaged:
        return f"{description}; {' '.join(damaged)} All other entities go on."
    refused = {state.entity: state.refused for state in states if state.refused is not None}
    if refused:
        return f"{description}; {' '.join(sentences(refused))}"
    waiting = [state.entity for state in states if state.needs_snapshot]
    if waiting and snapshot_run:
        return f"{description}; run {snapshot_run} takes the snapshot of {enumerated(waiting, NAMES_SHOWN)}."
    if waiting and no_room:
        return f"{description}; snapshots of {enumerated(waiting, NAMES_SHOWN)} wait: {no_room}."
    if waiting and not report.has_checkpoint:
        return (
            f"{description}; the stream was begun at LATEST and no keepalive has come yet, so no snapshot can be taken."
        )
    if not report.is_complete:
        return (
            f"{description}; the last transaction may not be complete yet, all is applied up to position "
            f"{report.complete_position}."
        )
    off = [state.entity for state in states if state.off_channel]
    settling = [state.entity for state in states if state.lacks_snapshot and state.paused and not state.off_channel]
    if off or settling:
        reasons = [
            *([f"off the channel, so its changes raise no event: {enumerated(off, NAMES_SHOWN)}"] if off else []),
            *(
                [f"suspect and read again when the stream has settled: {enumerated(settling, NAMES_SHOWN)}"]
                if settling
                else []
            ),
        ]
        return f"{description}; all else is up to date; {'; '.join(reasons)}."
    suspects = {state.entity: state.suspects_open for state in states if state.suspects_open}
    if suspects:
        blocked = ", ".join(f"{count} of {entity}" for entity, count in suspects.items())
        return f"{description}; all else is up to date; suspect records are read back after their pause: {blocked}."
    if any(state.has_work or state.needs_snapshot for state in states):
        return f"{description}; the last run failed, and is tried again in a moment."
    all_of_them = "the entity is" if len(states) == 1 else f"all {len(states)} entities are"
    return f"{description}; {all_of_them} up to date."
