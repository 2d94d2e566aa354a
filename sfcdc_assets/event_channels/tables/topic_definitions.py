"""The definitions of the files beside the topics of the org: checked before anything is sent, planned, applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sfcdc_assets.event_channels.push_topics.definition import PushTopic
from sfcdc_assets.event_channels.push_topics.definition_files import read_definitions
from sfcdc_assets.event_channels.push_topics.described_query import DescribedQuery, described_query
from sfcdc_assets.event_channels.push_topics.errors import TopicFileError, TopicNotSupported
from sfcdc_assets.event_channels.push_topics.org_topics import org_topics
from sfcdc_assets.event_channels.push_topics.plan import Plan, plan
from sfcdc_assets.event_channels.push_topics.topic_query import topic_query
from sfcdc_assets.salesforce.describe import describe
from sfcdc_assets.salesforce.errors import EntityNotReadable, QueryRefused
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.salesforce.session import OrgSession


@dataclass(frozen=True)
class CheckedPlan:
    """A plan over definitions that the org takes, as far as can be known; `warnings`: what the org takes and yet does
    not notify."""

    plan: Plan
    ours: Mapping[Path, PushTopic]
    warnings: tuple[str, ...] = field(default=())


def checked_plan(session: OrgSession, folder: Path) -> CheckedPlan:
    """Read the folder, check every definition against the org's objects, and compare with the org's topics; nothing is
    changed. Raises `TopicFileError`, also for an object that the user may not read, and `TopicsNotReadable`."""
    ours = read_definitions(folder)
    described: dict[str, DescribedQuery] = {}
    warnings: list[str] = []
    for file, topic in ours.items():
        described[topic.name] = checked_query(session, topic, str(file))
        warnings += [f"{topic.name}: {each}" for each in described[topic.name].unnoticed(topic.notify_for_fields)]
    return CheckedPlan(plan(list(ours.values()), org_topics(session)), ours, tuple(warnings))


def checked_query(session: OrgSession, topic: PushTopic, file: str) -> DescribedQuery:
    """Return the query beside a fresh describe of its object; the org has answered it, as SOQL, to this user. Raises
    `TopicFileError`."""
    try:
        query = topic_query(topic.query)
        described = described_query(topic, query, describe(session, query.entity))
        next(query_rows(session, f"{topic.query} LIMIT 1"), None)
    except TopicNotSupported as error:
        raise error.in_file(file) from error
    except QueryRefused as error:
        problem = f"{error.error_code}, {_on_one_line(error.message)}"
        remedy = f"Correct the query, or give the user read access to {query.entity} and its fields: a topic needs it"
        raise TopicFileError(file, "Query", problem, remedy) from error
    except EntityNotReadable as error:
        problem = f"{error.error_code}, {_on_one_line(error.message)} ({error.entity})"
        remedy = f"Correct the object's name, or give the user read access to {error.entity}: a topic needs it"
        raise TopicFileError(file, "Query", problem, remedy) from error
    return described


def _on_one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
