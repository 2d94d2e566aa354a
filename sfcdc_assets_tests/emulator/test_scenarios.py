"""Scenarios: every file is played, and its events are those that the vendor's guide shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sfcdc_assets.emulator.cometd.channels import StreamingTopics
from sfcdc_assets.emulator.cometd.event_json import message
from sfcdc_assets.emulator.errors import ScenarioFileError, ScenarioRefusedError, UnknownScenarioError
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.event_feed import EventFeed
from sfcdc_assets.emulator.events.event_store import EVERYWHERE, OWN_TOPIC
from sfcdc_assets.emulator.events.feed_sources import FeedEvent
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.ids import EMPTY_ID, to_18
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.scenarios.played_steps import WatchedStep, watched
from sfcdc_assets.emulator.scenarios.player import ScenarioStage
from sfcdc_assets.emulator.scenarios.scenario import load_scenario, scenario_of, scenarios
from sfcdc_assets.emulator.scenarios.verbs import ORG_VERBS, RECORD_VERBS, SETUP_VERBS
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.emulator.guide_samples import OTHERS, OtherMessage, Sample, samples

KINDS = {
    "archived-activities": "CREATE GAP_UPDATE",
    "cascade-delete": "CREATE CREATE CREATE CREATE DELETE DELETE DELETE DELETE GAP_OVERFLOW"
    " UNDELETE UNDELETE UNDELETE UNDELETE",
    "create": "CREATE",
    "delete-undelete": "CREATE DELETE UNDELETE",
    "duplicate": "CREATE UPDATE UPDATE",
    "encrypted-field": "CREATE UPDATE UPDATE",
    "enrichment": "CREATE UPDATE UPDATE DELETE",
    "event-invitee": "CREATE CREATE CREATE CREATE UPDATE UPDATE",
    "gap": "CREATE GAP_UPDATE",
    "geocode": "CREATE UPDATE",
    "hard-delete": "CREATE DELETE",
    "large-text": "CREATE UPDATE",
    "lead-conversion": "CREATE CREATE CREATE CREATE UPDATE",
    "lost-event": "CREATE",
    "mass-update": "CREATE UPDATE",
    "merge": "CREATE CREATE DELETE UPDATE UPDATE",
    "overflow": "CREATE UPDATE GAP_OVERFLOW",
    "person-account": "CREATE CREATE UPDATE UPDATE UPDATE UPDATE DELETE DELETE UNDELETE UNDELETE CREATE CREATE UPDATE",
    "picklist-rename": "CREATE CREATE UPDATE UPDATE",
    "several-objects": "CREATE CREATE CREATE",
    "type-conversion": "CREATE UPDATE",
    "type-conversion-gap": "CREATE CREATE GAP_UPDATE GAP_UPDATE",
    "update": "CREATE UPDATE",
    "user": "CREATE UPDATE UPDATE",
}
"""Change types of the events on the channel of all, where they are always the same."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_ID = re.compile(r"[0-9a-zA-Z]{3}[0-9a-zA-Z]{15}")
_DIFF = re.compile(r"--- \n\+\+\+ [0-9a-f]{64}(\n@@ -\d+,\d+ \+\d+,\d+ @@(\n[-+ ].*)+)+")
_ORIGIN = re.compile(r"com/salesforce/api/\w+/\d+\.0;client=(\S*)")
_KEY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Theatre:
    """An org in which every scenario has been played, in the order of their names."""

    def __init__(self) -> None:
        self.org = EmulatedOrg(clock=ManualClock(), seed=3)
        self.org.populate(12)
        self.bus = EventBus(self.org)
        self.feed = EventFeed(self.org, self.bus, StreamingTopics(self.org, self.bus))
        self.stage = ScenarioStage(self.org, self.bus.faults, 3)
        self.played = {name: self.play(name) for name in scenarios()}

    def play(self, name: str) -> list[WatchedStep]:
        scenario = scenario_of(name)
        steps = list(watched(self.stage.steps(scenario), self.feed, scenario))
        # What is captured from now on is said before the first step.
        return steps[1:] if steps[0].played.said.startswith("change data capture is on") else steps

    def event(self, sample: Sample) -> FeedEvent:
        step, place = sample.event
        events = [
            event for channel, event in self.played[sample.scenario][step - 1].events if channel == sample.channel
        ]
        return events[place - 1]

    def message(self, event: FeedEvent, channel: str) -> Mapping[str, Any]:
        """As CometD delivers it."""
        channels = (EVERYWHERE, OWN_TOPIC) if channel == "ChangeEvents" else (channel,)
        batch = self.bus.read(
            self.org.definitions, after=event.number - 1, max_events=1, max_bytes=1, channels=channels
        )
        schema = self.bus.schema_json(event.schema_id)
        assert schema is not None
        return message(batch.events[0], schema, f"/data/{channel}", has_uuid=False, dice=Random(1))


@pytest.fixture(scope="module")
def theatre() -> Iterator[Theatre]:
    theatre = Theatre()
    yield theatre
    theatre.org.close()


@pytest.mark.parametrize("name", scenarios())
def test_a_scenario_raises_the_events_that_it_promises(theatre: Theatre, name: str) -> None:
    played = theatre.played[name]
    assert len(played) == len(scenario_of(name).steps)
    kinds = [event.header["changeType"] for step in played for channel, event in step.events if channel[:3] == "Cha"]
    assert name not in KINDS or " ".join(kinds) == KINDS[name]
    assert kinds
    assert not [fault for fault in Fault if theatre.bus.faults.armed(fault)]


def test_a_recurring_event_is_an_event_an_occurrence_and_its_new_day_makes_another_series(theatre: Theatre) -> None:
    planned, _, invited, _, renamed, _, moved = (
        [(event.entity, event.header["changeType"], len(event.header["recordIds"])) for _, event in step.events]
        for step in theatre.played["recurring-event"][1:]
    )
    assert planned == [("Event", "CREATE", 1)] * 5
    assert {(entity, kind) for entity, kind, _ in invited} == {
        ("Event", "UPDATE"), ("Event", "CREATE"), ("EventRelation", "CREATE"),
    }  # fmt: skip
    assert renamed == [("Event", "UPDATE", 9)]
    assert moved[:2] == [("Event", "DELETE", 9), ("EventRelation", "DELETE", 5)]
    assert {kind for _, kind, _ in moved[2:]} == {"CREATE"}


def test_a_merged_event_of_a_renamed_value_names_at_most_200_records(theatre: Theatre) -> None:
    (step,) = theatre.played["picklist-rename"][3:]
    assert [(len(each.header["recordIds"]), each.fields) for _, each in step.events] == [
        (200, {"Segment__c": "Small business"}),
        (50, {"Segment__c": "Small business"}),
    ]


def test_events_of_records_that_changed_alike_share_a_replay_id_on_a_channel_with_enriched_fields(
    theatre: Theatre,
) -> None:
    step = theatre.played["enrichment"][5]
    one, other = (event for channel, event in step.events if channel == "SalesEvents__chn")
    assert one.replay_id == other.replay_id
    assert one.header["changedFields"] == ["Rating", "LastModifiedDate"]
    assert one.fields.keys() == {"Rating", "LastModifiedDate", "Industry", "External_Account_ID__c"}


def test_encryption_raises_no_event_and_hides_nothing(theatre: Theatre) -> None:
    _, _, encrypted, _, changed, _, emptied = theatre.played["encrypted-field"]
    assert encrypted.events == ()
    (event,) = (event for _, event in changed.events)
    assert event.fields["Bank_Account__c"] == "DE02 5001 0517 0137 0750 30"
    (event,) = (event for _, event in emptied.events)
    assert event.fields["Bank_Account__c"] is None


@pytest.mark.parametrize("sample", samples(), ids=str)
def test_an_event_is_as_the_guide_shows_it(theatre: Theatre, sample: Sample) -> None:
    event = theatre.event(sample)
    whole = theatre.message(event, sample.channel)
    assert whole.keys() == {"data", "channel"}
    assert whole["data"].keys() == {"schema", "payload", "event"}
    assert whole["data"]["event"].keys() == {"replayId"}
    found = whole["data"]["payload"]
    expected = {sample.names.get(name, name): value for name, value in sample.payload.items()}
    explained = {sample.names.get(name, name) for name in sample.differs}
    header, shown = expected.pop("ChangeEventHeader"), found.pop("ChangeEventHeader")
    if not sample.is_part:
        assert found.keys() == expected.keys() | sample.more.keys()
        assert not sample.more.keys() & expected.keys(), "what the guide has needs no reason"
        assert shown.keys() == header.keys()
        assert sorted(shown["changedFields"]) == sorted(header["changedFields"])
    for name, value in expected.items():
        assert type(found[name]) is type(value) or {type(found[name]), type(value)} == {int, float}, name
        assert name in explained or same(found[name], value), (name, found[name], value)
    for name in header:
        is_same = same_header(name, shown[name], header[name])
        assert is_same != (name in explained) or name == "recordIds", (name, shown[name], header[name])


def same(found: Any, shown: Any) -> bool:
    """Whether a value is the guide's, or of its form if it is the org's own."""
    if isinstance(shown, dict):
        return found.keys() == shown.keys() and all(same(found[name], value) for name, value in shown.items())
    if not isinstance(shown, str):
        return bool(found == shown)
    if shown.startswith("<"):
        return is_id(found, "005")
    if shown.startswith("--- \n"):
        return _DIFF.fullmatch(found) is not None
    for form in (_MOMENT, _DATE):
        if form.fullmatch(shown):
            return form.fullmatch(found) is not None
    if _ID.fullmatch(shown) and not shown.isalpha():
        return is_id(found, shown[:3])
    return bool(found == shown)


def same_header(name: str, found: Any, shown: Any) -> bool:
    if name in ("commitNumber", "commitTimestamp"):
        return isinstance(found, int)
    if name == "commitUser":
        return is_id(found, "005")
    if name == "transactionKey":
        return bool(_KEY.fullmatch(found)) if "-" in shown else len(found) == len(shown) and found[:3] == shown[:3]
    if name == "changeOrigin":
        pair = (_ORIGIN.fullmatch(found), _ORIGIN.fullmatch(shown))
        return pair[0][1] == pair[1][1] if pair[0] and pair[1] else bool(found == shown)
    if name == "changedFields":
        return sorted(found) == sorted(shown)
    if name == "recordIds":
        return len(found) == len(shown) and all(
            one == other or is_id(one, other[:3]) or (one == EMPTY_ID and re.fullmatch("0{14,15}AAA", other))
            for one, other in zip(found, shown, strict=True)
        )
    return bool(found == shown)


def is_id(found: str, prefix: str) -> bool:
    prefix = "001" if prefix == "<re" else prefix
    return _ID.fullmatch(found) is not None and to_18(found[:15]) == found and found[:3] == prefix


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: other.section)
def test_a_message_that_no_scenario_produces_names_the_test_that_compares_it(other: OtherMessage) -> None:
    if other.covered_by is None:
        assert "this org has not" in other.why
        return
    path, _, name = other.covered_by.partition("::")
    names = {node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)}
    assert name in names


def test_every_verb_is_in_some_scenario() -> None:
    used = {next(iter(part)) for each in scenarios().values() for step in each.steps for part in step.parts}
    assert used == {*RECORD_VERBS, *SETUP_VERBS, *ORG_VERBS}


@pytest.mark.parametrize("name", scenarios())
def test_a_scenario_can_be_played_again(theatre: Theatre, name: str) -> None:
    """A field whose type a playing has changed gets its first type back, which is a change of its own."""
    before, again = (
        [len(step.events) for step in played if not step.played.said.startswith("field ")]
        for played in (theatre.played[name], theatre.play(name))
    )
    assert name == "busy-minute" or again == before


def write(folder: Path, steps: str, more: str = "") -> Path:
    path = folder / "x.yaml"
    path.write_text(f"title: X\nhappens: x\nreceived: x\ncaptures: [Account]\nsteps:\n  - {steps}\n{more}")
    return path


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ("{make: Account}", "step 1: 'make' is no verb; there are create,"),
        ("{create: Account}", "create has the options as, values, times, not"),
        ("{delete: x, values: {}}", "delete has the options none, not values"),
        ("{delete: x, faults: {nothing: {}}}", "faults are stream_reset,"),
        ("{delete: x, faults: {overflow: {size: 3}}}", "overflow has the options threshold"),
        ("{enable: flying}", "enable is one of person accounts, user preferences"),
        ("{traffic: jam}", "traffic is one of"),
        ("{create: Account, as: x, values: {Name: {mine: 1}}}", "is no value of Name"),
        ("{together: [{traffic: create}]}", "'traffic' is no verb"),
        ("just a text", "step 1: it is not of the form"),
        ("[", "it cannot be read"),
    ],
)
def test_a_file_that_says_nonsense_is_one_sentence(tmp_path: Path, steps: str, problem: str) -> None:
    with pytest.raises(ScenarioFileError, match=re.escape(problem)) as caught:
        load_scenario(write(tmp_path, steps))
    assert str(caught.value).startswith("x.yaml")


def test_a_file_needs_all_its_keys(tmp_path: Path) -> None:
    with pytest.raises(ScenarioFileError, match="it needs title, happens, received, captures, steps"):
        load_scenario(write(tmp_path, "{later: 1}", "needs: []\n"))


def test_an_unknown_scenario_is_one_sentence() -> None:
    with pytest.raises(UnknownScenarioError, match=r"There is no scenario overflows. Do you mean overflow\?"):
        scenario_of("overflows")


def test_a_step_that_the_org_refuses_stops_the_scenario_and_leaves_no_fault(tmp_path: Path) -> None:
    org = EmulatedOrg(clock=ManualClock(), seed=1)
    bus = EventBus(org)
    bus.faults.arm(Fault.INTERNAL_ERROR, 2)
    scenario = load_scenario(write(tmp_path, "{delete: nobody, faults: {internal_error: {}, duplicate: {}}}"))
    with pytest.raises(ScenarioRefusedError, match=r"stops at the step `delete nobody`: .*no step before it has named"):
        list(ScenarioStage(org, bus.faults).steps(scenario))
    assert bus.faults.armed(Fault.DUPLICATE) == 0
    assert bus.faults.armed(Fault.INTERNAL_ERROR) == 2, "somebody else's"
    org.close()


def test_a_pause_is_waited_for_where_the_clock_cannot_be_moved(tmp_path: Path) -> None:
    org = EmulatedOrg(seed=1)
    waited: list[float] = []
    scenario = load_scenario(write(tmp_path, "{later: 2}"))
    assert [each.said for each in ScenarioStage(org, EventBus(org).faults, pause=waited.append).steps(scenario)] == [
        "2 s later"
    ]
    assert waited == [2.0]
    org.close()
