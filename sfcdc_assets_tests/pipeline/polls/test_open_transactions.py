"""Transactions that stay open: their changes have stamps that polls have long passed when they become visible."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.lake.store.notes import remove_note
from sfcdc_assets.lake.store.poll_notes import PATH, read_poll_notes
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.covered_time import CoveredTime
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.landing.polled_reader import PolledReader
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.polls.cursor import REREAD
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.polls.polled_org import reading, rename, settings_of_polls
from sfcdc_assets_tests.pipeline.story import go_on, story

SEED = 71
LONG = 3 * REREAD.total_seconds()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    """Three objects that were copied while a transaction was open."""
    print(f"seed {SEED}")
    with story(tmp_path_factory.mktemp("polls"), ["Account"], records=6, seed=SEED) as pipeline:
        held = pipeline.org.long_transactions.begin()
        held.update("Lead", ids(pipeline.org, "Lead")[0], {"Description": "open while leads were copied"})
        pipeline.org.clock.sleep(LONG)
        with pytest.MonkeyPatch.context() as patch:
            settings_of_polls(patch)
            with connect(load_settings()) as connected:  # the sensor's first look
                PolledReader(Warehouse(str(pipeline.warehouse)), connected).land(TICK)
            pipeline.sync()
        held.commit()
        yield pipeline


@pytest.fixture
def org(shared: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    go_on(shared, monkeypatch)
    settings_of_polls(monkeypatch)
    shared.org.clock.sleep(1000)
    return shared


def test_what_was_open_while_an_object_was_copied_is_read_by_its_next_poll(org: EmulatedPipeline) -> None:
    org.sync()
    org.assert_equal_to_the_org(["Lead"])


def test_what_was_open_over_several_polls_is_read_when_it_has_ended(org: EmulatedPipeline) -> None:
    first, second, *_ = ids(org.org, "Case")
    held = org.org.long_transactions.begin()
    held.update("Case", first, {"Description": "an hour old when it is seen"})
    with reading(org) as (reader, connected, warehouse):
        for number in range(3):
            org.org.clock.sleep(LONG)
            with org.org.transaction() as work:
                work.update("Case", second, {"Description": f"seen by poll {number}"})
            assert reader.land(TICK).events["Case"] == 1
        held.commit()
        org.org.clock.sleep(1000)
        assert reader.land(TICK).events["Case"] >= 1
        org.org.clock.sleep(1000)
        before = connected.session.calls
        assert reader.land(TICK).events["Case"] == 0, "and not once more"
        assert connected.session.calls - before <= 4
        assert read_poll_notes(warehouse)["Case"].error is None
    org.sync()
    org.assert_equal_to_the_org(["Case"])


def test_while_it_is_open_no_poll_reads_more_than_usual(org: EmulatedPipeline) -> None:
    org.sync()
    org.org.clock.sleep(1000)
    with reading(org) as (reader, _, _):
        reader.land(TICK)
        held = org.org.long_transactions.begin()
        held.update("Opportunity", ids(org.org, "Opportunity")[0], {"NextStep": "open"})
        org.org.clock.sleep(LONG)
        rename(org, "Case", 5, "read once")
        org.org.clock.sleep(60)
        assert reader.land(TICK).events["Case"] == 5
        org.org.clock.sleep(LONG)
        assert reader.land(TICK).events["Case"] == 0
        held.commit()
    org.sync()
    org.assert_equal_to_the_org(["Case", "Opportunity"])


def test_an_org_that_does_not_say_what_is_open_is_polled_all_the_same(org: EmulatedPipeline) -> None:
    org.sync()
    org.org.clock.sleep(1000)
    with reading(org) as (reader, _, warehouse):
        reader._entities.copied()  # so that the next request is the one that is refused
        org.server.rest_faults.arm(RestFault.REFUSED, 3, path="/sobjects/", code="EXCEEDED_ID_LIMIT")
        rename(org, "Case", 2, "polled")
        assert reader.land(TICK).events["Case"] == 2
        assert read_poll_notes(warehouse)["Case"].error is None


def test_an_object_that_was_refused_once_is_asked_again_which_transactions_are_open(org: EmulatedPipeline) -> None:
    with reading(org) as (_, connected, _):
        covered = CoveredTime(connected)
        assert covered.ask(["Case"]) > 0
        org.server.rest_faults.arm(RestFault.REFUSED, 2, path="/sobjects/", code="EXCEEDED_ID_LIMIT")
        assert covered.ask(["Case"]) == 0
        assert covered.ask(["Case"]) > 0
        org.server.rest_faults.arm(RestFault.REFUSED, 9, path="/sobjects/Case/updated", code="EXCEEDED_ID_LIMIT")
        assert covered.ask(["Case", "Lead"]) > 0
        before = connected.session.calls
        assert covered.ask(["Case", "Lead"]) > 0
        assert connected.session.calls == before + 1, "another object is asked first"


def test_where_no_object_that_is_due_says_which_transactions_are_open_users_do(org: EmulatedPipeline) -> None:
    shares = ["AccountShare", "CaseShare", "LeadShare", "OpportunityShare"]
    with reading(org) as (_, connected, _):
        covered = CoveredTime(connected)
        assert covered.ask(shares) > 0
        before = connected.session.calls
        assert covered.ask(list(reversed(shares))) > 0
        assert connected.session.calls == before + 1, "the one that answered is asked first"


def test_what_was_open_while_the_notes_of_polls_were_lost_is_read(org: EmulatedPipeline) -> None:
    org.sync()
    org.org.clock.sleep(1000)
    first, *_ = ids(org.org, "Lead")
    held = org.org.long_transactions.begin()
    held.update("Lead", first, {"Description": "open while a poll was made whose note is lost"})
    org.org.clock.sleep(LONG)
    with reading(org) as (reader, _, warehouse):
        with org.org.transaction() as work:
            work.update("Lead", ids(org.org, "Lead")[-1], {"Description": "seen by that poll"})
        org.org.clock.sleep(60)
        assert reader.land(TICK).events["Lead"]
        remove_note(warehouse, PATH)
    held.commit()
    org.org.clock.sleep(60)
    org.sync()
    org.assert_equal_to_the_org(["Lead"])
