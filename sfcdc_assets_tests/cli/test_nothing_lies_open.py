"""What a whole run leaves lying about, and shows while it is at work: no secret anywhere, values of records in the
tables alone, and nothing that another user of the machine can read."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import Credentials, OrgSettings
from sfcdc_assets.emulator.serving.jwt_key import JWT_KEY_FILE, own_public_key
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.cli.command import console_script
from sfcdc_assets_tests.leaks import files_with, open_to_others, texts_in, watching
from sfcdc_assets_tests.pipeline.failures.killed_sync import QUICK_JVM
from sfcdc_assets_tests.pipeline.oracle import assert_same_rows, expected_rows
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of
from sfcdc_assets_tests.ui.dagster_server import DagsterServer

pytestmark = pytest.mark.slow

ENTITIES = ("Account", "Contact")
SECONDS = 400.0
VALUES = {
    "a name": "Quixley Zambrowitz",
    "an e-mail address": "zambrowitz@quixley.example",
    "a new name": "Zambrowitz & Quixley Ltd",
    "a name of the last minute": "Brzeczyk Holding",
    "a long text": "Kindly call before noon; gate code 7719-Zx.",
    "its new version": "Kindly call before noon; gate code 8820-Qy.",
}


@dataclass
class Place:
    """Where it all happens: a folder that everybody may enter, as a machine's folders are."""

    folder: Path
    org: EmulatedOrg
    server: EmulatorServer
    tokens: list[str] = field(default_factory=list)

    @property
    def work(self) -> Path:
        """The working folder of the commands."""
        return self.folder / "work"

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(str(self.work / "warehouse"))

    @property
    def environment(self) -> dict[str, str]:
        """Settings of the commands, but for the login, and their folders. Java has one of its own for its files."""
        temporary = str(self.folder / "tmp")
        return {
            "HOME": str(self.folder / "home"),
            "TMPDIR": temporary,
            "SFCDC_WAREHOUSE": self.warehouse.root,
            "SFCDC_ENTITIES": ",".join(ENTITIES),
            "SFCDC_SAMPLE_ROWS": "0",
            "SFCDC_SETTLE_SECONDS": "1",
            "SFCDC_VISIBILITY_SECONDS": "0.5",
            "SFCDC_SPARK_MASTER": "local[2]",
            "SFCDC_SPARK_CONF_spark.sql.shuffle.partitions": "2",
            "SFCDC_SPARK_CONF_spark.driver.extraJavaOptions": f"{QUICK_JVM} -Djava.io.tmpdir={temporary}",
        }

    def is_copied(self) -> bool:
        """Contacts have a column that is hashed."""
        found = {entity: rows_of(self.warehouse, f"current_state/{entity}") for entity in ENTITIES}
        try:
            accounts = {row["Id"]: row for row in found["Account"]}
            assert_same_rows("Account", accounts, expected_rows(self.org, "Account"))
        except (AssertionError, KeyError):
            return False
        return {row["Id"] for row in found["Contact"]} == {row["Id"] for row in self.org.records("Contact")}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """An org with secrets of its own; commands write files as most users' do (umask 022)."""
    folder = Path(tempfile.mkdtemp(prefix="sfcdc-open-"))
    folder.chmod(0o755)
    for name, mode in (("home", 0o755), ("work", 0o755), ("tmp", 0o1777)):
        (folder / name).mkdir()
        (folder / name).chmod(mode)
    umask = os.umask(0o022)
    credentials = Credentials(
        client_secret="CS/4f+9a=kz8@Qm",
        password="p@ss w/ord+Vt6'x",
        security_token="SecTokGh7Wq2",
        public_key=own_public_key(tmp_path),
    )
    try:
        with ExitStack() as stack:
            org = EmulatedOrg(tmp_path / "org", seed=7, settings=OrgSettings(credentials=credentials))
            stack.callback(org.close)
            org.selected_entities = list(ENTITIES)
            org.populate({"User": 3, "Account": 20, "Contact": 20})
            server = stack.enter_context(EmulatorServer(org, directory=tmp_path / "served"))
            found = Place(folder, org, server)
            issue = server.sessions.issue

            def issued(user_id: str, lifetime: int | None = None) -> str:
                found.tokens.append(issue(user_id, lifetime))
                return found.tokens[-1]

            monkeypatch.setattr(server.sessions, "issue", issued)
            yield found
    finally:
        os.umask(umask)
        shutil.rmtree(folder, ignore_errors=True)


def test_a_whole_run_shows_no_secret_and_leaves_no_value_where_others_find_it(place: Place, tmp_path: Path) -> None:
    credentials, org = place.org.settings.credentials, place.org
    login = {name: value for name, value in place.server.client_environment().items() if name != "SFCDC_WAREHOUSE"}
    key = (tmp_path / JWT_KEY_FILE).read_text()
    typed, hash_key = "wrong+but/typed in", "a long random text, 5g8h2k"
    secrets = {
        "the client secret": credentials.client_secret,
        "the password": credentials.password,
        "the security token": credentials.security_token,
        "password and token": credentials.password + credentials.security_token,
        "a password that was wrong": typed,
        "the key of the hashes": hash_key,
        **{f"line {number} of the private key": line for number, line in enumerate(key.splitlines()[1:-2])},
    }
    with org.transaction() as work:
        account = work.create("Account", {"Name": VALUES["a name"], "Description": VALUES["a long text"]})
        work.create("Contact", {"LastName": VALUES["a name"], "Email": VALUES["an e-mail address"]})
    of_all = {**place.environment, "SFCDC_HASH": "Contact.Phone", "SFCDC_HASH_KEY": hash_key}
    outputs = []
    with watching(f"TMPDIR={place.folder / 'tmp'}", place.folder) as seen:
        dev = DagsterServer(place.work / "dev", ENTITIES, 0, cwd=place.work, environment={**of_all, **login})
        try:
            dev.wait(place.is_copied, SECONDS, "the copy")
            place.server.faults.arm(Fault.GARBLED_BODY)
            with org.transaction() as work:
                work.update("Account", account, {"Name": VALUES["a new name"]})
            with org.transaction() as work:
                work.update("Account", account, {"Description": VALUES["its new version"]})
            dev.wait(place.is_copied, SECONDS, "the changes, and what could not be read")
        finally:
            dev.stop(signal.SIGINT)
        outputs.append("".join(dev.said))
        common = {**of_all, **login, "SFCDC_CLIENT_SECRET": ""}  # without DAGSTER_HOME, in a temporary one
        logins = {
            "password": {
                "SFCDC_CLIENT_ID": "",
                "SFCDC_USERNAME": credentials.username,
                "SFCDC_PASSWORD": credentials.password,
                "SFCDC_SECURITY_TOKEN": credentials.security_token,
            },
            "assertion": {
                "SFCDC_USERNAME": credentials.username,
                "SFCDC_PRIVATE_KEY_FILE": str(tmp_path / JWT_KEY_FILE),
            },
        }
        with org.transaction() as work:
            work.update("Account", account, {"Name": VALUES["a name of the last minute"]})
        wrong = console_script("sync", **{**common, **logins["password"], "SFCDC_PASSWORD": typed})
        assert wrong.returncode == 1, wrong.stdout
        outputs += [wrong.stdout, wrong.stderr]
        for name, arguments in (("password", ("sync", "--until-caught-up")), ("assertion", ("verify",))):
            done = console_script(*arguments, **{**common, **logins[name]})
            assert done.returncode == 0, done.stderr
            outputs += [done.stdout, done.stderr]
    assert place.is_copied()
    assert place.tokens
    secrets |= {f"token {number}": token for number, token in enumerate(place.tokens)}

    # the search would find what there is
    kept = files_with(VALUES, place.work / "warehouse")
    assert [name for name in VALUES if not any(each.startswith(f"{name} in ") for each in kept)] == []
    for word in ("dagster", "java", "pyspark", "sfcdc"):
        assert any(word in command for command in seen.commands), word

    assert files_with(secrets, place.folder) == []
    outside = (place.folder / "home", place.folder / "tmp", place.work / "dev")
    assert len([each for folder in outside for each in folder.rglob("*") if each.is_file()]) > 10
    assert files_with(VALUES, *outside) == []
    for output in outputs:
        assert texts_in(secrets, output) == []
        assert texts_in(VALUES, output) == []
    assert [command for command in seen.commands if texts_in(secrets, command)] == []
    made = {place.folder / name for name in ("home", "work", "tmp")}
    assert sorted((seen.open | open_to_others(place.folder)) - made) == []
