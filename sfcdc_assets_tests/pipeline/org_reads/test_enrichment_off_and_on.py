"""Enrichment that is taken off a channel's member and put on again: what events check meanwhile, and what is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.runtime import clock
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.story import ledger, make_channel, story

pytestmark = pytest.mark.slow

CHANNEL = "Sales__chn"
ENRICHED = ("Site", "Phone")


@pytest.fixture
def org(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedPipeline]:
    """Accounts on a custom channel that carries two more of their fields; the tables equal the org."""
    with story(tmp_path_factory.mktemp("enrichment"), ["Account"], records=8, seed=5) as pipeline:
        make_channel(CHANNEL, {"AccountChangeEvent": ENRICHED})
        monkeypatch.setenv("SFCDC_CHANNELS", f"/data/{CHANNEL}")
        pipeline.sync()
        yield pipeline


def enrich(pipeline: EmulatedPipeline, *fields: str) -> None:
    """As an admin does, some seconds after whatever was before: stamps of the org are of whole seconds."""
    clock.sleep(5)
    (member,) = [each for each in pipeline.org.channels.members() if each.channel == CHANNEL]
    pipeline.org.channels.enrich(member.id, fields)


def update(pipeline: EmulatedPipeline, record_id: str, **values: object) -> None:
    with pipeline.org.transaction(user_id=pipeline.org.users.integration) as one:
        one.update("Account", record_id, values)


def drift(pipeline: EmulatedPipeline, record_id: str, site: str) -> None:
    """A change of which no event tells, and one of another field."""
    pipeline.server.faults.arm(Fault.LOST_EVENT)
    update(pipeline, record_id, Site=site)
    update(
        pipeline, record_id, Rating="Hot" if pipeline.org.record("Account", record_id)["Rating"] != "Hot" else "Cold"
    )


def settle(pipeline: EmulatedPipeline) -> None:
    """Stream and setup are the same again: what was suspect until then is read."""
    clock.sleep(660)
    pipeline.sync()
    pipeline.sync()


def suspects(pipeline: EmulatedPipeline) -> list[tuple[str, str]]:
    return sorted((entry["reason"], entry["status"]) for entry in ledger(pipeline))


def test_what_enrichment_does_not_check_while_it_is_off_is_read_when_it_is_on_again(org: EmulatedPipeline) -> None:
    first, second, third = ids(org.org, "Account")[:3]
    drift(org, first, "while it is on")
    org.sync()
    assert suspects(org) == [("drift", "healed")], "the event carries the site"

    enrich(org)
    org.sync()
    assert ("missed_events", "open") in suspects(org), "the org tells that the member was changed, and not what of it"
    assert all(row["_in_doubt"] for row in org.rows("Account").values())
    settle(org)
    assert suspects(org) == [("drift", "healed"), ("missed_events", "healed")]
    org.assert_equal_to_the_org()

    drift(org, second, "while it is off")
    org.sync()
    assert org.rows("Account")[second]["Rating"] == org.org.record("Account", second)["Rating"]
    assert org.rows("Account")[second]["Site"] != "while it is off", "no event tells of it, or checks it"
    assert sfcdc("verify").exit_code == 3, "an audit finds it"

    enrich(org, *ENRICHED)
    org.sync()
    assert ("missed_events", "open") in suspects(org)
    settle(org)
    assert {status for _, status in suspects(org)} == {"healed"}
    org.assert_equal_to_the_org()

    drift(org, third, "on again")
    org.sync()
    assert suspects(org).count(("drift", "healed")) == 2, "events check the site again"
    org.assert_equal_to_the_org()


def test_enrichment_that_was_off_while_nobody_looked_is_seen_and_read_again(org: EmulatedPipeline) -> None:
    record_id = ids(org.org, "Account")[0]
    enrich(org)
    drift(org, record_id, "while it is off")
    enrich(org, *ENRICHED)
    org.sync()
    assert suspects(org) == [("missed_events", "open")]
    assert "its member was modified at" in ledger(org)[0]["detail"]
    settle(org)
    assert suspects(org) == [("missed_events", "healed")]
    org.assert_equal_to_the_org()
