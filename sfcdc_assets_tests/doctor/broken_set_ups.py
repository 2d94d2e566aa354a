"""Set-ups that would fail, each with what the doctor says of it.

`python -m sfcdc_assets_tests.doctor.broken_set_ups` prints the table, after that of a healthy one.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS
from sfcdc_assets.doctor import examination, machine
from sfcdc_assets.doctor.finding import Outcome
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.lake.delta import commit_probe
from sfcdc_assets.lake.tables.organization import OrganizationLog
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.errors import RequestRefused
from sfcdc_assets.salesforce.limits import Limit
from sfcdc_assets.salesforce.view_all import Sight, ViewAll
from sfcdc_assets.spark.workers import INSTALL, SHARE, WorkersNotReady
from sfcdc_assets.streams.checkpoint import EARLIEST, StreamCheckpoint
from sfcdc_assets_tests.doctor.set_ups import HOUR, SetUp, served_org, set_up
from sfcdc_assets_tests.lake.object_store import BUCKET, object_store
from sfcdc_assets_tests.store_login import forget_logins


@dataclass(frozen=True)
class Broken:
    """How it is broken, and the check that fails, with words of what was found and of the fix."""

    what: str
    breaks: Callable[[SetUp], None]
    check: str
    found: str
    fix: str
    outcome: Outcome = Outcome.FAILED


def _no_java(one: SetUp) -> None:
    one.patch.setenv("PATH", str(one.folder))
    one.patch.delenv("JAVA_HOME", raising=False)


def _old_java(one: SetUp) -> None:
    java = one.folder / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    one.patch.setenv("JAVA_HOME", str(one.folder / "jdk"))


def _no_spark(one: SetUp) -> None:
    one.patch.setenv("SFCDC_SPARK_REMOTE", f"sc://localhost:{_closed_port()}")


def _no_master(one: SetUp) -> None:
    one.patch.setenv("SFCDC_SPARK_MASTER", f"spark://127.0.0.1:{_closed_port()}")


def _workers_without_the_package(one: SetUp) -> None:
    _cluster(one, WorkersNotReady("k8s://a", "a worker's Python has no module polars", INSTALL))


def _workers_elsewhere(one: SetUp) -> None:
    reason = f"10.0.0.7 does not reach the warehouse {one.warehouse.root} (No such file or directory)"
    _cluster(one, WorkersNotReady("k8s://a", reason, SHARE))


def _no_session(one: SetUp) -> None:
    _cluster(one, RuntimeError("Java gateway process exited.\nmore"))


def _cluster(one: SetUp, error: Exception) -> None:
    """One whose session ends so; a real one is in the pipeline's tests."""

    def ask(_: object) -> None:
        raise error

    one.patch.setenv("SFCDC_SPARK_MASTER", "k8s://a")
    one.patch.setattr(examination, "_session", ask)


def _no_credentials(one: SetUp) -> None:
    forget_logins(one.patch)
    one.patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    one.patch.setenv("SFCDC_WAREHOUSE", "s3://bucket/warehouse")


def _no_conditional_put(one: SetUp) -> None:
    for number, most in (("WRITERS", 8), ("ROUNDS", 4)):
        one.patch.setattr(commit_probe, number, most)
    store = one.undo.enter_context(object_store("--unconditional"))
    for name, value in {**store.environment, "SFCDC_WAREHOUSE": f"s3://{BUCKET}/warehouse"}.items():
        one.patch.setenv(name, value)


def _misspelt(one: SetUp) -> None:
    one.patch.setenv("SFCDC_ENTITES", "Account")


def _no_login(one: SetUp) -> None:
    one.patch.delenv("SFCDC_CLIENT_SECRET")


def _wrong_secret(one: SetUp) -> None:
    one.patch.setenv("SFCDC_CLIENT_SECRET", "wr0ng-s3cret")


def _no_certificate(one: SetUp) -> None:
    one.patch.delenv("SFCDC_CA_FILE")


def _nobody_there(one: SetUp) -> None:
    for name in ("SFCDC_INSTANCE_URL", "SFCDC_LOGIN_URL"):
        one.patch.setenv(name, f"https://localhost:{_closed_port()}")


def _expired_token(one: SetUp) -> None:
    for name in ("SFCDC_CLIENT_ID", "SFCDC_CLIENT_SECRET"):
        one.patch.delenv(name)
    one.patch.setenv("SFCDC_ACCESS_TOKEN", "00Dexpired!token")


def _other_org(one: SetUp) -> None:
    OrganizationLog(one.warehouse).bind("00D000000000001EAA", clock.now_ms(), {})


def _no_view_all(one: SetUp) -> None:
    one.org.view_all.withdraw("Contact")


def _hidden_field(one: SetUp) -> None:
    one.org.field_security.hide("Account", "Phone")
    one.undo.callback(one.org.field_security.show, "Account", "Phone")


def _wrong_entity(one: SetUp) -> None:
    one.patch.setenv("SFCDC_ENTITIES", "Account,Contcat")


def _nothing_selected(one: SetUp) -> None:
    one.org.selected_entities = []


def _unknown_channel(one: SetUp) -> None:
    one.patch.setenv("SFCDC_CHANNELS", "/data/AccuontChangeEvent")


def _no_pubsub(one: SetUp) -> None:
    one.patch.setenv("SFCDC_PUBSUB_ENDPOINT", f"localhost:{_closed_port()}")


def _no_bulk(one: SetUp) -> None:
    one.server.rest_faults.arm(RestFault.REQUEST_LIMIT, 1, path="/jobs/query", method="POST")


def _garbage(one: SetUp) -> None:
    one.server.rest_faults.arm(RestFault.GARBAGE, 9, path="/sobjects")


def _no_deliveries(one: SetUp) -> None:
    one.org.settings = replace(one.org.settings, daily_event_deliveries=0)


def _no_jobs(one: SetUp) -> None:
    one.patch.setattr(examination, "limits", lambda _: {"DailyBulkV2QueryJobs": Limit(10_000, 0)})


def _few_requests(one: SetUp) -> None:
    one.patch.setattr(examination, "limits", lambda _: {"DailyApiRequests": Limit(15_000, 3)})


def _missing_allowances(one: SetUp) -> None:
    one.patch.setattr(examination, "limits", _refused)


def _missing_members(one: SetUp) -> None:
    one.patch.setattr(OrgConnection, "members", lambda *_, **__: None)


def _missing_sight(one: SetUp) -> None:
    one.patch.setattr(ViewAll, "of", lambda *_, **__: Sight.UNKNOWN)


def _refused(*_: object, **__: object) -> None:
    raise RequestRefused("the org's limits", 403, "FUNCTIONALITY_NOT_ENABLED", "not for this user")


def _file_for_a_warehouse(one: SetUp) -> None:
    (one.folder / "warehouse").write_text("not a folder")


def _old_checkpoint(one: SetUp) -> None:
    long_ago = clock.now_ms() - 80 * HOUR
    checkpoint = StreamCheckpoint("/data/ChangeEvents", begun=EARLIEST, begun_at_ms=long_ago)
    with _time(long_ago):
        RawEvents.open(one.warehouse).commit(RAW_EVENTS.empty_table(), checkpoint)


def _relative_home(one: SetUp) -> None:
    one.patch.setenv("DAGSTER_HOME", "dagster_home")


def _no_home(one: SetUp) -> None:
    one.patch.setenv("DAGSTER_HOME", str(one.folder / "no_home"))


def _home_of_others(one: SetUp) -> None:
    one.patch.setenv("DAGSTER_HOME", str(one.folder))
    access = machine.os.access
    one.patch.setattr(machine.os, "access", lambda path, mode: path != one.folder and access(path, mode))


def _key_for_all(one: SetUp) -> None:
    file = one.folder / "key.pem"
    file.write_text("-----BEGIN PRIVATE KEY-----\n")
    file.chmod(0o640)
    one.patch.setenv("SFCDC_PRIVATE_KEY_FILE", str(file))


def _set_twice(one: SetUp) -> None:
    (one.folder / ".env").write_text("SFCDC_WAREHOUSE=elsewhere\n")


def _secret_for_all(one: SetUp) -> None:
    file = one.folder / ".env"
    file.write_text("SFCDC_CLIENT_SECRET=s3cret-in-a-file\n")
    file.chmod(0o644)


def _secret_file_for_all(one: SetUp) -> None:
    file = one.folder / "client_secret"
    file.write_text(os.environ["SFCDC_CLIENT_SECRET"])
    file.chmod(0o604)
    one.patch.delenv("SFCDC_CLIENT_SECRET")
    one.patch.setenv("SFCDC_CLIENT_SECRET_FILE", str(file))


@contextmanager
def _time(now_ms: int) -> Iterator[None]:
    class Then(clock.Clock):
        def now_ms(self) -> int:
            return now_ms

    with clock.using(Then()):
        yield


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


SET_UPS = (
    Broken("no Java", _no_java, "Java", "no java is on PATH", "apt-get install"),
    Broken("a Java of 2019", _old_java, "Java", "is version 11", "Install one"),
    Broken("no Spark Connect", _no_spark, "Spark Connect", "takes no connection", "SFCDC_SPARK_REMOTE"),
    Broken("no Spark master", _no_master, "Spark's workers", "takes a connection", "correct SFCDC_SPARK_MASTER"),
    Broken(
        "workers without the package",
        _workers_without_the_package,
        "Spark's workers",
        "has no module polars",
        "Install this release",
    ),
    Broken("workers that see no warehouse", _workers_elsewhere, "Spark's workers", "does not reach", "object store"),
    Broken("no session", _no_session, "Spark's workers", "Java gateway process exited.", "log of its master"),
    Broken("no credentials", _no_credentials, "warehouse", "no credentials of Amazon S3", "Set AWS_ACCESS_KEY_ID"),
    Broken(
        "a store that loses commits",
        _no_conditional_put,
        "atomic commits",
        "its store accepted",
        "a store with conditional writes",
    ),
    Broken("a misspelt setting", _misspelt, "settings", "SFCDC_ENTITES: is not a setting", "SFCDC_ENTITIES?"),
    Broken("half a login", _no_login, "login", "SFCDC_CLIENT_SECRET: needed to log in", "Set it in the environment"),
    Broken(
        "a wrong secret", _wrong_secret, "login", "refused the login by client credentials", "Check SFCDC_CLIENT_ID"
    ),
    Broken("an expired token", _expired_token, "API", "expired or invalid", "SFCDC_ACCESS_TOKEN"),
    Broken("an unknown certificate", _no_certificate, "TLS", "is not trusted", "SFCDC_CA_FILE"),
    Broken("no org at the address", _nobody_there, "TLS", "cannot be reached", "Check SFCDC_INSTANCE_URL"),
    Broken("a proxy that answers", _garbage, "API", "unexpected answer", "no proxy answers in its place"),
    Broken("another org's warehouse", _other_org, "organization", "00D000000000001EAA", "Set SFCDC_WAREHOUSE"),
    Broken("no View All", _no_view_all, "rights on Contact", "neither View All Data", "View All Records on Contact"),
    Broken("no Bulk job", _no_bulk, "rights on Account", "takes no more API requests", "24 hours"),
    Broken("a hidden field", _hidden_field, "rights on Account", ": Phone.", "field-level security", Outcome.WARNING),
    Broken("a wrong entity", _wrong_entity, "SFCDC_ENTITIES", "carries Contcat", "Did you mean Contact?"),
    Broken("no object selected", _nothing_selected, "objects of /data/ChangeEvents", "No object", "Select objects"),
    Broken(
        "no such channel",
        _unknown_channel,
        "stream of /data/AccuontChangeEvent",
        "no channel",
        "Correct SFCDC_CHANNELS",
    ),
    Broken("no Pub/Sub API", _no_pubsub, "stream of /data/ChangeEvents", "did not answer", "SFCDC_PUBSUB_ENDPOINT"),
    Broken("no deliveries left", _no_deliveries, "DailyDeliveredPlatformEvents", "0 of 0 are left", "24 hours"),
    Broken(
        "a file as warehouse", _file_for_a_warehouse, "warehouse", "cannot be written", "a folder or an object store"
    ),
    Broken("an old checkpoint", _old_checkpoint, "checkpoint of /data/ChangeEvents", "80.0 hours old", "sfcdc sync"),
    Broken("a relative DAGSTER_HOME", _relative_home, "Dagster's home", "is a relative path", "Set it to /"),
    Broken("a DAGSTER_HOME that is gone", _no_home, "Dagster's home", "is not a folder", "mkdir -p"),
    Broken(
        "somebody else's DAGSTER_HOME", _home_of_others, "Dagster's home", "cannot be written", "the right to write"
    ),
    Broken("no Bulk jobs left", _no_jobs, "DailyBulkV2QueryJobs", "0 of 10,000 are left", "24 hours"),
    Broken("too few API requests", _few_requests, "DailyApiRequests", "the first start takes about", "24 hours"),
    Broken(
        "unknown allowances", _missing_allowances, "allowances", "does not show them", "View Setup", Outcome.WARNING
    ),
    Broken(
        "an unknown selection",
        _missing_members,
        "objects of /data/ChangeEvents",
        "does not list them",
        "View Setup",
        Outcome.WARNING,
    ),
    Broken(
        "unknown rights",
        _missing_sight,
        "rights on Account",
        "whether the user sees all",
        "View Setup",
        Outcome.WARNING,
    ),
    Broken("a key for all", _key_for_all, "files with secrets", "mode 640", "chmod 600", Outcome.WARNING),
    Broken("a setting in two places", _set_twice, "settings", "from the environment", "keep one", Outcome.WARNING),
    Broken("a secret for all", _secret_for_all, "files with secrets", "mode 644", "chmod 600", Outcome.WARNING),
    Broken("a file for all", _secret_file_for_all, "files with secrets", "mode 604", "chmod 600", Outcome.WARNING),
)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _print_tables() -> None:
    with served_org() as (org, server):
        with tempfile.TemporaryDirectory() as folder, set_up(org, server, Path(folder)) as one:
            print(_row(["check", "", "found"]), "|---|---|---|", sep="\n")
            for each in one.findings():
                print(_row([each.check, each.outcome, each.found]))
        print("\n" + _row(["set-up", "check", "", "found", "fix"]), "|---|---|---|---|---|", sep="\n")
        for broken in SET_UPS:
            with tempfile.TemporaryDirectory() as folder, set_up(org, server, Path(folder)) as one:
                broken.breaks(one)
                for each in one.findings():
                    if each.outcome in (Outcome.FAILED, Outcome.WARNING):
                        print(_row([broken.what, each.check, each.outcome, each.found, each.fix]))


if __name__ == "__main__":
    _print_tables()
