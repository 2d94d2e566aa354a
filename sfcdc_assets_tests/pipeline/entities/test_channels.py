"""Several channels: custom ones made by the Tooling API, one object on two of them, and settings that change later."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from sfcdc_assets.cli.verify import verify_entities
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.explain.explain import explain_record
from sfcdc_assets.lake.tables.consistent_cuts import latest_cut
from sfcdc_assets.lake.tables.lost_checkpoints import lose_checkpoint
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.org_reads.take_snapshot import ToCopy, take_snapshot
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.salesforce.errors import ApiLimitReached
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.status.status import status_of
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import session_of_tests
from sfcdc_assets_tests.pipeline.story import BULK, go_on, land_a_piece, ledger, make_channel, story, unhealed
from sfcdc_assets_tests.pipeline.version_checks import in_order
from sfcdc_assets_tests.run_contexts import run_on

pytestmark = pytest.mark.slow

SEED = 61
SALES = "/data/Sales__chn"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    """Sales__chn has Account, enriched, and Case, which no other channel has; ChangeEvents has Account and Contact."""
    print(f"seed {SEED}")
    with story(tmp_path_factory.mktemp("channels"), ["Account", "Contact"], records=8, seed=SEED) as pipeline:
        make_channel("Sales__chn", {"AccountChangeEvent": ["Name", "Site", "BillingAddress"], "CaseChangeEvent": []})
        with pytest.MonkeyPatch.context() as patch:
            channels(patch, SALES, CHANNEL)
            pipeline.sync()
        yield pipeline


@pytest.fixture
def org(shared: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    go_on(shared, monkeypatch)
    channels(monkeypatch, SALES, CHANNEL)
    return shared


def channels(patch: pytest.MonkeyPatch, *names: str) -> tuple[str, ...]:
    patch.setenv("SFCDC_CHANNELS", ",".join(names))
    return names


def update(pipeline: EmulatedPipeline, *record_ids: str, **values: object) -> None:
    with pipeline.org.transaction(user_id=pipeline.org.users.integration) as one:
        for record_id in record_ids:
            one.update("Account", record_id, values)


def lose(pipeline: EmulatedPipeline, record_id: str, **values: object) -> None:
    """A change of which no event tells."""
    pipeline.server.faults.arm(Fault.LOST_EVENT)
    update(pipeline, record_id, **values)


def assert_equal(pipeline: EmulatedPipeline) -> None:
    pipeline.assert_equal_to_the_org(["Account", "Contact", "Case"])
    assert unhealed(pipeline, "Account", "Contact", "Case") == []


def events_of(pipeline: EmulatedPipeline, entity: str, channel: str) -> list[dict[str, Any]]:
    """The entity's events on one channel, in order."""
    found = [e for e in pipeline.scan("raw_events") if (e["entity_name"], e["channel"]) == (entity, channel)]
    return sorted(found, key=lambda event: event["position"])


def standing() -> dict[str, Any]:
    """`sfcdc status --json`, by entity."""
    settings = load_settings()
    found = status_of(Warehouse(settings.warehouse), settings).to_json()
    return {each["entity"]: each for each in found["entities"]}


def values_in_history(pipeline: EmulatedPipeline, record_id: str, field: str) -> list[str]:
    """The values one after another, as the versions have them in position order."""
    versions = [row for row in pipeline.all_versions("Account") if row["Id"] == record_id]
    ordered = sorted(versions, key=in_order)
    assert [row["_valid_to"] for row in ordered[:-1]] == [row["_valid_from"] for row in ordered[1:]]
    assert ordered[-1]["_valid_to"] is None
    return [value for value, _ in groupby(row[field] for row in ordered)]


def test_several_channels_at_once_with_one_object_on_two(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = ids(org.org, "Account")[3:7]
    update(org, *several, Rating="Cold", BillingCity="Oslo")  # the next change is the same for all, so one event
    org.sync()
    landed, copies = (len(events_of(org, "Account", channel)) for channel in (SALES, CHANNEL))
    update(org, *several, Rating="Hot", BillingCity="Lyon")
    with org.org.transaction() as one:
        contact = one.create("Contact", {"LastName": "on one", "AccountId": several[0]})
        one.create("Case", {"Subject": "on the other", "ContactId": contact})
        one.update("Account", several[0], {"Description": "over both"})
    with org.org.transaction() as one:  # of its own: beside the update it would be read back, as it may be a merge
        one.delete("Account", several[1])
    org.sync()
    assert_equal(org)
    # Taken apart on the enriched channel, together on the other.
    assert len(events_of(org, "Account", SALES)) - landed == len(several) + 2
    assert len(events_of(org, "Account", CHANNEL)) - copies == 1 + 2
    assert all(values_in_history(org, one, "Rating")[-2:] == ["Cold", "Hot"] for one in several)
    texts = [row["value"] for row in org.scan("text_fields/Account") if row["value"] == "over both"]
    assert texts == ["over both"]
    assert ledger(org, "Account", "Contact", "Case") == []

    description = standing()
    assert {entity: each["channel"] for entity, each in description.items()} == {
        "Account": SALES,
        "Case": SALES,
        "Contact": CHANNEL,
    }
    assert all(each["up_to_date"] for each in description.values())
    newest = {channel: latest_cut(Warehouse(str(org.warehouse)), channel) for channel in (SALES, CHANNEL)}
    entities = {channel: {path.split("/")[1] for path in cut.tables} for channel, cut in newest.items() if cut}
    assert entities == {SALES: {"Account", "Case"}, CHANNEL: {"Contact"}}
    for channel, cut in newest.items():
        assert cut
        assert cut.position == RawEvents.open(Warehouse(str(org.warehouse))).checkpoint(channel).position
    reports = {report.entity: report for report in verify_entities([], print)}
    assert {entity: report.channel for entity, report in reports.items()} == {
        entity: each["channel"] for entity, each in description.items()
    }
    assert not any(report.differences for report in reports.values())


def test_what_befalls_a_channel_does_not_concern_an_object_that_another_one_feeds(org: EmulatedPipeline) -> None:
    """An event whose header cannot be read, and a lost checkpoint, on the channel that Account does not follow."""
    before = ledger(org, "Account", "Contact", "Case")
    org.server.faults.arm(Fault.GARBLED_HEADER)
    update(org, ids(org.org, "Account")[0], Fax="cannot be read on one channel")
    with org.org.transaction() as one:
        one.update("Contact", ids(org.org, "Contact")[0], {"Title": "after it"})
    warehouse = Warehouse(load_settings().warehouse)
    with connect(load_settings()) as connected, Poller(warehouse, connected, 1.0) as poller:
        assert poller.land(CHANNEL).quarantined == 1
        assert ledger(org, "Account", "Contact", "Case") == before
        raw_events = RawEvents.open(warehouse)
        lose_checkpoint(warehouse, raw_events, raw_events.checkpoint(CHANNEL), "a test", 1)
    opened = [entry for entry in ledger(org, "Account", "Contact", "Case") if entry not in before]
    assert [(entry["entity"], entry["reason"], entry["channel"]) for entry in opened] == [
        ("Contact", "lost_checkpoint", CHANNEL)
    ]


def test_an_object_on_two_channels_is_applied_once_and_follows_the_settings_when_they_change(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions of two channels have nothing to do with each other. Those of ChangeEvents are far ahead here."""
    drifted, other, third = ids(org.org, "Account")[:3]
    for number in range(5):
        with org.org.transaction() as one:
            one.update("Contact", ids(org.org, "Contact")[number], {"Title": "puts this channel ahead"})
    update(org, drifted, Site="first")
    lose(org, drifted, Site="nobody told of this")
    update(org, drifted, other, Industry="Energy")
    org.sync()
    assert org.rows("Account")[drifted]["Site"] == "nobody told of this"
    assert_equal(org)

    org.server.rest_faults.arm(RestFault.REQUEST_LIMIT, 100, path=BULK, method="GET")
    with connect(load_settings()) as connected:
        # One that has its watermark on the old channel and must not be gone on with.
        run = run_on(Warehouse(str(org.warehouse)), connected, session_of_tests)
        with pytest.raises(ApiLimitReached):
            take_snapshot(run, ToCopy("Account", SALES), lambda _: 10**6)
    org.server.rest_faults.disarm()
    channels(monkeypatch, CHANNEL, SALES)  # applies "first" again, if positions are mixed
    update(org, third, Site="after the first change of settings")
    org.sync()
    assert_equal(org)

    channels(monkeypatch, SALES)  # takes its positions for those of long ago, if they are mixed
    update(org, third, Site="after the second")
    update(org, other, Site="after the second too")
    org.sync()
    org.assert_equal_to_the_org(["Account", "Case"])
    assert unhealed(org, "Account") == []
    after = ["after the first change of settings", "after the second"]
    assert values_in_history(org, third, "Site")[-2:] == after
    assert values_in_history(org, drifted, "Site")[-2:] == ["first", "nobody told of this"]
    chain = explain_record(Warehouse(str(org.warehouse)), "Account", third, "Site").to_dicts()[-2:]
    assert [link["value"] for link in chain] == after


def test_single_object_channels_are_not_stuck_by_holes_in_their_sequences(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts, contacts = channels(monkeypatch, "/data/AccountChangeEvent", "/data/ContactChangeEvent")
    record_ids = ids(org.org, "Account")
    with org.org.transaction() as one:
        one.update("Account", record_ids[0], {"Site": "sequence 1"})
        one.create("Contact", {"LastName": "sequence 2"})
        one.update("Account", record_ids[1], {"Site": "sequence 3"})
        one.create("Contact", {"LastName": "sequence 4"})
    org.sync()
    assert [event["sequence_number"] for event in events_of(org, "Account", accounts)[-2:]] == [1, 3]
    assert [event["sequence_number"] for event in events_of(org, "Contact", contacts)[-2:]] == [2, 4]
    org.assert_equal_to_the_org(["Account", "Contact"])
    for channel, entity in ((accounts, "Account"), (contacts, "Contact")):
        checkpoint = RawEvents.open(Warehouse(str(org.warehouse))).checkpoint(channel)
        cut = latest_cut(Warehouse(str(org.warehouse)), channel)
        assert cut
        assert cut.position == checkpoint.position == checkpoint.complete_position
        assert {path.split("/")[1] for path in cut.tables} == {entity}


def test_a_watermark_that_must_be_higher_than_what_was_landed_is_landed_for(org: EmulatedPipeline) -> None:
    """Entities that change to one channel in one run ask for different positions of it."""
    warehouse = Warehouse(load_settings().warehouse)
    with connect(load_settings()) as connected, Poller(warehouse, connected, 1.0) as poller:
        watermarks = Watermarks(run_on(warehouse, connected, visibility_seconds=0.0), poller)
        first = watermarks.of("/data/CaseChangeEvent")
        RawEvents.open(warehouse).skip_to("/data/CaseChangeEvent", first + 100)
        assert watermarks.of("/data/CaseChangeEvent", first + 100) == first + 100


@pytest.mark.parametrize("piece", [1, 2, 4])
def test_a_poll_that_stops_inside_a_group_of_siblings_loses_and_doubles_none(org: EmulatedPipeline, piece: int) -> None:
    """On a custom channel: groups of two and three that share a replay id, cut in another place."""
    records = ids(org.org, "Account")[:3]
    update(org, *records, Fax="0")  # the next change is by the same user, so one event
    org.sync()
    before = events_of(org, "Account", SALES)
    open_group = [event for event in before if event["replay_id"] == before[-1]["replay_id"]]
    for number in range(2):
        update(org, *records[: 3 - number], Fax=f"{number} in pieces of {piece}")
    # The last group of before comes again: no silence has shown that it was whole.
    assert land_a_piece(org, len(open_group) + piece, SALES).count == piece
    org.sync()
    found = events_of(org, "Account", SALES)[len(before) :]
    assert [event["record_ids"] for event in found] == [[one] for one in (*records, *records[:2])]
    assert len({event["replay_id"] for event in found}) == 2
    assert_equal(org)
