"""Managed event subscriptions in the org's setup: ManagedEventSubscription.

See
https://developer.salesforce.com/docs/atlas.en-us.api_tooling.meta/api_tooling/tooling_api_objects_managedeventsubscription.htm
"""

from __future__ import annotations

from sfcdc_assets.salesforce.errors import UnexpectedAnswer
from sfcdc_assets.salesforce.session import OrgSession


def managed_topic(session: OrgSession, developer_name: str) -> str | None:
    """The topic of the managed event subscription of that name, such as `/data/ChangeEvents`; None where there is none.
    One request; the user needs 'View Setup and Configuration'. Raises `RequestRefused` and `UnexpectedAnswer`."""
    # A query of the Tooling API that asks for Metadata must find one row.
    soql = f"SELECT Id, Metadata FROM ManagedEventSubscription WHERE DeveloperName = '{developer_name}' LIMIT 1"
    answer = session.request("GET", "tooling/query/", params={"q": soql}, what="a tooling query")
    records = answer.get("records") if isinstance(answer, dict) else None
    if not isinstance(records, list):
        raise UnexpectedAnswer(session.url_of("tooling/query/"), "it is not a page of a query")
    if not records:
        return None
    metadata = records[0].get("Metadata") if isinstance(records[0], dict) else None
    topic = metadata.get("topicName") if isinstance(metadata, dict) else None
    if not isinstance(topic, str) or not topic:
        raise UnexpectedAnswer(session.url_of("tooling/query/"), f"{developer_name} names no topic")
    return topic
