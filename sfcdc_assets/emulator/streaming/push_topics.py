"""PushTopics: records that define a channel by a query, and the notifications that commits raise on them (Streaming API
Developer Guide, "PushTopic" and "Event Notification Rules")."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import ApiError, QueryError, RecordError
from sfcdc_assets.emulator.events.event_filter import matches
from sfcdc_assets.emulator.org.ids import instance_characters, new_id
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import DELETE, RecordChange, StoredValue, Transaction
from sfcdc_assets.emulator.records.field_value import datetime_text
from sfcdc_assets.emulator.streaming.notification_rules import KINDS, NotifyForFields, Rules, kind_of_notification
from sfcdc_assets.emulator.streaming.notifications import NotificationLog
from sfcdc_assets.emulator.streaming.push_topic import PushTopic, checked
from sfcdc_assets.emulator.streaming.topic_query import TopicQuery, topic_query


class PushTopics:
    """The topics of one org. From its making on, commits are evaluated and their notifications kept in `log`."""

    def __init__(self, org: EmulatedOrg, log: NotificationLog, wake: Callable[[], None]) -> None:
        """`wake` is called when there may be something new in the log."""
        self._org = org
        self._log = log
        self._wake = wake
        self._database = org.database
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _push_topic (number INTEGER PRIMARY KEY AUTOINCREMENT, "
            "created INTEGER NOT NULL, modified INTEGER NOT NULL, record TEXT NOT NULL)"
        )
        self._has_any = bool(self.all())
        self._queries: dict[str, tuple[ObjectDefinition, TopicQuery]] = {}
        """Text -> what it is, and the object by which that was found: each commit asks."""
        org.subscribe_commits(self._evaluate)

    def all(self) -> list[PushTopic]:
        """Return the topics, the oldest first."""
        rows = self._database.rows("SELECT number, created, modified, record FROM _push_topic ORDER BY number")
        return [PushTopic(self._id(row[0]), row[1], row[2], json.loads(row[3])) for row in rows]

    def get(self, topic_id: str) -> PushTopic:
        """Return a topic by its id of 15 or 18 characters. Raises ApiError NOT_FOUND."""
        found = next((each for each in self.all() if each.id[:15] == topic_id[:15]), None)
        if found is None:
            raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)
        return found

    def create(self, values: Mapping[str, Any]) -> PushTopic:
        """Create a new topic. Raises RecordError and QueryError; nothing is kept then."""
        with self._database.transaction():
            record = checked(values, None, self.all(), self._org.definitions)
            if sum(each.values["IsActive"] for each in self.all()) >= self._org.settings.push_topics:
                raise RecordError("LIMIT_EXCEEDED", "the maximum number of active PushTopics is reached")
            now = self._org.clock()
            self._database.execute(
                "INSERT INTO _push_topic (created, modified, record) VALUES (?, ?, ?)", (now, now, json.dumps(record))
            )
            self._has_any = True
            return self.all()[-1]

    def update(self, topic_id: str, values: Mapping[str, Any]) -> PushTopic:
        """Change a topic; what is committed from now on is compared with the new query. Raises as `create` does."""
        with self._database.transaction():
            topic = self.get(topic_id)
            self._has_any = True
            record = checked(values, topic, self.all(), self._org.definitions)
            self._database.execute(
                "UPDATE _push_topic SET modified = ?, record = ? WHERE number = ?",
                (self._org.clock(), json.dumps(record), self._number(topic)),
            )
            return self.get(topic_id)

    def delete(self, topic_id: str) -> None:
        """Remove a topic."""
        self._database.execute("DELETE FROM _push_topic WHERE number = ?", (self._number(self.get(topic_id)),))

    def query_of(self, topic: PushTopic) -> TopicQuery:
        """Return the topic's query against the objects as they are now. Raises QueryError when a field is gone."""
        text, definitions = str(topic.values["Query"]), self._org.definitions
        definition, query = self._queries.get(text, (None, None))
        if query is None or definitions.get(query.entity) is not definition:
            query = topic_query(text, definitions, frozenset())
            self._queries[text] = definitions[query.entity], query
        return query

    def _evaluate(self, transaction: Transaction) -> None:
        """Inside the org's lock and database transaction: records and notifications are committed together or not."""
        if not self._has_any:
            return
        if self._log.claim(transaction.commit_number):
            self._notify_of(transaction)
        self._wake()

    def _notify_of(self, transaction: Transaction) -> None:
        for topic in self.all():
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
        names = ("Id",) if kind == KINDS[DELETE] else rules.query.selected
        record = {**(computed or {}), "Id": change.record_id}
        self._log.add(
            topic.id,
            {
                "event": {"createdDate": datetime_text(self._org.clock(), "Z"), "type": kind},
                "entity": change.entity,
                "where": rules.query.where_fields,
                "sobject": body(names, definition, record),
            },
        )

    def _id(self, number: int) -> str:
        return new_id("0IF", instance_characters(self._org.seed), number)

    def _number(self, topic: PushTopic) -> int:
        rows = self._database.rows("SELECT number FROM _push_topic")
        return int(next(number for (number,) in rows if self._id(number) == topic.id))


def body(names: Sequence[str], definition: ObjectDefinition, record: Mapping[str, StoredValue]) -> dict[str, Any]:
    """Return what a notification says of a record, in JSON: the values of the fields that its query selects; a name
    that has parts brings them all."""
    parts = [part.name for part in definition.components.get("Name", ())] if "Name" in names else []
    return {name: _value(definition, name, record) for name in dict.fromkeys((*names, *parts))}


def _value(definition: ObjectDefinition, name: str, record: Mapping[str, StoredValue]) -> Any:
    """Return a field's value as notifications have it; a compound one has its parts that are not empty."""
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
