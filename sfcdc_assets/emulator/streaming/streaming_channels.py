"""Generic channels `/u/...`: their records, and what is pushed to them (Streaming API Developer Guide,
"StreamingChannel" and "Streaming Channel Push")."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.emulator.errors import ApiError, RecordError
from sfcdc_assets.emulator.org.ids import instance_characters, new_id
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.records.field_value import datetime_text, is_text
from sfcdc_assets.emulator.streaming.notifications import NotificationLog

LONGEST_NAME, LONGEST_DESCRIPTION, LONGEST_PAYLOAD = 80, 255, 3_000
_NAME = re.compile(r"/u/[A-Za-z0-9_/]+")
_DEFAULTS: Mapping[str, Any] = {"Name": None, "Description": None}


@dataclass(frozen=True)
class StreamingChannel:
    """One record."""

    id: str
    created: int
    name: str
    description: str | None
    is_dynamic: bool


class StreamingChannels:
    """The generic channels of one org, kept in its database; what is pushed goes into `log`."""

    def __init__(self, org: EmulatedOrg, log: NotificationLog) -> None:
        self._org = org
        self._log = log
        self._database = org.database
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _streaming_channel (number INTEGER PRIMARY KEY AUTOINCREMENT, "
            "created INTEGER NOT NULL, name TEXT NOT NULL, description TEXT, is_dynamic INTEGER NOT NULL)"
        )

    def all(self) -> list[StreamingChannel]:
        """Return the channels, the oldest first."""
        rows = self._database.rows(
            "SELECT number, created, name, description, is_dynamic FROM _streaming_channel ORDER BY number"
        )
        return [
            StreamingChannel(self._id(number), created, name, description, bool(dynamic))
            for number, created, name, description, dynamic in rows
        ]

    def get(self, channel_id: str) -> StreamingChannel:
        """Return a channel by its id of 15 or 18 characters. Raises ApiError NOT_FOUND."""
        found = next((each for each in self.all() if each.id[:15] == channel_id[:15]), None)
        if found is None:
            raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)
        return found

    def create(self, values: Mapping[str, Any], *, is_dynamic: bool = False) -> StreamingChannel:
        """Create a new channel. Raises RecordError; nothing is kept then."""
        with self._database.transaction():
            checked = self._checked({**_DEFAULTS, **values}, None)
            if len(self.all()) >= self._org.settings.streaming_channels:
                raise RecordError("LIMIT_EXCEEDED", "the maximum number of streaming channels is reached")
            self._database.execute(
                "INSERT INTO _streaming_channel (created, name, description, is_dynamic) VALUES (?, ?, ?, ?)",
                (self._org.clock(), checked["Name"], checked["Description"], is_dynamic),
            )
            return self.all()[-1]

    def update(self, channel_id: str, values: Mapping[str, Any]) -> None:
        """Change its name or description. Raises RecordError."""
        with self._database.transaction():
            channel = self.get(channel_id)
            checked = self._checked({"Name": channel.name, "Description": channel.description, **values}, channel)
            self._database.execute(
                "UPDATE _streaming_channel SET name = ?, description = ? WHERE name = ?",
                (checked["Name"], checked["Description"], channel.name),
            )

    def delete(self, channel_id: str) -> None:
        """Remove a channel."""
        self._database.execute("DELETE FROM _streaming_channel WHERE name = ?", (self.get(channel_id).name,))

    def push(self, channel_id: str, events: Sequence[Any], online: Collection[str]) -> list[dict[str, Any]]:
        """Keep and send each payload; `online` are the users who are subscribed now. The answer tells who listened.

        Raises RecordError for a payload that is too long; nothing is sent then.
        """
        channel = self.get(channel_id)
        for event in events:
            payload = event.get("payload") if isinstance(event, dict) else None
            users = event.get("userIds", []) if isinstance(event, dict) else None
            if not isinstance(payload, str) or not isinstance(users, list):
                raise ApiError("JSON_PARSER_ERROR", "each of pushEvents must have a payload, as text, and userIds")
            if len(payload) > LONGEST_PAYLOAD:
                message = f"payload: data value too large: {payload[:40]}... (max length={LONGEST_PAYLOAD})"
                raise RecordError("STRING_TOO_LONG", message, ("payload",))
        results: list[dict[str, Any]] = []
        with self._database.transaction():
            for event in events:
                users = [str(each) for each in event.get("userIds", [])]
                about = {"createdDate": datetime_text(self._org.clock(), "Z")}
                self._log.add(channel.id, {"event": about, "payload": event["payload"], "users": users})
                status = {user: user in online for user in users}
                fanout = sum(status.values()) if users else -1 if online else 0
                results.append({"fanoutCount": fanout, "userOnlineStatus": status})
        return results

    def _checked(self, values: Mapping[str, Any], before: StreamingChannel | None) -> Mapping[str, Any]:
        for name in values:
            if name not in _DEFAULTS:
                raise RecordError(
                    "INVALID_FIELD", f"No such column '{name}' on sobject of type StreamingChannel", (name,)
                )
        name = values["Name"]
        if not name or not isinstance(name, str):
            raise RecordError("REQUIRED_FIELD_MISSING", "Required fields are missing: [Name]", ("Name",))
        for field, most in (("Name", LONGEST_NAME), ("Description", LONGEST_DESCRIPTION)):
            text = values[field] or ""
            if not is_text(text):
                raise RecordError("INVALID_TYPE", f"{field} must be a text", (field,))
            if len(text) > most:
                message = f"{field}: data value too large: {text} (max length={most})"
                raise RecordError("STRING_TOO_LONG", message, (field,))
        if not _NAME.fullmatch(name):
            message = 'Name must start with "/u/" and have alphanumeric and "_", "/" characters only'
            raise RecordError("FIELD_INTEGRITY_EXCEPTION", message, ("Name",))
        for each in self.all():
            if each.name.lower() == name.lower() and (before is None or each.id != before.id):
                message = f"duplicate value found: Name duplicates value on record with id: {each.id}"
                raise RecordError("DUPLICATE_VALUE", message, ("Name",))
        return values

    def _id(self, number: int) -> str:
        return new_id("0M6", instance_characters(self._org.seed), number)
