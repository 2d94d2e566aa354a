"""`sfcdc emulator fault`, `change` and `events`: an org that is served, from another terminal."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from sfcdc_assets.cli.emulator_parts.control import printable
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.scenarios.scenario import scenarios
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.cli.command import SCRIPT, refusal, sfcdc
from sfcdc_assets_tests.eventually import BOUND_SECONDS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("org")


@pytest.fixture(scope="module")
def org() -> Iterator[EmulatedOrg]:
    org = EmulatedOrg(clock=ManualClock(), seed=6)
    yield org
    org.close()


@pytest.fixture(scope="module")
def server(org: EmulatedOrg, folder: Path) -> Iterator[EmulatorServer]:
    with EmulatorServer(org, directory=folder) as server:
        yield server


def emulator(folder: Path, *arguments: str) -> Result:
    return sfcdc("emulator", *arguments, "--dir", str(folder))


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_fault_is_armed_listed_and_switched_off(server: EmulatorServer, folder: Path) -> None:
    armed = emulator(folder, "fault", "stream_pause", "--times", "3", "--set", "after=4", "--set", "seconds=30")
    assert armed.stdout.startswith("stream_pause  armed 3 times\n")
    assert server.faults.armed(Fault.STREAM_PAUSE) == 3
    assert server.faults.option(Fault.STREAM_PAUSE, "after", 0) == 4
    (rest,) = lines(emulator(folder, "fault", "rest:unavailable", "--set", "path=/query", "--json"))
    assert (rest["fault"], rest["armed"]) == ("rest:unavailable", 1)
    listed = {each["fault"]: each["armed"] for each in lines(emulator(folder, "fault", "--json"))}
    assert listed.keys() == {*Fault, *(f"rest:{each}" for each in RestFault)}
    assert {name for name, times in listed.items() if times} == {"stream_pause", "rest:unavailable"}
    (off,) = lines(emulator(folder, "fault", "stream_pause", "--off", "--json"))
    assert (off["armed"], off["struck"]) == (0, 0)
    assert emulator(folder, "fault", "--off").exit_code == 0
    assert not server.rest_faults.armed()


def test_a_fault_that_lasts_is_over_after_its_time_or_when_it_is_switched_off(
    server: EmulatorServer, org: EmulatedOrg, folder: Path
) -> None:
    options = ("--set", "ahead=30", "--set", "seconds=60")
    assert emulator(folder, "fault", "clock_skew", *options).stdout.startswith("clock_skew  armed once  struck once\n")
    assert org.clock_skew == 30_000
    assert emulator(folder, "fault", "clock_skew", "--off").stdout.startswith("clock_skew  struck once\n")
    assert org.clock_skew == 0
    assert "code must be one of" in refusal(emulator(folder, "fault", "call_refused", "--set", "code=x"))
    (moved,) = lines(emulator(folder, "fault", "instance_move", "--json"))
    assert (moved["armed"], moved["struck"], org.instance_name) == (0, 1, "EMU2")


def test_a_fault_of_rest_needs_its_prefix_only_where_another_has_its_name(server: EmulatorServer, folder: Path) -> None:
    (found,) = lines(emulator(folder, "fault", "garbage", "--json"))
    assert found["fault"] == "rest:garbage"
    (found,) = lines(emulator(folder, "fault", "unavailable", "--json"))
    assert found["fault"] == "unavailable"
    emulator(folder, "fault", "--off")


@pytest.mark.usefixtures("server")
def test_what_is_no_fault_or_no_option_is_one_sentence(folder: Path) -> None:
    assert "Do you mean silent_stream?" in refusal(emulator(folder, "fault", "silent_streem"))
    assert "write it as OPTION=VALUE" in refusal(emulator(folder, "fault", "overflow", "--set", "threshold"))
    assert "threshold must be a whole number" in refusal(emulator(folder, "fault", "overflow", "--set", "threshold=x"))


def test_records_are_made_changed_deleted_and_restored(server: EmulatorServer, org: EmulatedOrg, folder: Path) -> None:
    after = org.last_commit_number
    said = emulator(folder, "change", "Account", "Name=Acme", "NumberOfEmployees=12", "Is_Partner__c=true").stdout
    record_id = re.fullmatch(r"Account (001\w{15}) created\n", said).group(1)  # type: ignore[union-attr]
    assert emulator(folder, "change", record_id[:15], "Name=Acme = new", "NumberOfEmployees=").exit_code == 0
    record = org.record("Account", record_id) or {}
    assert (record["Name"], record["NumberOfEmployees"], record["Is_Partner__c"]) == ("Acme = new", None, True)
    assert lines(emulator(folder, "change", record_id, "--delete", "--json")) == [
        {"entity": "Account", "id": record_id, "done": "deleted"}
    ]
    assert emulator(folder, "change", record_id, "--undelete").exit_code == 0
    kinds = [change.change_type for each in org.transactions(after) for change in each.changes]
    assert kinds == ["CREATE", "UPDATE", "DELETE", "UNDELETE"]


@pytest.mark.usefixtures("server")
def test_a_lead_is_converted(folder: Path) -> None:
    (lead,) = lines(emulator(folder, "change", "lead", "LastName=Ada", "Company=Engines", "--json"))
    said = emulator(folder, "change", str(lead["id"]), "--convert").stdout
    assert re.fullmatch(r"Lead 00Q\w+ converted, account 001\w+, contact 003\w+, opportunity 006\w+\n", said)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["Account"], "Nothing to change"),
        (["Account", "Name"], "Name is no new value"),
        (["Account", "Nothing__c=1"], "No such column 'Nothing__c'"),
        (["Nothing", "Name=1"], "Nothing is neither a record's id nor an object"),
        (["Account", "--delete"], "to delete a record, give its id"),
        (["001000000000001", "Name=1", "--delete"], "either given new values or deleted"),
        (["001000000000001", "Name=1"], "The org refuses: "),
    ],
)
@pytest.mark.usefixtures("server")
def test_what_cannot_be_changed_is_one_sentence(folder: Path, arguments: list[str], sentence: str) -> None:
    assert sentence in refusal(emulator(folder, "change", *arguments))


def test_events_are_lines_that_one_can_pipe(server: EmulatorServer, org: EmulatedOrg, folder: Path) -> None:
    with org.transaction() as unit_of_work:
        record_id = unit_of_work.create("Contact", {"LastName": "A\x1b[31m\nB", "MailingCity": "Bern"})
    (event,) = lines(emulator(folder, "events", "--last", "1", "--json"))
    payload = event["payload"]
    assert isinstance(payload, dict)
    assert payload["ChangeEventHeader"]["recordIds"] == [record_id]
    assert payload["MailingAddress"] == {"City": "Bern"}
    (line,) = emulator(folder, "events", "--last", "1", "--entity", "Contact").stdout.splitlines()
    assert "CREATE" in line
    assert record_id in line
    assert "MailingAddress.City=Bern" in line
    assert "A�[31m�B" in line
    assert "there is no object, platform event or channel X" in refusal(emulator(folder, "events", "--entity", "X"))


def test_events_of_every_kind_are_lines_that_say_which(server: EmulatorServer, folder: Path) -> None:
    topics = server.cometd.topics
    topic = topics.push_topics.create({"Name": "All", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 60.0})
    news = topics.channels.create({"Name": "/u/Lines"})
    emulator(folder, "change", "Account", "Name=seen")
    server.publisher.publish("Order_Event__e", {"Order_Number__c": "7"})
    topics.channels.push(news.id, [{"payload": "hello"}], ())
    topics.push_topics.delete(topic.id)
    shown = emulator(folder, "events", "--last", "4").stdout
    for part in ("change  ", "PushTopic  ", "created  ", "platform event  published", "Order_Number__c=7"):
        assert part in shown
    (line,) = emulator(folder, "events", "--entity", "/u/Lines").stdout.splitlines()
    assert line.split()[1:] == ["generic", "pushed", "/u/Lines", "payload=hello"]


def test_scenarios_are_listed_and_played_in_a_served_org(server: EmulatorServer, folder: Path) -> None:
    listed = emulator(folder, "scenario").stdout
    assert "lead-conversion  A lead is converted" in listed
    assert "Received: CREATE of the account" in listed
    assert {line["scenario"] for line in lines(emulator(folder, "scenario", "--json"))} == set(scenarios())
    played = emulator(folder, "scenario", "enrichment").stdout
    assert "5. update acme: Fax" in played
    assert re.search(
        r"^   SalesEvents__chn: \d\d:\d\d:\d\d  change +UPDATE .* Industry=Biotechnology", played, re.MULTILINE
    )
    assert "no event" in emulator(folder, "scenario", "lost-event").stdout
    *_, last = lines(emulator(folder, "scenario", "gap", "--json"))
    (event,) = last["events"]  # type: ignore[misc]
    assert event["payload"]["ChangeEventHeader"]["changeType"] == "GAP_UPDATE"
    assert "Do you mean overflow?" in refusal(emulator(folder, "scenario", "overflaw"))


def test_a_scenario_is_played_by_an_org_that_starts_with_it(tmp_path: Path) -> None:
    assert "A lead is converted" in sfcdc("emulator", "--scenario", "list").stdout
    assert "Do you mean merge?" in refusal(sfcdc("emulator", "--scenario", "merges", "--dir", str(tmp_path / "a")))
    assert "--json goes with --scenario" in refusal(sfcdc("emulator", "--json", "--dir", str(tmp_path / "a")))
    assert not (tmp_path / "a").exists()
    arguments = ("emulator", "--dir", str(tmp_path / "b"), "--records", "2", "--scenario", "hard-delete")
    steps = lines(sfcdc(*arguments, "--json"))
    assert [step["step"] for step in steps] == ["create Account acme", "hard delete acme"]
    with subprocess.Popen([str(SCRIPT), *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = []
        for line in process.stdout:
            printed.append(line)
            if line.startswith("Received: A DELETE event."):
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(BOUND_SECONDS) == 0
    assert any(line.startswith("2. hard delete acme") for line in printed)


def test_following_goes_on_until_ctrl_c(server: EmulatorServer, org: EmulatedOrg, folder: Path) -> None:
    command = [str(SCRIPT), "emulator", "events", "--follow", "--last", "0", "--json", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = []
        for number in range(3):
            # The first one may come before the command looks; those after it are made once it has said something.
            name = f"Followed {number}"
            with org.transaction() as unit_of_work:
                unit_of_work.create("Account", {"Name": name})
            if number == 0:
                wait_for_watcher(server)
                with org.transaction() as unit_of_work:
                    unit_of_work.create("Account", {"Name": "seen"})
                line = process.stdout.readline()
                while "seen" not in line:
                    line = process.stdout.readline()
                continue
            found.append(json.loads(process.stdout.readline())["payload"]["Name"])
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=BOUND_SECONDS)
    assert found == ["Followed 1", "Followed 2"]
    assert (process.returncode, error) == (0, "")


def wait_for_watcher(server: EmulatorServer) -> None:
    """Until somebody waits for events."""
    assert server.feed.watched.wait(BOUND_SECONDS)


def test_a_folder_without_a_served_org_is_one_sentence(tmp_path: Path) -> None:
    for arguments in (("fault",), ("change", "Account", "Name=x"), ("events",)):
        assert f"No emulated org is served from {tmp_path}: it has no org.env" in refusal(
            emulator(tmp_path, *arguments)
        )


def test_an_org_that_was_stopped_is_one_sentence(tmp_path: Path) -> None:
    org = EmulatedOrg(clock=ManualClock())
    with EmulatorServer(org, directory=tmp_path) as server:
        url = server.rest_url
    org.close()
    assert f"{url} does not answer. Start it with `sfcdc emulator --dir {tmp_path}`" in refusal(
        emulator(tmp_path, "events")
    )


@pytest.mark.usefixtures("server")
def test_the_folder_may_be_named_before_the_command(folder: Path) -> None:
    assert sfcdc("emulator", "--dir", str(folder), "events").exit_code == 0


@pytest.mark.parametrize("command", [(), ("fault",), ("change",), ("events",)])
def test_each_has_a_help(command: tuple[str, ...]) -> None:
    shown = sfcdc("emulator", *command, "--help")
    assert shown.exit_code == 0
    assert all(name in shown.stdout for name in (("fault", "change", "events") if not command else ("--dir",)))


def test_open_shows_the_pages_in_a_browser(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    os.mkfifo(opened)
    script = f"import sys; open({str(opened)!r}, 'w').write(sys.argv[1])"
    browser = f"{sys.executable} -c {shlex.quote(script)} %s"
    command = [str(SCRIPT), "emulator", "--open", "--records", "0", "--dir", str(tmp_path / "org")]
    with subprocess.Popen(
        command, env={**os.environ, "BROWSER": browser}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        url = opened.read_text()  # once the browser has written it
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=BOUND_SECONDS)
    assert re.fullmatch(r"https://localhost:\d+", url)
    assert f"See it:    {url} in a browser" in output
    assert process.returncode == 0


def test_a_file_of_faults_that_is_wrong_stops_the_command_before_it_serves(tmp_path: Path) -> None:
    (tmp_path / "faults.yml").write_text("faults: [{fault: silent}]")
    said = refusal(emulator(tmp_path / "org", "--faults", str(tmp_path / "faults.yml")))
    assert f"{tmp_path / 'faults.yml'}, entry 1: faults are stream_reset" in said
    assert not (tmp_path / "org").exists()


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert printable("a\x1b]0;x\x07\nb\u202e") == "a�]0;x��b�"
