"""Event schemas by REST, which has them under the same ids as the Pub/Sub API."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from sfcdc_assets.salesforce.channel_members import change_event_of
from sfcdc_assets.salesforce.errors import RequestRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.streams.errors import SchemaNotFound

COMPACT = {"payloadFormat": "COMPACT"}
"""The schema as Avro has it: the other form, EXPANDED, is of its own kind."""
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


class RestSchemas:
    """Those of a session's org."""

    def __init__(self, session: OrgSession) -> None:
        self._session = session

    def schema(self, schema_id: str) -> str:
        """Return the Avro schema as JSON, as Pub/Sub writes it. Raises `EventSchemaNotFound` and what `OrgSession`
        raises."""
        answer = self._asked(f"event/eventSchema/{quote(schema_id, safe='')}", schema_id)
        return json.dumps(
            {key: answer[key] for key in _KEYS if key in answer}, separators=(",", ":"), ensure_ascii=False
        )

    def newest_id(self, entity: str) -> str:
        """Return the id as the entity's own event names it. Raises `EventSchemaNotFound` and what `OrgSession`
        raises."""
        event = change_event_of(entity)
        return str(self._asked(f"sobjects/{event}/eventSchema", event)["uuid"])

    def _asked(self, path: str, subject: str) -> dict[str, Any]:
        try:
            answer = self._session.request("GET", path, what=f"the event schema {subject}", params=COMPACT)
        except RequestRefused as refusal:
            raise EventSchemaNotFound(subject, refusal) from refusal
        if not isinstance(answer, dict) or not isinstance(answer.get("fields"), list) or "uuid" not in answer:
            raise UnexpectedAnswer(self._session.url_of(path), "it is not the schema of an event")
        return answer
