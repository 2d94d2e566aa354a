"""How the org's streams are read: the one module that knows the transports, and makes one from the settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sfcdc_assets.salesforce.managed_subscription import managed_topic
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.streams.cometd.connection import CometdConnection
from sfcdc_assets.streams.cometd.transport import CometdTransport
from sfcdc_assets.streams.pubsub.channel import PubSubConnection
from sfcdc_assets.streams.pubsub.credentials import Credentials
from sfcdc_assets.streams.pubsub.transport import PubSubTransport
from sfcdc_assets.streams.transport import Transport


def new_transport(settings: Settings, session: OrgSession, sleep: Callable[[float], None], channel: str) -> Transport:
    """Return a transport for the session's org, with the session's token; whoever makes one closes it. Nothing is
    connected yet. `sleep` makes the pauses between tries. `channel`: one that it has to be able to read, which decides
    on the protocol (`Settings.transport_of`)."""
    if settings.transport_of(channel) == CometdTransport.name:

        def address() -> str:
            return f"{session.instance_url}/cometd/{session.version}"

        return CometdTransport(CometdConnection(address, session.token, session.new_adapter, sleep=sleep), session)

    def credentials(*, refresh: bool) -> Credentials:
        return Credentials(session.token(refresh=refresh), session.instance_url, session.organization_id)

    connection = PubSubConnection(settings.pubsub_endpoint, credentials, settings.ca_file, sleep=sleep)
    return PubSubTransport(connection, partial(managed_topic, session))
