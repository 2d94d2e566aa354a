"""Every error of the Streaming API that the vendor names is one that the emulated org sends, to a client by HTTP.

Texts: https://developer.salesforce.com/docs/atlas.en-us.api_streaming.meta/api_streaming/streaming_error_codes.htm
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets_tests.emulator.wire import ALL, HANDSHAKE, Wire, wire

VENDORS = (
    "400::API version in the URI is mandatory. URI format: '/cometd/",
    "400::Unsupported API version. Only API versions '23.0' and above are supported. URI format: '/cometd/",
    "400::Invalid connection type ",
    "400::The channel you requested to subscribe to doesn't exist {",
    "400::Channel name not specified",
    "400::Channel subscriptions must start with a leading '/'",
    "400::Query fields ",
    "400::Client ",
    "400::The replayId {",
    "400::Authenticated user id does not match the session's user id",
    "401::Authentication invalid",
    "401::Request requires authentication",
    "403::Cannot create channel",
    "403::Subscriber does not have access to the entity in this topic",
    "403::Subscriber does not have access to the fields referenced in the where clause",
    "403::Handshake denied",
    "403::Client has not completed handshake",
    "403::Organization concurrent user limit exceeded",
    "403::Organization total events daily limit exceeded",
    "403::Restricted channel",
    "403::User not enabled for streaming",
    "403::User not allowed to subscribe CDC without required permissions",
    "403::Subscription limit exceeded for this topic",
    "403::To protect all customers from excessive usage and Denial of Service attacks, we limit the number of "
    "simultaneous connections per server node.",
    "403::Unable to create channel dynamically",
    "403::No access on channel",
    "403::Unknown client",
    "404::Channel names may not vary only by case",
    "404::Unknown channel",
    "413 Maximum Request Size Exceeded",
    "503::Server is too busy",
)
"""As they begin; what follows is the channel, the client, the fields or the replay id."""
LEFT_OUT = {
    "403::Unable to create channel dynamically": "by the fault `cometd_refused`: of a generic channel that is not "
    "there the org says 404::Unknown channel",
    "403::To protect all customers from excessive usage and Denial of Service attacks, we limit the number of "
    "simultaneous connections per server node.": "by the fault `cometd_refused`: the org is one server for few clients",
    "403::Subscription limit exceeded for this topic": "by the fault `cometd_refused`: the org has no limit a topic",
}
"""What no request and no condition brings about here."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with wire(tmp_path_factory.mktemp("org")) as opened:
        topic = {"Name": "Accounts", "Query": "SELECT Id, Name FROM Account WHERE Phone != null", "ApiVersion": 60.0}
        assert opened.rest("POST", "/sobjects/PushTopic", json=topic).status_code == 201
        assert opened.rest("POST", "/sobjects/StreamingChannel", json={"Name": "/u/News"}).status_code == 201
        yield opened


@pytest.fixture
def org(served: Wire) -> Iterator[Wire]:
    yield served
    served.reset()


# -- what brings each about


def error(reply: dict[str, Any]) -> str:
    assert reply["successful"] is False
    return str(reply["error"])


def at(path: str) -> Callable[[Wire], str]:
    return lambda org: error(org.cometd(HANDSHAKE, path=path).json()[0])


def subscribing(channel: str, place: object = -1) -> Callable[[Wire], str]:
    return lambda org: error(org.subscribe_cometd(channel, place))


def connect(org: Wire, client: str, **values: Any) -> str:
    message = {"channel": "/meta/connect", "clientId": client, "connectionType": "long-polling", **values}
    return error(org.cometd(message).json()[0])


def by_kind(org: Wire) -> str:
    return error(org.cometd({**HANDSHAKE, "supportedConnectionTypes": ["websocket"]}).json()[0])


def by_lost_cookie(org: Wire) -> str:
    client = org.handshake()
    org.http.cookies.clear()
    return connect(org, client)


def by_another_user(org: Wire) -> str:
    client = org.handshake()
    org.token = org.server.sessions.issue(org.org.users.automated_process)
    return connect(org, client)


def by_expired_token(org: Wire) -> str:
    client = org.handshake()
    org.server.sessions.expire_all()
    return connect(org, client)


def by_no_token(org: Wire) -> str:
    return connect_without_token(org, org.handshake())


def connect_without_token(org: Wire, client: str) -> str:
    message = {"channel": "/meta/connect", "clientId": client, "connectionType": "long-polling"}
    return error(org.cometd(message, headers={"Authorization": ""}).json()[0])


def denied(org: Wire) -> str:
    org.token = "not-a-token"
    reply = org.cometd(HANDSHAKE).json()[0]
    assert reply["ext"]["sfdc"]["failureReason"] == "401::Authentication invalid"
    return error(reply)


def unreadable(entity: str, channel: str) -> Callable[[Wire], str]:
    def bring_about(org: Wire) -> str:
        org.org.unreadable_objects.add(entity)
        return subscribing(channel)(org)

    return bring_about


def by_hidden_field(org: Wire) -> str:
    org.org.field_security.hide("Account", "Phone")
    return subscribing("/topic/Accounts")(org)


def by_dynamic_channel(org: Wire) -> str:
    org.org.settings = OrgSettings(dynamic_streaming_channels=True)
    return subscribing("/u/no good name!")(org)


def by_limit_of_clients(org: Wire) -> str:
    org.org.settings = OrgSettings(concurrent_streaming_clients=0)
    return subscribing(ALL)(org)


def by_limit_of_events(org: Wire) -> str:
    assert org.subscribe_cometd(ALL)["successful"]
    org.org.settings = OrgSettings(daily_event_deliveries=0)
    org.create()
    client = org.cometd_client
    return connect(org, client, advice={"timeout": 0})


def by_size(org: Wire) -> str:
    answer = org.cometd({**HANDSHAKE, "id": "x" * 33_000})
    return f"{answer.status_code} {answer.text}"


def by_load(org: Wire) -> str:
    org.faults.arm(Fault.COMETD_BUSY)
    return connect(org, "x")


BROUGHT_ABOUT: dict[str, Callable[[Wire], str]] = {
    VENDORS[0]: at("/cometd"),
    VENDORS[1]: at("/cometd/22.0"),
    "400::Invalid connection type ": by_kind,
    "400::The channel you requested to subscribe to doesn't exist {": subscribing("/data/NothingChangeEvent"),
    "400::Channel name not specified": subscribing(" "),
    "400::Channel subscriptions must start with a leading '/'": subscribing("data/ChangeEvents"),
    "400::Query fields ": subscribing("/topic/Accounts?Fax='1'"),
    "400::Client ": by_lost_cookie,
    "400::The replayId {": subscribing(ALL, 123),
    "400::Authenticated user id does not match the session's user id": by_another_user,
    "401::Authentication invalid": by_expired_token,
    "401::Request requires authentication": by_no_token,
    "403::Cannot create channel": by_dynamic_channel,
    "403::Subscriber does not have access to the entity in this topic": unreadable("Account", "/topic/Accounts"),
    "403::Subscriber does not have access to the fields referenced in the where clause": by_hidden_field,
    "403::Handshake denied": denied,
    "403::Client has not completed handshake": lambda org: connect(org, ""),
    "403::Organization concurrent user limit exceeded": by_limit_of_clients,
    "403::Organization total events daily limit exceeded": by_limit_of_events,
    "403::Restricted channel": subscribing("/meta/connect"),
    "403::User not allowed to subscribe CDC without required permissions": unreadable(
        "Account", "/data/AccountChangeEvent"
    ),
    "403::No access on channel": unreadable("StreamingChannel", "/u/News"),
    "403::Unknown client": lambda org: connect(org, "nobody"),
    "404::Channel names may not vary only by case": subscribing("/u/NEWS"),
    "404::Unknown channel": subscribing("/u/Nothing"),
    "413 Maximum Request Size Exceeded": by_size,
    "503::Server is too busy": by_load,
}


@pytest.mark.parametrize("text", BROUGHT_ABOUT)
def test_a_request_or_a_condition_brings_the_error_about(org: Wire, text: str) -> None:
    assert BROUGHT_ABOUT[text](org).startswith(text)


@pytest.mark.parametrize("text", [text for text in VENDORS if "::" in text])
def test_a_fault_brings_any_error_about(org: Wire, text: str) -> None:
    client = org.handshake()
    org.faults.arm(Fault.COMETD_REFUSED, error=text)
    assert connect(org, client) == text


def test_a_refused_user_is_the_default_of_that_fault(org: Wire) -> None:
    client = org.handshake()
    org.faults.arm(Fault.COMETD_REFUSED)
    assert connect(org, client) == "403::User not enabled for streaming"


def test_every_error_of_the_vendor_is_sent_or_left_out_with_a_reason() -> None:
    by_the_fault = {"403::User not enabled for streaming"}
    assert set(VENDORS) == {*BROUGHT_ABOUT, *LEFT_OUT, *by_the_fault}
