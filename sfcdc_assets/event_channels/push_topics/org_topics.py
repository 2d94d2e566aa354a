"""The PushTopics of an org, by REST: read, created and changed, never deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sfcdc_assets.event_channels.push_topics.definition import API_NAMES, NotifyForFields, PushTopic
from sfcdc_assets.event_channels.push_topics.errors import TopicsNotReadable, TopicsRefused
from sfcdc_assets.event_channels.push_topics.plan import OrgTopic, Step
from sfcdc_assets.event_channels.push_topics.soql_tokens import in_one_line
from sfcdc_assets.salesforce.errors import QueryRefused, RequestRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.salesforce.session import OrgSession

MOST_AT_ONCE = 25
"""Subrequests of one composite request (REST API Developer Guide, "Composite")."""
_HALTED = "PROCESSING_HALTED"
"""The code of a subrequest that was undone because another one failed."""


def org_topics(session: OrgSession, name: str | None = None) -> tuple[OrgTopic, ...]:
    """All topics of the org by name, or the one of a name. Raises `TopicsNotReadable`."""
    where = "" if name is None else " WHERE Name = '{}'".format(name.replace("\\", "\\\\").replace("'", "\\'"))
    try:
        rows = list(query_rows(session, f"SELECT Id, {', '.join(API_NAMES)} FROM PushTopic{where} ORDER BY Name"))
    except QueryRefused as refusal:
        raise TopicsNotReadable(refusal) from refusal
    return tuple(OrgTopic(str(row["Id"]), _topic(row)) for row in rows)


def apply_steps(session: OrgSession, steps: Sequence[Step]) -> None:
    """Make the steps. Those of one request are made all or none. Raises `TopicsRefused`."""
    applied: list[str] = []
    for start in range(0, len(steps), MOST_AT_ONCE):
        some = steps[start : start + MOST_AT_ONCE]
        _apply_some(session, some, tuple(applied))
        applied += [step.topic.name for step in some]


def _apply_some(session: OrgSession, steps: Sequence[Step], applied: tuple[str, ...]) -> None:
    path = "composite"
    requests = [_subrequest(session, step, f"topic{number}") for number, step in enumerate(steps)]
    document = {"allOrNone": True, "compositeRequest": requests}
    try:
        answer = session.request("POST", path, json=document, what="changes of PushTopics")
    except RequestRefused as refusal:
        raise TopicsRefused(", ".join(step.topic.name for step in steps), applied, refusal) from refusal
    results = answer.get("compositeResponse") if isinstance(answer, dict) else None
    if not isinstance(results, list) or len(results) != len(steps):
        raise UnexpectedAnswer(session.url_of(path), "it is not the answer to a composite request")
    failed = [
        (step.topic.name, each)
        for step, result in zip(steps, results, strict=True)
        for each in _refusals(step.topic.name, result)
    ]
    if failed:
        name, reason = min(failed, key=lambda each: each[1].error_code == _HALTED)
        raise TopicsRefused(name, applied, reason)


def _subrequest(session: OrgSession, step: Step, reference_id: str) -> dict[str, Any]:
    path = f"/services/data/v{session.version}/sobjects/PushTopic" + (f"/{step.id}" if step.id else "")
    method = "PATCH" if step.id else "POST"
    return {"method": method, "url": path, "referenceId": reference_id, "body": step.values()}


def _refusals(name: str, result: Any) -> Iterator[RequestRefused]:
    status = int(result.get("httpStatusCode", 500))
    if status >= 400:
        body = result.get("body")
        first = body[0] if isinstance(body, list) and body and isinstance(body[0], dict) else {}
        code, message = str(first.get("errorCode", f"HTTP_{status}")), str(first.get("message", "no reason is given"))
        yield RequestRefused(f"the PushTopic {name}", status, code, message)


def _topic(row: dict[str, Any]) -> PushTopic:
    """Return the topic as the org has it, whether this package would make such a one or not."""
    values: dict[str, Any] = {attribute: row.get(name) for name, attribute in API_NAMES.items()}
    values["query"] = in_one_line(str(values["query"]))
    values["api_version"] = float(values["api_version"] or 0)
    values["description"] = values["description"] or None
    values["notify_for_fields"] = NotifyForFields(values["notify_for_fields"])
    return PushTopic(**values)
