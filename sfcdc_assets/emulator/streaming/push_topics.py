"""PushTopics: records that define a channel by a query, and the notifications that commits raise on them (Streaming API
Developer Guide, "PushTopic" and "Event Notification Rules")."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.emulator.errors import ApiError, QueryError, RecordError
from sfcdc_assets.emulator.event_filter import matches
from sfcdc_assets.emulator.field_value import datetime_text
from sfcdc_assets.emulator.ids import instance_characters, new_id
from sfcdc_assets.emulator.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.streaming.notification_rules import KINDS, NotifyForFields, Rules, kind_of_notification
from sfcdc_assets.emulator.streaming.notifications import NotificationLog
from sfcdc_assets.emulator.streaming.topic_query import LONGEST, TopicQuery, topic_query
from sfcdc_assets.emulator.transaction import CREATE, DELETE, UNDELETE, UPDATE, RecordChange, StoredValue, Transaction

LONGEST_NAME, LONGEST_DESCRIPTION = 25, 400
_OPERATIONS = {
    "NotifyForOperationCreate": CREATE,
    "NotifyForOperationUpdate": UPDATE,
    "NotifyForOperationDelete": DELETE,
    "NotifyForOperationUndelete": UNDELETE,
}
_DEFAULTS: Mapping[str, Any] = {
    "Name": None,
    "Query": None,
    "ApiVersion": None,
    "Description": None,
    "IsActive": True,
    "NotifyForFields": NotifyForFields.REFERENCED.value,
    **dict.fromkeys(_OPERATIONS, True),
}
_REQUIRED = ("Name", "Query", "ApiVersion")


@dataclass(frozen=True)
class PushTopic:
    """One record; `values` are those that a client writes, under their API names."""

    id: str
    created: int
    modified: int
    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The channel is `/topic/` and this."""
        return str(self.values["Name"])

    @property
    def operations(self) -> frozenset[str]:
        """What may raise a notification."""
        return frozenset(operation for name, operation in _OPERATIONS.items() if self.values[name])


class PushTopics:
    """The topics of one org. From its making on, commits are evaluated and their notifications kept in `log`."""

    def __init__(self, org: EmulatedOrg, log: NotificationLog) -> None:
        self._org = org
        self._log = log
        self._database = org.database
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _push_topic (number INTEGER PRIMARY KEY AUTOINCREMENT, "
            "created INTEGER NOT NULL, modified INTEGER NOT NULL, record TEXT NOT NULL)"
        )
        self._has_any = bool(self.all())
        org.subscribe_commits(self._evaluate)

    def all(self) -> list[PushTopic]:
        """The oldest first."""
        rows = self._database.rows("SELECT number, created, modified, record FROM _push_topic ORDER BY number")
        return [PushTopic(self._id(row[0]), row[1], row[2], json.loads(row[3])) for row in rows]

    def get(self, topic_id: str) -> PushTopic:
        """A topic by its id of 15 or 18 characters. Raises ApiError NOT_FOUND."""
        found = next((each for each in self.all() if each.id[:15] == topic_id[:15]), None)
        if found is None:
            raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)
        return found

    def create(self, values: Mapping[str, Any]) -> PushTopic:
        """A new topic. Raises RecordError and QueryError; nothing is kept then."""
        with self._database.transaction():
            checked = self._checked({**_DEFAULTS, **_known(values)}, None)
            if sum(each.values["IsActive"] for each in self.all()) >= self._org.settings.push_topics:
                raise RecordError("LIMIT_EXCEEDED", "the maximum number of active PushTopics is reached")
            now = self._org.clock()
            self._database.execute(
                "INSERT INTO _push_topic (created, modified, record) VALUES (?, ?, ?)", (now, now, json.dumps(checked))
            )
            self._has_any = True
            return self.all()[-1]

    def update(self, topic_id: str, values: Mapping[str, Any]) -> PushTopic:
        """Change a topic; what is committed from now on is compared with the new query. Raises as `create` does."""
        with self._database.transaction():
            topic = self.get(topic_id)
            checked = self._checked({**topic.values, **_known(values)}, topic)
            self._database.execute(
                "UPDATE _push_topic SET modified = ?, record = ? WHERE number = ?",
                (self._org.clock(), json.dumps(checked), self._number(topic)),
            )
            return self.get(topic_id)

    def delete(self, topic_id: str) -> None:
        """Remove a topic."""
        self._database.execute("DELETE FROM _push_topic WHERE number = ?", (self._number(self.get(topic_id)),))

    def query_of(self, topic: PushTopic) -> TopicQuery:
        """Its query against the objects as they are now. Raises QueryError when a field is gone."""
        return topic_query(str(topic.values["Query"]), self._org.definitions, frozenset())

    def _checked(self, values: dict[str, Any], before: PushTopic | None) -> dict[str, Any]:
        missing = [name for name in _REQUIRED if values[name] in (None, "")]
        if missing:
            raise RecordError(
                "REQUIRED_FIELD_MISSING", f"Required fields are missing: [{', '.join(missing)}]", (*missing,)
            )
        for name, most in (("Name", LONGEST_NAME), ("Query", LONGEST), ("Description", LONGEST_DESCRIPTION)):
            text = values[name]
            if text is not None and not isinstance(text, str):
                raise RecordError("INVALID_TYPE", f"{name} must be a text", (name,))
            if text is not None and len(text) > most:
                message = f"{name}: data value too large: {text} (max length={most})"
                raise RecordError("STRING_TOO_LONG", message, (name,))
        version = values["ApiVersion"]
        if isinstance(version, bool) or not isinstance(version, int | float) or version <= 20:
            raise RecordError(
                "FIELD_INTEGRITY_EXCEPTION", "ApiVersion must be an API version greater than 20.0", ("ApiVersion",)
            )
        if values["NotifyForFields"] not in list(NotifyForFields):
            message = f"bad value for restricted picklist field: {values['NotifyForFields']}"
            raise RecordError("INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST", message, ("NotifyForFields",))
        for each in self.all():
            if each.name.lower() == str(values["Name"]).lower() and (before is None or each.id != before.id):
                message = f"duplicate value found: Name duplicates value on record with id: {each.id}"
                raise RecordError("DUPLICATE_VALUE", message, ("Name",))
        _check_fields(topic_query(values["Query"], self._org.definitions, frozenset()), values["NotifyForFields"])
        return values

    def _evaluate(self, transaction: Transaction) -> None:
        """Inside the org's lock and database transaction: records and notifications are committed together or not."""
        for topic in self.all() if self._has_any else ():
            if not topic.values["IsActive"]:
                continue
            try:
                query = self.query_of(topic)
            except QueryError:
                continue  # a field or object that it names is gone
            rules = Rules(query, NotifyForFields(topic.values["NotifyForFields"]), topic.operations)
            for change in transaction.changes:
                if not change.is_silent and change.entity == query.entity:
                    self._notify(topic, rules, change)

    def _notify(self, topic: PushTopic, rules: Rules, change: RecordChange) -> None:
        definition, where = self._org.definitions[change.entity], rules.query.where
        computed = self._org.record(change.entity, change.record_id) if change.after is not None else None

        def is_match(values: Mapping[str, StoredValue]) -> bool:
            record = {**(computed or {}), **values, "Id": change.record_id}
            return where is None or matches(where, definition, record, self._database, now=self._org.clock())

        kind = kind_of_notification(rules, change, definition, is_match)
        if kind is None:
            return
        names = ("Id",) if kind == KINDS[DELETE] else _with_parts(rules.query.selected, definition)
        record = {**(computed or {}), "Id": change.record_id}
        self._log.add(
            topic.id,
            {
                "event": {"createdDate": datetime_text(self._org.clock(), "Z"), "type": kind},
                "entity": change.entity,
                "where": rules.query.where_fields,
                "sobject": {name: _value(definition, name, record) for name in names},
            },
        )

    def _id(self, number: int) -> str:
        return new_id("0IF", instance_characters(self._org.seed), number)

    def _number(self, topic: PushTopic) -> int:
        rows = self._database.rows("SELECT number FROM _push_topic")
        return next(number for (number,) in rows if self._id(number) == topic.id)


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    names = {name.lower(): name for name in _DEFAULTS}
    known: dict[str, Any] = {}
    for name, value in values.items():
        if name.lower() not in names:
            raise RecordError("INVALID_FIELD", f"No such column '{name}' on sobject of type PushTopic", (name,))
        known[names[name.lower()]] = value
    return known


def _check_fields(query: TopicQuery, notify: str) -> None:
    selected = any(name != "Id" for name in query.selected)
    compared = any(name != "Id" for name in query.where_fields)
    for kind, is_enough, where in (
        (NotifyForFields.REFERENCED, selected or compared, "SELECT or WHERE"),
        (NotifyForFields.SELECT, selected, "SELECT"),
        (NotifyForFields.WHERE, compared, "WHERE"),
    ):
        if notify == kind and not is_enough:
            message = f"NotifyForFields {kind} needs at least one field other than Id in the {where} clause"
            raise QueryError("INVALID_FIELD", message)


def _with_parts(names: Sequence[str], definition: ObjectDefinition) -> tuple[str, ...]:
    """A name that has parts brings them all."""
    parts = [part.name for part in definition.components.get("Name", ())] if "Name" in names else []
    return tuple(dict.fromkeys((*names, *parts)))


def _value(definition: ObjectDefinition, name: str, record: Mapping[str, StoredValue]) -> Any:
    """A field's value as notifications have it; a compound one has its parts that are not empty."""
    field = definition.field(name)
    if field is None:
        return None
    if field.is_compound and field.name not in record:
        parts = {part.name: _value(definition, part.name, record) for part in definition.components.get(name, ())}
        return {part: value for part, value in parts.items() if value is not None} or None
    value = record.get(field.name)
    if value is None:
        return None
    if field.type == "boolean":
        return bool(value)
    if field.type == "datetime":
        return datetime_text(int(value), "Z")
    return f"{value}Z" if field.type == "time" else value
