"""A topic's query beside the describe of its object: what is refused, what is never noticed, and the columns of its
notifications (Streaming API Developer Guide, "Compound Fields in PushTopic Queries")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.field_types import field_type
from sfcdc_assets.event_channels.push_topics.definition import NotifyForFields, PushTopic
from sfcdc_assets.event_channels.push_topics.errors import query_not_supported
from sfcdc_assets.event_channels.push_topics.topic_query import TopicQuery
from sfcdc_assets.salesforce.object_description import COMPOUND_TYPES, FieldDescription, ObjectDescription

STANDARD_OBJECTS = frozenset({"Account", "Campaign", "Case", "Contact", "Lead", "Opportunity", "Task"})
"""Beside all custom objects."""
PILOT_OBJECTS = frozenset(
    {"ContractLineItem", "Entitlement", "LiveChatTranscript", "Quote", "QuoteLineItem", "ServiceContract"}
)
"""Of these the org decides."""
NOTICED_BY = {("Task", "IsClosed"): "Status", ("Task", "WhoCount"): "WhoId", ("Task", "WhatCount"): "WhatId"}
"""Fields whose changes only a change of another field shows."""


@dataclass(frozen=True)
class DescribedQuery:
    """A supported query, its names as the org writes them."""

    object: ObjectDescription
    selected: tuple[FieldDescription, ...]
    compared: tuple[FieldDescription, ...]

    @property
    def entity(self) -> str:
        """The object's API name."""
        return self.object.name

    def columns(self) -> Mapping[str, ColumnType]:
        """Name -> type of what notifications and the query itself tell, `Id` first: compound fields as their parts."""
        found = {"Id": ColumnType.STRING}
        for field in self.selected:
            for each in self.parts_of(field):
                found[each.name] = field_type(each.type).column
        return found

    def parts_of(self, field: FieldDescription) -> tuple[FieldDescription, ...]:
        """Return the fields that one selected field brings: a name itself and its parts, an address or a place its
        parts."""
        parts = self.object.parts_of(field.name)
        if field.type in COMPOUND_TYPES:
            return parts
        return (field, *parts)

    def unnoticed(self, notify: NotifyForFields) -> tuple[str, ...]:
        """Return a sentence for each field whose changes raise no notification although the query names it."""
        if notify is NotifyForFields.ALL:
            return ()
        looked_at = [
            *(self.selected if notify is not NotifyForFields.WHERE else ()),
            *(self.compared if notify is not NotifyForFields.SELECT else ()),
        ]
        return tuple(self._unnoticed(looked_at))

    def _unnoticed(self, looked_at: list[FieldDescription]) -> Iterator[str]:
        names = {field.name for field in looked_at}
        for field in dict.fromkeys(looked_at):
            if field.type in COMPOUND_TYPES and not any(each.name in names for each in self.parts_of(field)):
                parts = ", ".join(each.name for each in self.parts_of(field))
                yield f"changes of {field.name} are not noticed; name its parts too ({parts})"
            elif field.compound_field_name == "Name" != field.name and "Name" not in names:
                yield f"changes of {field.name} are not noticed; name the field Name too"
            elif (needed := NOTICED_BY.get((self.entity, field.name))) is not None and needed not in names:
                yield f"changes of {field.name} are not noticed; name the field {needed} too"


def described_query(topic: PushTopic, query: TopicQuery, described: ObjectDescription) -> DescribedQuery:
    """Look the query's names up. Raises `TopicNotSupported` for what the org would refuse."""
    if not described.custom and described.name not in STANDARD_OBJECTS | PILOT_OBJECTS:
        text = f"entity type {described.name} is not supported in PushTopic queries"
        known = ", ".join(sorted(STANDARD_OBJECTS))
        raise query_not_supported(text, f"Supported are custom objects, {known}; of others, read change events")
    selected = tuple(_field(described, name) for name in query.selected)
    compared = tuple(_field(described, name) for name in query.compared)
    for field in compared:
        if field.type == "textarea":
            text = f"field {field.name} is a text area and cannot be searched"
            raise query_not_supported(text, "Compare another field")
        if field.calculated:
            text = f"formula field {field.name} is not supported in the WHERE clause"
            raise query_not_supported(text, "Compare the fields that the formula is made of; it may be selected")
    _check_notify_for_fields(topic.notify_for_fields, selected, compared)
    return DescribedQuery(described, selected, compared)


def _field(described: ObjectDescription, name: str) -> FieldDescription:
    found = next((field for field in described.fields if field.name.lower() == name.lower()), None)
    if found is None:
        remedy = "Correct the name, or give the user read access to the field"
        raise query_not_supported(f"No such column '{name}' on entity '{described.name}'", remedy)
    return found


def _check_notify_for_fields(
    notify: NotifyForFields, selected: tuple[FieldDescription, ...], compared: tuple[FieldDescription, ...]
) -> None:
    selects, compares = (any(field.name != "Id" for field in fields) for fields in (selected, compared))
    for kind, is_enough, where in (
        (NotifyForFields.REFERENCED, selects or compares, "SELECT or WHERE"),
        (NotifyForFields.SELECT, selects, "SELECT"),
        (NotifyForFields.WHERE, compares, "WHERE"),
    ):
        if notify is kind and not is_enough:
            text = f"NotifyForFields {kind} needs at least one field other than Id in the {where} clause"
            raise query_not_supported(text, "Name one, or set NotifyForFields to All")
