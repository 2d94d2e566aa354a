"""The sample messages of the vendor's guides: those of change events as data, the others with who compares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Sample:
    """A change event that the guide shows, and which event of which scenario is the same (see the file)."""

    section: str
    page: int
    scenario: str
    event: tuple[int, int]
    payload: Mapping[str, Any]
    channel: str = "ChangeEvents"
    names: Mapping[str, str] = field(default_factory=dict)
    differs: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)
    is_part: bool = False
    """The guide shows some of its fields only."""

    def __str__(self) -> str:
        return f"p. {self.page} {self.section}"


@cache
def samples() -> tuple[Sample, ...]:
    document = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return tuple(Sample(**{**entry, "event": tuple(entry["event"])}) for entry in document)


@dataclass(frozen=True)
class OtherMessage:
    """Messages of the guides that no scenario produces. `covered_by`: the test that compares them with the org's; none
    for what the org has not."""

    guide: str
    section: str
    why: str
    covered_by: str | None


_STREAMING, _CAPTURE = "Streaming API 41.0", "Change Data Capture 52.0"
_TESTS = "sfcdc_assets_tests/emulator/"
_EXAMPLES = f"{_TESTS}test_streaming_guide_examples.py::"
_NOTIFICATION = "a notification of a PushTopic, which is no change event"
OTHERS = (
    OtherMessage(
        _CAPTURE,
        "Change Event Message Structure (p. 5)",
        "the names of a message's parts, without values: those of every sample",
        f"{_TESTS}test_scenarios.py::test_an_event_is_as_the_guide_shows_it",
    ),
    OtherMessage(
        _CAPTURE,
        "Example: Add Event Enrichment Fields with Tooling API (p. 25)",
        "requests to the Tooling API, no messages",
        f"{_TESTS}test_custom_channels.py::test_the_tooling_api_makes_changes_and_removes_channels_and_members",
    ),
    OtherMessage(
        _CAPTURE,
        "Example: Add Event Enrichment Fields with Metadata API (p. 28)",
        "files of the Metadata API, which this org has not",
        None,
    ),
    OtherMessage(
        _CAPTURE,
        "Apex Trigger Quick Start (p. 33), Obtain Apex Trigger Subscribers (p. 41)",
        "a log of Apex and a list of triggers, which this org has not",
        None,
    ),
    OtherMessage(
        _CAPTURE,
        "Obtain Usage Metrics for the Last 24 Hours (p. 42)",
        "rows of a query, no messages",
        f"{_TESTS}test_objects_of_setup_and_stock.py::test_usage_of_events_is_what_was_published_and_delivered",
    ),
    OtherMessage(
        _CAPTURE,
        "Monitor Hourly Event Delivery Usage with REST API (p. 50)",
        "answers of the limits resource, no messages",
        f"{_TESTS}test_rest_limits_tooling_soap_control.py::test_requests_are_counted_and_limited_over_24_hours",
    ),
    OtherMessage(
        _STREAMING,
        "Event Replay Process, a generic event (ch. 1)",
        "a payload of a generic channel, which somebody pushes",
        f"{_EXAMPLES}test_messages_of_a_generic_channel",
    ),
    OtherMessage(
        _STREAMING,
        "Event Replay Process, a PushTopic event (ch. 1)",
        _NOTIFICATION,
        f"{_EXAMPLES}test_test_accounts_of_the_replay_example",
    ),
    OtherMessage(
        _STREAMING,
        "Step 4: Test the PushTopic Channel (ch. 2)",
        _NOTIFICATION,
        f"{_EXAMPLES}test_invoice_statements_of_the_quick_start",
    ),
    OtherMessage(
        _STREAMING,
        "Subscribe to and Replay Events Using a Visualforce Page (ch. 3)",
        f"{_NOTIFICATION}; payloads of a generic channel",
        f"{_EXAMPLES}test_test_accounts_of_the_replay_example",
    ),
    OtherMessage(
        _STREAMING,
        "Interactive Visualforce Page without Replay: handshake, connect and subscribe (ch. 3)",
        "answers of the protocol",
        f"{_TESTS}cometd_service/test_sessions_and_replay.py::test_the_first_connect_is_answered_at_once_with_the_advice",
    ),
    OtherMessage(
        _STREAMING,
        "Interactive Visualforce Page without Replay: two invoices (ch. 3)",
        _NOTIFICATION,
        f"{_EXAMPLES}test_invoice_statements_of_the_quick_start",
    ),
    OtherMessage(
        _STREAMING,
        "Subscribe to and Replay Events Using a Java Client (ch. 3)",
        f"{_NOTIFICATION}, as one client prints it",
        "sfcdc_assets_tests/event_channels/push_topics/test_guide_messages.py::test_what_the_java_client_prints_are_two_invoices",
    ),
    OtherMessage(
        _STREAMING,
        "PushTopic Queries (ch. 4)",
        f"{_NOTIFICATION}, of a version without replay",
        "sfcdc_assets_tests/event_channels/push_topics/test_guide_messages.py::test_messages_from_before_replay_are_refused_loudly",
    ),
    OtherMessage(
        _STREAMING,
        "Bulk Subscriptions (ch. 5)",
        "requests of the protocol",
        f"{_EXAMPLES}test_three_topics_are_subscribed_to_by_one_array_of_messages",
    ),
    OtherMessage(
        _STREAMING,
        "402 Error (ch. 5)",
        "an answer of the protocol",
        f"{_TESTS}test_push_topic_tables.py::test_a_session_that_is_not_known_begins_again_with_a_handshake",
    ),
    OtherMessage(
        _STREAMING,
        "Notification Message Order (ch. 5)",
        _NOTIFICATION,
        f"{_TESTS}test_push_topic_tables.py::test_messages_of_two_records_say_when_each_event_occurred",
    ),
    OtherMessage(
        _STREAMING,
        "Run a Java Client, Generate Events Using REST (ch. 7 and 8)",
        "payloads of a generic channel, and the answer to who pushes them",
        f"{_TESTS}test_streaming_channels.py::test_a_payload_goes_to_who_is_subscribed_or_to_the_users_that_are_named",
    ),
)
