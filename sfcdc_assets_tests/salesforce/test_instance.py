"""The name of the org's instance: asked seldom, and not needed."""

from __future__ import annotations

import pytest

from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.errors import OrganizationReplaced
from sfcdc_assets.salesforce.grants import ClientCredentials
from sfcdc_assets.salesforce.instance import ASKED_EVERY_SECONDS, InstanceName
from sfcdc_assets.salesforce.login import Login
from sfcdc_assets_tests.salesforce.scripted_org import ORGANIZATION_ID, Answer, refusal


class MovedByHand(clock.Clock):
    """Time that the test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def named(name: str) -> Answer:
    return Answer(200, {"totalSize": 1, "done": True, "records": [{"InstanceName": name}]})


def test_the_instance_is_asked_at_most_every_ten_minutes(org, session):
    org.on("GET", "query/", named("USA1"), named("USA2"))
    time = MovedByHand()
    with clock.using(time):
        name = InstanceName(session)
        description = []
        for _ in range(240):  # ticks of 5 s, for 20 minutes
            description.append(name())
            time.seconds += 5
    assert ASKED_EVERY_SECONDS == 600
    assert description == ["USA1"] * 120 + ["USA2"] * 120
    assert len(org.requests("GET", "query/")) == 2


def test_a_rest_side_that_cannot_be_reached_leaves_the_name_as_it_was_and_is_asked_again_soon(org, session):
    org.on("GET", "query/", named("USA1"), Answer(503, []), named("USA2"))
    time = MovedByHand()
    with clock.using(time):
        name = InstanceName(session)
        description = []
        for _ in range(7):
            description.append(name())
            time.seconds += 300
    assert description == ["USA1", "USA1", "USA1", "USA2", "USA2", "USA2", "USA2"]


def test_who_must_know_the_instance_now_asks_at_once_and_gets_no_name_that_the_org_did_not_say(org, session):
    org.on("GET", "query/", named("USA1"), named("USA2"), Answer(503, []), named("USA3"))
    time = MovedByHand()
    with clock.using(time):
        name = InstanceName(session)
        assert (name(), name.asked_now(), name()) == ("USA1", "USA2", "USA2")
        assert (name.asked_now(), name.asked_now(), name()) == (None, None, "USA2")
        assert len(org.requests("GET", "query/")) == 3, "it is not asked each time while it does not answer"
        time.seconds += 60
        assert name.asked_now() == "USA3"


@pytest.mark.parametrize("answer", [Answer(503, []), Answer(200, "<html>Hello</html>")])
def test_one_that_fails_for_a_day_is_asked_an_hour_apart_and_stops_nothing(org, session, answer):
    org.on("GET", "query/", named("USA1"), answer)
    time = MovedByHand()
    with clock.using(time):
        name = InstanceName(session)
        for _ in range(24 * 60):
            assert name() == "USA1"
            time.seconds += 60
    assert 24 <= len(org.requests("GET", "query/")) <= 32


@pytest.mark.parametrize(
    "answer",
    [
        refusal(400, "INVALID_TYPE"),
        refusal(403, "REQUEST_LIMIT_EXCEEDED"),
        Answer(200, {"totalSize": 0, "done": True, "records": []}),
    ],
)
def test_an_org_that_does_not_tell_it_stops_nothing(org, session, answer):
    org.on("GET", "query/", answer)
    assert InstanceName(session)() is None


def test_a_session_does_not_go_on_with_another_org_that_answers_the_login(org, session, monkeypatch):
    """A sandbox was refreshed while the session was open."""
    assert session.organization_id == ORGANIZATION_ID
    other = Login("another-token", org.url, "00DAb0000000002MAA")
    monkeypatch.setattr(ClientCredentials, "login", lambda *_, **__: other)
    with pytest.raises(OrganizationReplaced, match="00DAb0000000002MAA"):
        session.token(refresh=True)
