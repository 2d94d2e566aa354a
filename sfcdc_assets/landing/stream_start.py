"""Whether a channel can go on from its checkpoint, and where it is begun if there is none to go on from."""

from __future__ import annotations

from collections.abc import Iterator

from sfcdc_assets.landing.land import MARGIN_MS, Landing
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.channel_kinds import kind_of
from sfcdc_assets.streams.checkpoint import EARLIEST, LATEST, StreamCheckpoint

LEAST_ALLOWANCE = 0.2
"""Share of the day's delivered events that must be left for a start at EARLIEST, which brings up to three days' events
at once and whose cost all subscribers of the org share."""


def why_unusable(checkpoint: StreamCheckpoint, channel: str, transport: str) -> Iterator[str]:
    """Yield each reason for which a reader over this transport cannot go on from the channel's checkpoint."""
    retention_ms = kind_of(channel).retention_ms - MARGIN_MS
    known_ms = max(checkpoint.begun_at_ms or 0, checkpoint.resume.known_at_ms or 0)
    if checkpoint.resume.replay_id is None and known_ms and clock.now_ms() - known_ms > retention_ms:
        yield "no replay id is known, and the stream was heard of longer ago than events are kept"
    if checkpoint.transport != transport and (checkpoint.is_known or checkpoint.begun is not None):
        yield (
            f"the channel was read over {checkpoint.transport} and is read over {transport} now, whose replay ids are "
            "others"
        )


def where_begun(org: OrgConnection, landing: Landing, checkpoint: StreamCheckpoint) -> str:
    """Return where a channel without a checkpoint is begun: at EARLIEST, so that nothing retained is missed, unless
    the settings say otherwise or the org's allowance of delivered events is nearly used up; then at LATEST, and
    what lies before it is read from the org by the snapshots, which have their watermark after it.

    What only the stream brings is begun at LATEST by the settings alone, and never once some of it has landed: what
    lies between would be lost. A used-up allowance is an error then."""
    if not landing.is_in_the_org:
        has_landed = checkpoint.is_known or checkpoint.position > 0
        return EARLIEST if org.from_earliest or has_landed else LATEST
    if not org.from_earliest:
        return LATEST
    allowance = org.delivery_allowance()
    if allowance is not None and allowance.remaining < allowance.maximum * LEAST_ALLOWANCE:
        return LATEST
    return EARLIEST
