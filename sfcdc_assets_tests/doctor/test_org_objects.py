"""`sfcdc doctor --objects`: every object of an org, how it is fed or could be, and at which cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.doctor.org_objects import topics_of
from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.polls.cost import requests_a_day, requests_of_parents, requests_to_compare
from sfcdc_assets.salesforce.bulk_query import CALLS_PER_JOB
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets_tests.cli.command import in_one_line, sfcdc
from sfcdc_assets_tests.environment import without_settings
from sfcdc_assets_tests.simulated_clock import SimulatedClock

FED, POLLED_BY_NAME = "Account", "Case"
RECORDS = {
    "Account": 5,
    "Case": 12,
    "Opportunity": 30,
    "Invoice_Statement__c": 4,
    "Contact": 6,
    "Lead": 6,
    "Campaign": 6,
    "TabDefinition": 4,
    "AsyncApexJob": 2,
    "ApexTestQueueItem": 2,
    "ContentDocument": 2,
    "ContentDocumentLink": 3,
    "Product2": 2,
}
CHANGED = {"Case": 8, "Lead": 6, "Contact": 5, "Campaign": 4, "Opportunity": 2, "Account": 1}
BESIDE = {"Invoice_Statement__c": {"Description__c": "changed"}, "Product2": {"Description": "changed"}}
"""One record of each has changed, too."""
DAY = 86_400


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmulatedOrg, EmulatorServer]]:
    """A whole org, the first records of which are older than a day; cases have changed since."""
    folder = tmp_path_factory.mktemp("objects")
    org = EmulatedOrg(folder / "org", seed=3, clock=SimulatedClock(None, runs=True), objects=whole_org())
    org.selected_entities = [FED]
    org.populate(RECORDS)
    org.clock.sleep(2 * DAY)
    for entity, count in CHANGED.items():
        with org.transaction() as work:
            for record in list(org.records(entity))[:count]:
                work.update(entity, str(record["Id"]), {"Description": "changed"})
    with org.transaction() as work:
        for entity, values in BESIDE.items():
            work.update(entity, str(next(iter(org.records(entity)))["Id"]), values)
    with EmulatorServer(org, directory=folder / "org") as server:
        yield org, server
    org.close()


@pytest.fixture
def org(served: tuple[EmulatedOrg, EmulatorServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmulatedOrg:
    """The org, which the settings name."""
    without_settings(monkeypatch)
    org, server = served
    for name, value in server.client_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SFCDC_POLL", POLLED_BY_NAME)
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "warehouse"))
    monkeypatch.chdir(tmp_path)
    return org


def test_each_object_says_what_feeds_it_and_why_it_cannot_be_polled(org: EmulatedOrg, tmp_path: Path) -> None:
    done = sfcdc("doctor", "--objects", "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    found = {each["entity"]: each for each in said["objects"]}
    listed = {name for name in org.definitions if name not in org.hidden_objects}
    assert listed - found.keys() == set(), "every object of the org"
    assert (found[FED]["fed_by"], found[POLLED_BY_NAME]["fed_by"]) == ("/data/ChangeEvents", POLLED)
    assert [found[each]["rows"] for each in RECORDS] == list(RECORDS.values())
    assert {each: found[each]["changes"] for each in CHANGED} == CHANGED
    assert found["Opportunity"]["fed_by"] is None
    refused = {entity: each["why_not"] for entity, each in found.items() if each["why_not"]}
    assert refused["EntityDefinition"] == "its records have no Ids of their own"
    assert all(each["requests"] is None for each in found.values() if each["why_not"])
    assert set(said["change_events"]) <= {entity for entity, each in found.items() if each["changes"]}
    assert said["change_events"] == ["Case", "Lead", "Contact", "Campaign", "Opportunity"]
    assert said["requests"] <= 30 + len(found) / 5 * 2, "five objects in a request, and a few requests more"
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_what_has_no_stamp_or_is_read_through_its_parents_can_be_polled_by_comparing_it(org: EmulatedOrg) -> None:
    found = {each["entity"]: each for each in json.loads(sfcdc("doctor", "--objects", "--json").stdout)["objects"]}
    for entity, requests in {"TabDefinition": 2, "ContentDocumentLink": 3}.items():
        each = found[entity]
        said = (each["why_not"], each["is_compared"], each["changes"], each["requests"])
        assert said == (None, True, None, requests), entity
    assert not found["Case"]["is_compared"]
    lines = [line for line in sfcdc("doctor", "--objects").stdout.splitlines() if "TabDefinition" in line]
    assert "compared as a whole" in lines[0]


def test_what_changes_beside_its_stamp_is_priced_with_its_daily_comparison(org: EmulatedOrg) -> None:
    found = {each["entity"]: each for each in json.loads(sfcdc("doctor", "--objects", "--json").stdout)["objects"]}
    for entity in ("Contract", "AsyncApexJob", "ApexTestQueueItem"):
        asked = requests_a_day(found[entity]["changes"], 900)
        assert found[entity]["requests"] == pytest.approx(asked + 2), entity
    for entity in ("AccountHistory", "LoginHistory", "Product2"):
        asked = requests_a_day(found[entity]["changes"], 900)
        assert found[entity]["requests"] == pytest.approx(asked), entity


def test_what_is_read_through_its_parents_costs_by_their_number() -> None:
    assert [requests_of_parents(parents, 24) for parents in (0, 750, 751, 1_000_000)] == [3, 3, 5, 2 * 1_334 + 1]
    assert requests_of_parents(750, 6) == 12


def test_a_person_reads_what_deserves_change_events_and_what_it_costs(org: EmulatedOrg) -> None:
    shown = sfcdc("doctor", "--objects").stdout
    assert "these change most: Case" in shown
    assert "Account" in shown
    assert "Polling what SFCDC_POLL takes today, every 900 s: about" in shown
    assert "API requests." in shown.splitlines()[-1]
    assert org.selected_entities == [FED]


def test_those_that_a_push_topic_could_make_live_are_marked_and_no_others(org: EmulatedOrg) -> None:
    """Of those that changed: neither what deserves change events, nor what a channel feeds, nor what no topic may query
    (Product2)."""
    said = json.loads(sfcdc("doctor", "--objects", "--json").stdout)
    assert [each["entity"] for each in said["objects"] if each["live_topic"]] == ["Invoice_Statement__c"]
    assert said["push_topics"] == 40, "of a Developer Edition"
    shown = in_one_line(sfcdc("doctor", "--objects"))
    assert "1 object more could be live by PushTopics; the org may have 40 of them." in shown


@pytest.mark.parametrize(
    ("edition", "topics"),
    [("Enterprise Edition", 50), ("Unlimited Edition", 100), ("Performance Edition", 100), ("Team Edition", 40)],
)
def test_how_many_topics_an_org_may_have_follows_from_its_edition(edition: str, topics: int) -> None:
    assert topics_of(edition) == topics


def test_an_object_costs_what_its_own_file_says_of_how_often_it_is_asked(
    org: EmulatedOrg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "polled_objects"
    files.mkdir()
    monkeypatch.setenv("SFCDC_POLL_OBJECTS", str(files))

    def costs() -> tuple[float, ...]:
        found = {each["entity"]: each for each in json.loads(sfcdc("doctor", "--objects", "--json").stdout)["objects"]}
        return tuple(found[each]["requests"] for each in ("Case", "Lead", "TabDefinition"))

    case, lead, tab = costs()
    (files / "Case.toml").write_text("seconds = 90")
    (files / "TabDefinition.toml").write_text("compare_hours = 6")
    assert costs() == (pytest.approx(requests_a_day(8, 90)), lead, 4 * tab)
    assert requests_a_day(8, 90) > 2 * case


def test_an_object_costs_more_the_more_it_changes_and_less_while_it_is_quiet() -> None:
    busy, usual, quiet = (requests_a_day(each, 900) for each in (10_000, 96, 0))
    assert busy == pytest.approx(96 / 5 + 5 + 0.2)
    assert usual == pytest.approx(96 / 5 + 0.05 + 0.2, abs=0.01)
    assert quiet == pytest.approx(24 / 5 + 0.2)


def test_comparing_an_object_takes_two_requests_while_it_is_small_and_a_bulk_job_when_it_is_large() -> None:
    assert [requests_to_compare(rows, 24) for rows in (0, 2_000)] == [2, 2]
    assert requests_to_compare(1_000_000, 12) == 2 * (CALLS_PER_JOB + 40)
