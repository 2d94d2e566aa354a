"""The Streaming API as a transport of streams. Schemas come from REST, which has them under the same ids as Pub/Sub."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import side_by_side
from sfcdc_assets.salesforce.errors import LoginRefused, OrganizationReplaced
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.streams.cometd.connection import CometdConnection
from sfcdc_assets.streams.cometd.subscription import CometdSubscription
from sfcdc_assets.streams.delivered_event import ReplayStart
from sfcdc_assets.streams.errors import SchemaNotFound
from sfcdc_assets.streams.rest_schemas import RestSchemas
from sfcdc_assets.streams.resume import ResumePoint, StreamProgress
from sfcdc_assets.streams.transport import with_a_token_that_counts

log = logging.getLogger(__name__)

SCHEMAS_AT_ONCE = 8
"""Requests for schemas beside each other."""


class CometdTransport:
    """Sessions with one org, one for each subscription, and the org's event schemas."""

    name = "cometd"

    def __init__(self, connection: CometdConnection, session: OrgSession) -> None:
        self._connection = connection
        self._schemas = RestSchemas(session)

    def subscribe(self, channel: str, begun: ReplayStart, resume: ResumePoint) -> CometdSubscription:
        """See `Transport.subscribe`."""
        return CometdSubscription(self._connection, channel, StreamProgress(begun, resume))

    def schema(self, schema_id: str) -> str:
        """Return the Avro schema as JSON, as Pub/Sub writes it. Raises `EventSchemaNotFound` and what `OrgSession`
        raises."""
        return self._schemas.schema(schema_id)

    def schemas(self, schema_ids: Sequence[str]) -> Mapping[str, str]:
        """See `Transport.schemas`."""
        found: dict[str, str] = {}
        for schema_id, text in zip(schema_ids, side_by_side(self.schema, schema_ids, SCHEMAS_AT_ONCE), strict=True):
            if not isinstance(text, Exception):
                found[schema_id] = text
            elif isinstance(text, LoginRefused | OrganizationReplaced):
                raise text
            elif not isinstance(text, SchemaNotFound):
                log.warning("the schema %s is asked for again later: %s", schema_id, text)
        return found

    def newest_schema_id(self, entity: str) -> str:
        """Return the id as the entity's own event names it. Raises `EventSchemaNotFound` and what `OrgSession`
        raises."""
        return self._schemas.newest_id(entity)

    def check_channel(self, channel: str, seconds: float) -> None:  # noqa: ARG002 - see below
        """See `Transport.check_channel`: a session that subscribes to new events and ends before its first connect.
        Each of its messages is answered within `ANSWER_SECONDS`, whatever `seconds` is."""
        with_a_token_that_counts(partial(self._check, channel), self._connection.refresh_credentials)

    def _check(self, channel: str) -> None:
        client = self._connection.client(clock.current())
        try:
            client.handshake()
            client.subscribe({channel: ReplayStart.LATEST})
            client.disconnect()
        except BaseException as error:
            client.leave(error)
            raise
        client.http.close()

    def close(self) -> None:
        """Subscriptions close their own sessions."""
