"""`sfcdc doctor`: a healthy set-up, broken ones, and each check by itself."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.doctor import connection, rights, storage, streams
from sfcdc_assets.doctor.finding import Finding, Outcome, of_error
from sfcdc_assets.doctor.rights import DELIVERIES, REQUESTS, allowance, hidden_columns
from sfcdc_assets.doctor.streams import checkpoint_age
from sfcdc_assets.doctor.workers import silent_master, workers
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.rest.api_usage import ApiUsage
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.lake.delta.commit_probe import probe_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.errors import ApiLimitReached, RequestRefused
from sfcdc_assets.salesforce.limits import Limit
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.streams.errors import TransportUnavailable
from sfcdc_assets_tests.change_events.written_event import described_object, event_schema, optional
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.doctor import test_change_feed
from sfcdc_assets_tests.doctor.broken_set_ups import SET_UPS, Broken
from sfcdc_assets_tests.doctor.set_ups import HOUR, SetUp, served_org, set_up
from sfcdc_assets_tests.formulas.test_formula_columns import ACCOUNT, CONTACT
from sfcdc_assets_tests.lake.object_store import BUCKET, object_store

pytestmark = pytest.mark.slow

OK, WARNING, FAILED, NOT_CHECKED = Outcome


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[EmulatedOrg, EmulatorServer]]:
    with served_org() as both:
        yield both


@pytest.fixture
def one(served: tuple[EmulatedOrg, EmulatorServer], tmp_path: Path) -> Iterator[SetUp]:
    with set_up(*served, tmp_path) as one:
        yield one


def by_outcome(findings: list[Finding], *outcomes: Outcome) -> list[Finding]:
    return [each for each in findings if each.outcome in outcomes]


def test_a_healthy_set_up_has_nothing_to_mend_and_stays_as_it_was(one: SetUp) -> None:
    result = sfcdc("doctor", "--port", "0")
    assert result.exit_code == 0, result.stdout
    assert result.stdout.endswith("\nAll would work.\n")
    assert not by_outcome(one.findings(), WARNING, FAILED, NOT_CHECKED)
    assert list(one.folder.iterdir()) == []
    assert one.server.meter.total == 0, "no event was delivered"


@pytest.mark.parametrize("broken", SET_UPS, ids=lambda broken: broken.what)
def test_what_is_broken_is_found_with_its_fix(one: SetUp, broken: Broken) -> None:
    broken.breaks(one)
    findings = one.findings()
    same = [each for each in findings if each.check == broken.check and broken.found in each.found]
    found = next(each for each in same if each.outcome is broken.outcome)
    assert broken.fix in found.fix
    assert found.found.count("\n") == found.fix.count("\n") == 0
    text = json.dumps([str(each) for each in findings])
    for secret in ("wr0ng-s3cret", "s3cret-in-a-file", "00Dexpired", one.org.settings.credentials.client_secret):
        assert secret not in text


TESTED_BY_ITSELF = {
    "change data feed": "test_a_table_with_the_feed_is_named_with_the_reason_why_it_is_refused",
    "clock": "test_a_clock_that_is_off_is_found_against_the_orgs",
    "My Domain": "test_an_address_is_the_orgs_my_domain",
    "disk space": "test_a_disk_has_room",
    "formula fields": "test_formula_fields_are_counted_and_those_that_are_not_read_or_withheld_are_named",
    "port of the Dagster UI": "test_a_port_that_another_program_has_is_found_and_one_of_dagsters_is_fine",
}
"""Checks that fail without the set-up of the others, and where they do."""


def test_every_check_is_tested_failing(one: SetUp) -> None:
    checks = {each.check.replace("Contact", "Account") for each in one.findings()}
    broken = {each.check.replace("Contact", "Account") for each in SET_UPS}
    # A channel that does not exist has a name of its own.
    broken |= {each.replace("AccuontChangeEvent", "ChangeEvents") for each in broken}
    assert checks - broken == set(TESTED_BY_ITSELF)
    assert set(TESTED_BY_ITSELF.values()) <= {*globals(), *vars(test_change_feed)}


def test_formula_fields_are_counted_and_those_that_are_not_read_or_withheld_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SFCDC_HASH_KEY", "key")
    (found,) = rights.formulas(load_settings(), [CONTACT, ACCOUNT], {})
    assert found.found == (
        "5 formula fields of these objects, which no change event carries: 0 are read, and not Contact.Text__c, "
        "Contact.Of_Text__c, Contact.Number__c, Contact.Day__c, Contact.At__c. SFCDC_FORMULAS says which should be."
    )
    monkeypatch.setenv("SFCDC_FORMULAS", "Contact.*t__c")
    (found,) = rights.formulas(load_settings(), [CONTACT, ACCOUNT], {})
    assert found.outcome is OK
    assert found.found.endswith(": 3 are read, and not Contact.Number__c, Contact.Day__c.")
    monkeypatch.setenv("SFCDC_HASH", "*.Email")
    counted, withheld = rights.formulas(load_settings(), [CONTACT, ACCOUNT], {})
    assert (counted.outcome, withheld.outcome) == (OK, WARNING)
    assert "Contact.Text__c (it shows Contact.Email)" in withheld.found
    assert list(rights.formulas(load_settings(), [ACCOUNT], {})) == []


def test_a_hidden_field_that_the_settings_leave_out_is_not_missed(one: SetUp) -> None:
    one.org.field_security.hide("Account", "Phone")
    one.undo.callback(one.org.field_security.show, "Account", "Phone")
    one.patch.setenv("SFCDC_EXCLUDE", "*.Phone")
    assert not by_outcome(one.findings(), WARNING, FAILED)


def test_a_spark_connect_server_that_listens_needs_no_java(one: SetUp) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        one.patch.setenv("SFCDC_SPARK_REMOTE", f"sc://127.0.0.1:{server.getsockname()[1]}")
        one.patch.setenv("PATH", str(one.folder))
        assert not by_outcome(one.findings(), WARNING, FAILED)


def test_checks_that_need_no_login_are_made_without_one(one: SetUp) -> None:
    one.patch.setenv("SFCDC_CLIENT_SECRET", "wrong")
    findings = {each.check: each for each in one.findings()}
    assert findings["login"].outcome is FAILED
    dependent = ("My Domain", "organization", "API", "streams", "rights on objects", "allowances")
    assert {findings[check].outcome for check in dependent} == {NOT_CHECKED}
    assert {findings[check].found for check in dependent} == {"depends on login"}
    independent = ("Java", "TLS", "clock", "warehouse", "atomic commits", "checkpoint of /data/ChangeEvents")
    assert {findings[check].outcome for check in independent} == {OK}


def test_the_command_ends_with_1_and_tells_programs_the_same(one: SetUp) -> None:
    one.org.view_all.withdraw("Contact")
    text, described = sfcdc("doctor", "--port", "0"), sfcdc("doctor", "--port", "0", "--json")
    assert (text.exit_code, described.exit_code) == (1, 1)
    assert "\nrights on Contact: failed: Contact: the user has neither View All Data" in text.stdout
    assert text.stdout.endswith("1 check failed.\n")
    reported = json.loads(described.stdout)
    assert reported["healthy"] is False
    assert [each["check"] for each in reported["findings"] if each["outcome"] == "failed"] == ["rights on Contact"]


def test_a_port_that_another_program_has_is_found_and_one_of_dagsters_is_fine(one: SetUp) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = sfcdc("doctor", "--port", str(taken.getsockname()[1]))
    assert result.exit_code == 1
    assert "Another program listens on" in result.stdout
    assert "sfcdc dev --port" in result.stdout
    with dagster_like() as port:
        result = sfcdc("doctor", "--port", str(port))
    assert result.exit_code == 0
    assert f"a Dagster UI is on {port}" in result.stdout


class dagster_like:  # noqa: N801 - a context manager
    """A server that answers as Dagster's does."""

    def __enter__(self) -> int:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"dagster_webserver_version": "1", "dagster_version": "1"}')

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=[0.01], daemon=True).start()
        return int(self._server.server_address[1])

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_a_clock_that_is_off_is_found_against_the_orgs(one: SetUp) -> None:
    findings = {each.check: each for each in one.findings(lambda: clock.now_ms() + HOUR)}
    assert findings["clock"].outcome is FAILED
    assert findings["clock"].found.startswith("The clock here is 36")
    assert "ahead of" in findings["clock"].found


@pytest.mark.parametrize(
    ("skew_ms", "outcome"), [(0, OK), (9_000, OK), (-9_000, OK), (11_000, FAILED), (-11_000, FAILED)]
)
def test_clocks_may_differ_by_what_landing_allows_for(skew_ms: int, outcome: Outcome) -> None:
    assert connection.clock_skew(skew_ms).outcome is outcome


@pytest.mark.parametrize(
    ("configured", "reported", "outcome"),
    [
        (None, "https://mycompany.my.salesforce.com", OK),
        ("https://mycompany.my.salesforce.com", "https://mycompany.my.salesforce.com", OK),
        ("https://mycompany--uat.sandbox.my.salesforce.com", None, OK),
        ("https://localhost:7000", "https://localhost:7000", OK),
        ("https://na139.salesforce.com", None, WARNING),
        (None, "https://eu45.salesforce.com", WARNING),
        ("https://other.my.salesforce.com", "https://mycompany.my.salesforce.com", WARNING),
    ],
)
def test_an_address_is_the_orgs_my_domain(configured: str | None, reported: str | None, outcome: Outcome) -> None:
    assert connection.my_domain(configured, reported).outcome is outcome


@pytest.mark.parametrize(("free", "outcome"), [(2**40, OK), (2**30, WARNING), (2**20, FAILED)])
def test_a_disk_has_room(free: int, outcome: Outcome) -> None:
    assert storage.space(free, "/data").outcome is outcome


@pytest.mark.parametrize(
    ("name", "left", "need", "outcome"),
    [
        (REQUESTS, 90_000, 500, OK),
        (REQUESTS, 15_000, 500, WARNING),
        (REQUESTS, 90_000, 95_000, FAILED),
        (REQUESTS, -3, 0, FAILED),
        (DELIVERIES, 90_000, 95_000, WARNING),
        (DELIVERIES, 0, 0, FAILED),
    ],
)
def test_allowances_cover_a_first_start(name: str, left: int, need: int, outcome: Outcome) -> None:
    assert allowance(name, Limit(100_000, left), need).outcome is outcome


@pytest.mark.parametrize(
    ("hours", "outcome"), [(None, OK), (0.01, OK), (47.0, OK), (49.0, WARNING), (71.9, WARNING), (72.1, FAILED)]
)
def test_a_checkpoint_is_younger_than_what_salesforce_keeps(hours: float | None, outcome: Outcome) -> None:
    assert checkpoint_age("/data/ChangeEvents", hours).outcome is outcome


def test_a_user_without_api_enabled_is_given_the_name_of_the_permission(one: SetUp) -> None:
    class Refusing:
        version = "64.0"

        def request(self, *_: object, **__: object) -> None:
            raise RequestRefused("the list of objects", 403, "API_DISABLED_FOR_ORG", "API is not enabled")

    class Org:
        session = Refusing()

    found = rights.api(Org())  # type: ignore[arg-type]
    assert (found.outcome, "API Enabled" in found.fix) == (FAILED, True)


def test_a_firewall_that_lets_443_through_is_found(one: SetUp, monkeypatch: pytest.MonkeyPatch) -> None:
    class Answers:
        def check_channel(self, channel: str, seconds: float) -> None:
            """Lets the user in."""

        def close(self) -> None:
            """Nothing is open."""

    class Silent(Answers):
        def check_channel(self, channel: str, seconds: float) -> None:
            raise TransportUnavailable("The Pub/Sub API did not answer. Check the firewall.")

    class Org:
        session = None

        def new_transport(self, channel: str) -> Answers:
            return Silent()

    monkeypatch.setenv("SFCDC_PUBSUB_ENDPOINT", "api.pubsub.salesforce.com:7443")
    asked: list[str] = []

    def another(settings: Any, *_: object) -> Answers:
        asked.append(settings.pubsub_endpoint)
        return Answers()

    monkeypatch.setattr(streams, "new_transport", another)
    (found,) = streams.reachable(load_settings(), Org())  # type: ignore[arg-type]
    assert asked == ["api.pubsub.salesforce.com:443"]
    assert found.outcome is FAILED
    assert found.fix == "Set SFCDC_PUBSUB_ENDPOINT=api.pubsub.salesforce.com:443."


@pytest.mark.parametrize(("options", "outcome"), [((), OK), (("--unconditional",), FAILED)])
def test_a_store_that_lets_commits_replace_each_other_is_found(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], outcome: Outcome
) -> None:
    with object_store(*options) as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        warehouse = Warehouse(f"s3://{BUCKET}/warehouse")
        with probe_of(warehouse, "doctor-test") as probe:
            assert storage.commits(probe).outcome is outcome
        assert warehouse.filesystem("").get_file_info("doctor-test").type.name == "NotFound"


def test_a_cluster_without_room_is_found_after_some_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_SPARK_MASTER", "yarn")
    never = threading.Event()
    found = workers(load_settings(), lambda _: never.wait(), seconds=0.01)
    never.set()
    assert (found.outcome, found.found) == (FAILED, "Spark at yarn had no worker for the session within 0 s.")


def test_any_of_several_masters_will_do() -> None:
    with socket.socket() as server, socket.socket() as closed:
        for each in (server, closed):
            each.bind(("127.0.0.1", 0))
        server.listen()
        ports = [each.getsockname()[1] for each in (closed, server)]
        assert silent_master(f"spark://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}") is None
        assert "refused" in str(silent_master(f"spark://127.0.0.1:{ports[0]}"))


def test_an_error_is_split_into_what_is_wrong_and_what_to_do() -> None:
    found = of_error("x", SfcdcError("It is (as it said: No. Never. Ever) wrong.  Do this. Then that."))
    assert (found.found, found.fix) == ("It is (as it said: No. Never. Ever) wrong.", "Do this. Then that.")
    assert of_error("x", SfcdcError("Only wrong.")) == Finding("x", FAILED, "Only wrong.")


def test_the_last_bulk_jobs_of_the_day_are_left_for_copies(one: SetUp) -> None:
    before = ApiUsage(one.org).used("bulk_query")
    kept = one.org.settings
    one.undo.callback(setattr, one.org, "settings", kept)
    one.org.settings = replace(kept, daily_bulk_query_jobs=before + 3)
    findings = one.findings()
    assert ApiUsage(one.org).used("bulk_query") == before
    assert not by_outcome(findings, FAILED)
    said = [each for each in findings if each.check == "rights on objects"]
    assert "Bulk was not tried" in said[0].found


def test_an_org_without_bulk_jobs_is_not_told_that_its_requests_are_used_up() -> None:
    error = ApiLimitReached("https://org", "Max bulk v2 query jobs (3) per 24 hrs has been reached (3)")
    assert "takes no more Bulk jobs" in str(error)
    assert "takes no more API requests" in str(ApiLimitReached("https://org", "TotalRequests Limit exceeded."))


def test_lists_of_preferences_are_not_missed_where_their_checkboxes_are_there() -> None:
    schema = event_schema(
        optional("EmailPreferences", {"type": "array", "items": "string"}),
        optional("UserPreferences", {"type": "array", "items": "string"}),
        optional("Others", {"type": "array", "items": "string"}),
        optional("Secret__c", "string"),
    )
    described = described_object(
        [{"name": each, "type": "boolean"} for each in ("EmailPreferencesAutoBcc", "UserPreferencesReminderSoundOff")]
    )
    assert hidden_columns(schema, described) == ["Others", "Secret__c"]
