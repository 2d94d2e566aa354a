"""How the org's streams are read: the one module that knows the transports, and makes one from the settings."""

from __future__ import annotations

from collections.abc import Callable

from sfcdc_assets.channel_kinds import ONLY_COMETD, kind_of
from sfcdc_assets.cometd.connection import CometdConnection
from sfcdc_assets.cometd.transport import CometdTransport
from sfcdc_assets.config import Settings
from sfcdc_assets.pubsub.channel import PubSubConnection
from sfcdc_assets.pubsub.credentials import Credentials
from sfcdc_assets.pubsub.transport import PubSubTransport
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.streams.transport import Transport


def new_transport(
    settings: Settings, session: OrgSession, sleep: Callable[[float], None], channel: str | None = None
) -> Transport:
    """A transport for the session's org, with the session's token; whoever makes one closes it. Nothing is connected
    yet. `sleep` makes the pauses between tries. `channel`: one that it has to be able to read."""
    if settings.transport == CometdTransport.name or (channel is not None and kind_of(channel) in ONLY_COMETD):

        def address() -> str:
            return f"{session.instance_url}/cometd/{session.version}"

        return CometdTransport(CometdConnection(address, session.token, session.new_adapter, sleep=sleep), session)

    def credentials(refresh: bool) -> Credentials:
        return Credentials(session.token(refresh), session.instance_url, session.organization_id)

    return PubSubTransport(PubSubConnection(settings.pubsub_endpoint, credentials, settings.ca_file, sleep=sleep))
