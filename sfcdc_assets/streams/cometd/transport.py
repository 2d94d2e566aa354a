"""The Streaming API as a transport of streams. Schemas come from REST, which has them under the same ids as Pub/Sub."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import side_by_side
from sfcdc_assets.salesforce.channel_members import change_event_of
from sfcdc_assets.salesforce.errors import LoginRefused, OrganizationReplaced, RequestRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.streams.cometd.connection import CometdConnection
from sfcdc_assets.streams.cometd.subscription import CometdSubscription
from sfcdc_assets.streams.delivered_event import ReplayStart
from sfcdc_assets.streams.errors import SchemaNotFound
from sfcdc_assets.streams.resume import ResumePoint, StreamProgress

log = logging.getLogger(__name__)

COMPACT = {"payloadFormat": "COMPACT"}
"""The schema as Avro has it: the other form, EXPANDED, is of its own kind."""
SCHEMAS_AT_ONCE = 8
"""Requests for schemas beside each other."""
_KEYS = ("type", "name", "namespace", "fields")
"""Of a schema, in the order in which Pub/Sub writes them."""


class EventSchemaNotFound(SchemaNotFound):
    """The org does not give out this schema by REST."""

    def __init__(self, subject: str, refusal: RequestRefused) -> None:
        self.subject = subject
        self.refusal = refusal
        super().__init__(
            f"The org has no event schema {subject} for this user ({refusal.error_code}). "
            "The events that name it are kept as received until it is known; give the integration user read access to "
            "the object."
        )


class CometdTransport:
    """Sessions with one org, one for each subscription, and the org's event schemas."""

    name = "cometd"

    def __init__(self, connection: CometdConnection, session: OrgSession) -> None:
        self._connection = connection
        self._session = session

    def subscribe(self, channel: str, begun: ReplayStart, resume: ResumePoint) -> CometdSubscription:
        """See `Transport.subscribe`."""
        return CometdSubscription(self._connection, channel, StreamProgress(begun, resume))

    def schema(self, schema_id: str) -> str:
        """Return the Avro schema as JSON, as Pub/Sub writes it. Raises `EventSchemaNotFound` and what `OrgSession`
        raises."""
        answer = self._asked(f"event/eventSchema/{quote(schema_id, safe='')}", schema_id)
        return json.dumps(
            {key: answer[key] for key in _KEYS if key in answer}, separators=(",", ":"), ensure_ascii=False
        )

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
        event = change_event_of(entity)
        return str(self._asked(f"sobjects/{event}/eventSchema", event)["uuid"])

    def check_channel(self, channel: str, seconds: float) -> None:  # noqa: ARG002 - see below
        """See `Transport.check_channel`: a session that subscribes to new events and ends before its first connect.
        Each of its messages is answered within `ANSWER_SECONDS`, whatever `seconds` is."""
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

    def _asked(self, path: str, subject: str) -> dict[str, Any]:
        try:
            answer = self._session.request("GET", path, what=f"the event schema {subject}", params=COMPACT)
        except RequestRefused as refusal:
            raise EventSchemaNotFound(subject, refusal) from refusal
        if not isinstance(answer, dict) or not isinstance(answer.get("fields"), list) or "uuid" not in answer:
            raise UnexpectedAnswer(self._session.url_of(path), "it is not the schema of an event")
        return answer
