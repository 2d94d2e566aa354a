"""Whether a change of a record raises a notification of a PushTopic, and of what kind (Streaming API Developer Guide,
"Event Notification Rules" and "Compound Fields in PushTopic Queries"). Pure.

A record is compared with the condition as it is after the change. So one that leaves it raises none, and its last
notification stays what subscribers know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org.transaction import CREATE, DELETE, UNDELETE, UPDATE, RecordChange, StoredValue
from sfcdc_assets.emulator.streaming.topic_query import TopicQuery


class NotifyForFields(StrEnum):
    """Changes of which fields are looked at."""

    ALL = "All"
    REFERENCED = "Referenced"
    SELECT = "Select"
    WHERE = "Where"


KINDS: Mapping[str, str] = {CREATE: "created", UPDATE: "updated", DELETE: "deleted", UNDELETE: "undeleted"}
"""What a notification calls an operation."""


@dataclass(frozen=True)
class Rules:
    """A topic's: which operations and which fields."""

    query: TopicQuery
    fields: NotifyForFields = NotifyForFields.REFERENCED
    operations: frozenset[str] = frozenset(KINDS)


def kind_of_notification(
    rules: Rules,
    change: RecordChange,
    definition: ObjectDefinition,
    matches: Callable[[Mapping[str, StoredValue]], bool],
) -> str | None:
    """Return `created`, `updated`, `deleted` or `undeleted`; None for none. `matches` compares values with the
    condition."""
    if change.entity != rules.query.entity or change.change_type not in rules.operations:
        return None
    values = change.before if change.change_type == DELETE else change.after
    if values is None or not matches(values):
        return None
    if change.change_type == UPDATE and not _is_relevant(rules, change, definition):
        return None
    return KINDS[change.change_type]


def _is_relevant(rules: Rules, change: RecordChange, definition: ObjectDefinition) -> bool:
    before, after = change.before or {}, change.after or {}
    changed = {name for name in after if before.get(name) != after.get(name)}
    if rules.fields is NotifyForFields.ALL:
        return bool(changed)
    named: set[str] = set()
    if rules.fields is not NotifyForFields.WHERE:
        named.update(rules.query.selected)
    if rules.fields is not NotifyForFields.SELECT:
        named.update(rules.query.where_fields)
    return bool(changed & noticed(named, definition))


def noticed(named: set[str], definition: ObjectDefinition) -> set[str]:
    """Return the stored fields whose changes are noticed where these fields are named: a name as a whole stands for its
    parts, which do not stand for themselves; an address or a place stands for nothing, its parts for themselves."""
    found: set[str] = set()
    for name in named:
        field = definition.field(name)
        if field is None:
            continue
        if field.name == "Name" and definition.components.get("Name"):
            found.update(part.name for part in definition.components["Name"])
            found.add("Name")
        elif not field.is_compound and field.compound_field_name != "Name":
            found.add(field.name)
    return found
