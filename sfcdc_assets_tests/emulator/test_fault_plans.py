"""Faults as a product: from a file and by a seed, counted, and described with what a robust client does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from itertools import islice
from pathlib import Path

import pytest
import requests

from sfcdc_assets.emulator.control.fault_control import OPTIONS
from sfcdc_assets.emulator.faults.fault_plan import (
    FaultFileError,
    FaultPlan,
    PlannedFault,
    PlannedFaults,
    load_fault_plan,
)
from sfcdc_assets.emulator.faults.faults import DESCRIPTIONS, Fault, Faults
from sfcdc_assets.emulator.faults.rest_faults import DESCRIPTIONS as REST_DESCRIPTIONS
from sfcdc_assets.emulator.faults.rest_faults import RestFault, RestFaults
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.emulator.held_body import held_body
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client
from sfcdc_assets_tests.eventually import eventually

PAGE = ROOT / "docs" / "faults.md"
SOQL = {"q": "SELECT Id, Name FROM Account"}
EVERYTHING = """
seed: 7
faults:
  - {fault: duplicate, times: 5, after: 2}
  - {fault: stream_reset, every: 60}
  - {fault: "rest:unavailable", every: 20.5, path: /query, retry_after: 2}
"""


def test_the_file_of_the_docs_is_one(tmp_path: Path) -> None:
    block = PAGE.read_text().split("```yml\n")[1].split("```")[0]
    (tmp_path / "faults.yml").write_text(block)
    plan = load_fault_plan(tmp_path / "faults.yml")
    named = [Fault.DUPLICATE, Fault.STREAM_RESET, Fault.PERMISSION_WITHDRAWN, RestFault.UNAVAILABLE]
    assert [each.fault for each in plan.faults] == named


def test_each_fault_of_a_file_may_have_the_options_that_its_description_names() -> None:
    described = {**DESCRIPTIONS, **REST_DESCRIPTIONS}
    for fault, names in OPTIONS.items():
        assert set(re.findall("`([a-z]+)`", described[fault])) | {"seconds"} == {*names, "seconds"}, fault


def test_a_file_says_which_faults_how_often_and_when(tmp_path: Path) -> None:
    (tmp_path / "f.yml").write_text(EVERYTHING)
    plan = load_fault_plan(tmp_path / "f.yml")
    assert plan == FaultPlan(
        7,
        (
            PlannedFault(Fault.DUPLICATE, None, {"times": 5, "after": 2}),
            PlannedFault(Fault.STREAM_RESET, 60, {}),
            PlannedFault(RestFault.UNAVAILABLE, 20.5, {"path": "/query", "retry_after": 2}),
        ),
    )
    faults, rest_faults = Faults(), RestFaults()
    for each in plan.faults:
        each.arm(faults, rest_faults)
    assert (faults.armed(Fault.DUPLICATE), faults.option(Fault.DUPLICATE, "after", 0)) == (5, 2)
    (armed,) = rest_faults.armed()
    assert (armed.fault, armed.path, armed.retry_after) == (RestFault.UNAVAILABLE, "/query", 2)


def test_every_fault_can_be_armed_from_a_file(tmp_path: Path) -> None:
    names = [*Fault, *(f"rest:{fault}" for fault in RestFault)]
    (tmp_path / "f.yml").write_text("faults:\n" + "".join(f"  - {{fault: '{name}', every: 9}}\n" for name in names))
    plan = load_fault_plan(tmp_path / "f.yml")
    assert [each.fault for each in plan.faults] == [*Fault, *RestFault]


def test_times_follow_from_the_seed_and_keep_their_mean(tmp_path: Path) -> None:
    (tmp_path / "f.yml").write_text(EVERYTHING)
    plan = load_fault_plan(tmp_path / "f.yml")
    first = list(islice(plan.occasions(), 500))
    assert first == list(islice(plan.occasions(), 500))
    assert first != list(islice(FaultPlan(8, plan.faults).occasions(), 500))
    assert first[0] == (0.0, plan.faults[0])
    seconds = [when for when, _ in first]
    assert seconds == sorted(seconds)
    resets = [when for when, planned in first if planned.fault is Fault.STREAM_RESET]
    assert 40 < resets[-1] / len(resets) < 85


def test_without_every_a_plan_has_an_end() -> None:
    plan = FaultPlan(0, (PlannedFault(Fault.OVERFLOW, None, {}), PlannedFault(Fault.DUPLICATE, None, {})))
    assert [planned.fault for _, planned in plan.occasions()] == [Fault.OVERFLOW, Fault.DUPLICATE]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("faults: [", "it is not YAML"),
        ("- x", "it needs a list of `faults`"),
        ("faults: []\nmore: 1", "more is not known"),
        ("faults: []\nseed: x", "seed: it must be a whole number"),
        ("faults: [{times: 1}]", "entry 1: it needs a `fault`"),
        ("faults: [{fault: nothing}]", "entry 1: faults are stream_reset"),
        ("faults: [{fault: 'rest:nothing'}]", "entry 1: faults of REST are unauthorized"),
        ("faults: [{fault: overflow}, {fault: overflow, after: 1}]", "entry 2: overflow has no option after"),
        ("faults: [{fault: overflow, threshold: x}]", "entry 1: threshold must be a whole number"),
        ("faults: [{fault: overflow, times: 0}]", "entry 1: times must be"),
        ("faults: [{fault: call_refused, code: x}]", "entry 1: code must be one of service.unavailable"),
        ("faults: [{fault: cometd_refused, error: x}]", "entry 1: error must be a code and a text"),
        ("faults: [{fault: 'rest:refused', code: x}]", "entry 1: code must be one of API_DISABLED_FOR_ORG"),
        ("faults: [{fault: 'rest:slow', code: QUERY_TIMEOUT}]", "entry 1: slow has no option code"),
        ("faults: [{fault: overflow, every: 0}]", "entry 1: every must be a number of seconds"),
        ("faults: [{fault: overflow, every: true}]", "entry 1: every must be a number of seconds"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "f.yml").write_text(text)
    with pytest.raises(FaultFileError) as refused:
        load_fault_plan(tmp_path / "f.yml")
    assert str(tmp_path / "f.yml") in str(refused.value)
    assert said in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FaultFileError, match="it cannot be read"):
        load_fault_plan(tmp_path / "f.yml")


def test_planned_faults_are_armed_while_the_org_is_served() -> None:
    faults, rest_faults = Faults(), RestFaults()
    plan = FaultPlan(
        0,
        (
            PlannedFault(Fault.DUPLICATE, None, {"times": 2}),
            PlannedFault(RestFault.SLOW, 0.002, {}),
            PlannedFault(Fault.OVERFLOW, 3600.0, {}),
        ),
    )
    with PlannedFaults(plan, faults, rest_faults):
        eventually(lambda: len(rest_faults.armed()) >= 3, "the planned faults to be armed")
    assert faults.armed(Fault.DUPLICATE) == 2
    assert faults.armed(Fault.OVERFLOW) == 0
    assert len(rest_faults.armed()) >= 3


@pytest.fixture
def faults() -> RestFaults:
    return RestFaults()


@pytest.fixture
def client(faults: RestFaults) -> Iterator[RestClient]:
    org = EmulatedOrg()
    org.populate({"Account": 300})
    with rest_client(org, faults=faults) as client:
        yield client
    org.close()


def test_a_body_is_cut_in_its_middle_and_can_be_asked_for_again(faults: RestFaults, client: RestClient) -> None:
    whole = client.query(SOQL["q"], headers={"Accept-Encoding": "identity"})
    faults.arm(RestFault.BODY_CUT, path="/query")
    with pytest.raises(requests.RequestException):
        client.query(SOQL["q"])
    with client.query(SOQL["q"], stream=True, headers={"Accept-Encoding": "identity"}) as again:
        assert again.json() == whole.json()
    assert faults.struck(RestFault.BODY_CUT) == 1


def test_a_slow_answer_is_whole(faults: RestFaults, client: RestClient) -> None:
    whole = client.query(SOQL["q"]).json()
    faults.arm(RestFault.SLOW, seconds=30)
    with held_body() as held, client.query(SOQL["q"], stream=True) as answer:  # its headers have come
        eventually(lambda: held.pauses == [30], "the pause after the first half")
        held.go_on()
        assert answer.json() == whole


def test_a_locator_is_gone_where_a_query_goes_on(faults: RestFaults, client: RestClient) -> None:
    headers = {"Sforce-Query-Options": "batchSize=200"}
    faults.arm(RestFault.LOCATOR_GONE)
    first = client.query(SOQL["q"], headers=headers).json()
    assert not first["done"]
    following = "/" + first["nextRecordsUrl"]
    answer = client.get(following)
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, "INVALID_QUERY_LOCATOR")
    assert client.get(following).json()["done"]


def test_a_clock_that_is_ahead_shows_in_commits_and_in_the_date_of_answers() -> None:
    clock = ManualClock()
    org = EmulatedOrg(clock=clock)
    org.faults.arm(Fault.CLOCK_SKEW, ahead=3_600)
    with org.transaction() as unit_of_work:
        unit_of_work.create("Account", {"Name": "later"})
    (transaction,) = org.transactions()
    assert transaction.commit_timestamp - clock() // 1000 * 1000 == 3_600_000
    with rest_client(org) as client:
        date = parsedate_to_datetime(client.get("/limits").headers["Date"]).timestamp()
    assert 3_599 <= date - clock() / 1000 <= 3_600
    org.close()


def test_what_has_struck_is_counted(faults: RestFaults, client: RestClient) -> None:
    armed = Faults()
    armed.arm(Fault.OVERFLOW, 3)
    assert [armed.take(Fault.OVERFLOW) for _ in range(4)] == [True, True, True, False]
    assert (armed.struck(Fault.OVERFLOW), armed.struck(Fault.DUPLICATE)) == (3, 0)
    faults.arm(RestFault.UNAVAILABLE, 2)
    for _ in range(3):
        client.get("/limits")
    assert faults.struck(RestFault.UNAVAILABLE) == 2
