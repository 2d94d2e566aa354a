"""The served org: both protocols with one token, restarts, the settings file, the command."""

from __future__ import annotations

import os
import queue
import re
import selectors
import shlex
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import grpc
import pytest
import requests
from dotenv import dotenv_values

from sfcdc_assets.cli.terminal.interruption import Interruption
from sfcdc_assets.emulator.errors import EmulatorDirectoryError, OrgStoppingError
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving import server as server_module
from sfcdc_assets.emulator.serving.client_settings import write_settings_file
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.runtime.errors import PortInUseError, SettingsError
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc
from sfcdc_assets_tests.eventually import BOUND_SECONDS


@pytest.fixture
def org() -> Iterator[EmulatedOrg]:
    org = EmulatedOrg(clock=ManualClock(), seed=6)
    yield org
    org.close()


def token_of(environment: dict[str, str]) -> str:
    answer = requests.post(
        environment["SFCDC_LOGIN_URL"] + "/services/oauth2/token",
        data={
            "grant_type": "client_credentials",
            "client_id": environment["SFCDC_CLIENT_ID"],
            "client_secret": environment["SFCDC_CLIENT_SECRET"],
        },
        verify=environment["SFCDC_CA_FILE"],
        timeout=BOUND_SECONDS,
    )
    answer.raise_for_status()
    return answer.json()["access_token"]


def first_events(environment: dict[str, str], org_id: str, token: str, count: int) -> list[pb.ConsumerEvent]:
    """Events from EARLIEST, over a real channel with the served authority."""
    requested: queue.SimpleQueue[pb.FetchRequest | None] = queue.SimpleQueue()
    requested.put(
        pb.FetchRequest(
            topic_name=environment["SFCDC_CHANNELS"], num_requested=count, replay_preset=pb.ReplayPreset.EARLIEST
        )
    )
    metadata = [("accesstoken", token), ("instanceurl", environment["SFCDC_INSTANCE_URL"]), ("tenantid", org_id)]
    credentials = grpc.ssl_channel_credentials(Path(environment["SFCDC_CA_FILE"]).read_bytes())
    found: list[pb.ConsumerEvent] = []
    with grpc.secure_channel(environment["SFCDC_PUBSUB_ENDPOINT"], credentials) as channel:
        call = pb_grpc.PubSubStub(channel).Subscribe(
            iter(requested.get, None), metadata=metadata, timeout=BOUND_SECONDS
        )
        while len(found) < count:
            found.extend(next(call).events)
        requested.put(None)
        call.cancel()
    return found


def settings_in(file: Path) -> dict[str, str]:
    """The file as a shell reads it."""
    names = re.findall(r"^(\w+)=", file.read_text(), re.MULTILINE)
    script = f"set -a; . {shlex.quote(str(file))}; set +a; " + "; ".join(f'printf "%s\\n" "${name}"' for name in names)
    values = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=True, timeout=BOUND_SECONDS
    ).stdout
    return dict(zip(names, values.splitlines(), strict=True))


def test_a_record_created_by_rest_arrives_as_an_event_with_the_same_token(org: EmulatedOrg, tmp_path: Path) -> None:
    with EmulatorServer(org, directory=tmp_path) as server:
        environment = server.client_environment()
        token = token_of(environment)
        created = requests.post(
            server.rest_url + "/services/data/v59.0/sobjects/Account",
            json={"Name": "Acme"},
            headers={"Authorization": f"Bearer {token}"},
            verify=str(server.ca_file),
            timeout=BOUND_SECONDS,
        )
        assert created.status_code == 201
        (event,) = first_events(environment, org.organization_id, token, 1)
        assert created.json()["id"].encode() in event.event.payload
        assert server.meter.total == 1


def test_a_revoked_token_opens_neither_side(org: EmulatedOrg, tmp_path: Path) -> None:
    with EmulatorServer(org, directory=tmp_path) as server:
        token = token_of(server.client_environment())
        server.sessions.revoke(token)
        with pytest.raises(grpc.RpcError) as raised:
            first_events(server.client_environment(), org.organization_id, token, 1)
        assert raised.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_secrets_are_in_files_only_the_owner_reads(org: EmulatedOrg, tmp_path: Path) -> None:
    with EmulatorServer(org, directory=tmp_path / "an org's folder") as server:
        assert stat.S_IMODE(server.settings_file.stat().st_mode) == 0o600
        assert stat.S_IMODE((server.ca_file.parent / "ca-key.pem").stat().st_mode) == 0o600


@pytest.mark.parametrize("folder", ["org", "a folder", "an org's folder"])
def test_a_shell_and_dotenv_read_the_settings_alike(org: EmulatedOrg, tmp_path: Path, folder: str) -> None:
    with EmulatorServer(org, directory=tmp_path / folder) as server:
        settings = server.client_environment() | server.other_clients_environment()
        assert settings_in(server.settings_file) == settings
        assert dotenv_values(server.settings_file) == settings


def test_whoever_finds_the_settings_finds_the_org_listening(
    org: EmulatedOrg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also at a second start, where the first one's file would name ports that nobody listens on yet."""
    (tmp_path / "org.env").write_text("SFCDC_INSTANCE_URL='https://localhost:1'")
    written: list[Path] = []

    def look(path: Path, settings: Mapping[str, str], other_logins: Mapping[str, str]) -> None:
        assert not path.exists()
        with org.transaction() as one:
            one.create("Account", {"Name": "heard of"})
        assert len(first_events(dict(settings), org.organization_id, token_of(dict(settings)), 1)) == 1
        write_settings_file(path, settings, other_logins)
        written.append(path)

    monkeypatch.setattr(server_module, "write_settings_file", look)
    with EmulatorServer(org, directory=tmp_path) as server:
        assert written == [server.settings_file]
        assert not list(tmp_path.glob("org.env.*")), "it is replaced in one step"


def test_the_settings_name_a_warehouse_of_the_orgs_own(org: EmulatedOrg, tmp_path: Path) -> None:
    with EmulatorServer(org, directory=tmp_path) as server:
        assert settings_in(server.settings_file)["SFCDC_WAREHOUSE"] == str(tmp_path / "warehouse")


def test_a_value_that_shell_and_dotenv_read_differently_is_refused_without_naming_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="SFCDC_CLIENT_SECRET") as raised:
        write_settings_file(tmp_path / "org.env", {"SFCDC_CLIENT_SECRET": "it's $5"})
    assert "it's $5" not in str(raised.value)


def test_the_authority_stays_the_same_over_restarts(org: EmulatedOrg, tmp_path: Path) -> None:
    with EmulatorServer(org, directory=tmp_path) as server:
        authority = server.ca_file.read_bytes()
        address = server.rest_url
    with EmulatorServer(org, directory=tmp_path) as server:
        assert server.ca_file.read_bytes() == authority
    server.start()
    server.stop()
    assert address.startswith("https://localhost:")


def test_a_server_started_again_keeps_its_ports(org: EmulatedOrg, tmp_path: Path) -> None:
    server = EmulatorServer(org, directory=tmp_path)
    with server:
        first = server.client_environment()
    with server:
        assert server.client_environment() == first
        assert token_of(first)


def test_ports_are_kept_from_other_processes_during_an_outage(org: EmulatedOrg, tmp_path: Path) -> None:
    with EmulatorServer(org, directory=tmp_path) as server:
        first = server.client_environment()
        with server.outage():
            for url in (server.rest_url, f"https://{server.pubsub_endpoint}"):
                port = int(url.rpartition(":")[2])
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", port), BOUND_SECONDS)
                with socket.socket() as another, pytest.raises(OSError, match="in use"):
                    another.bind(("127.0.0.1", port))
        assert server.client_environment() == first
        assert token_of(first)


def test_stopping_does_not_wait_for_an_open_connection(org: EmulatedOrg, tmp_path: Path) -> None:
    with requests.Session() as session:
        server = EmulatorServer(org, directory=tmp_path)
        server.start()
        session.get(server.rest_url + "/services/data", verify=str(server.ca_file), timeout=BOUND_SECONDS)
        server.stop()


def test_a_server_that_is_stopped_does_not_wait_for_a_long_query(org: EmulatedOrg, tmp_path: Path) -> None:
    begun, said = threading.Event(), []

    def ask() -> None:
        with org.database.lock:
            begun.set()
            try:
                org.database.rows(
                    "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i FROM n) SELECT COUNT(*) FROM n"
                )
            except OrgStoppingError as error:
                said.append(str(error))

    server = EmulatorServer(org, directory=tmp_path)
    server.start()
    server.traffic.set(20)
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    assert begun.wait(BOUND_SECONDS)
    server.stop()
    asking.join(BOUND_SECONDS)
    assert len(said) == 1


@pytest.mark.parametrize("option", ["rest_port", "pubsub_port"])
def test_a_port_in_use_is_named_and_nothing_is_left_running(org: EmulatedOrg, tmp_path: Path, option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = EmulatorServer(org, directory=tmp_path, **{option: port})
        with pytest.raises(PortInUseError, match=str(port)):
            server.start()
    server.start()
    server.stop()


def test_a_folder_that_cannot_be_made_is_named(org: EmulatedOrg, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmulatorDirectoryError, match="--dir"):
        EmulatorServer(org, directory=tmp_path / "file" / "org")


def test_the_control_resource_shows_deliveries_and_arms_faults(org: EmulatedOrg, tmp_path: Path) -> None:
    with EmulatorServer(org, directory=tmp_path) as server:

        def control(method: str, path: str) -> requests.Response:
            url = f"{server.rest_url}/emulator/{path}"
            return requests.request(method, url, verify=str(server.ca_file), timeout=BOUND_SECONDS)

        assert control("GET", "events").json()["delivered"] == 0
        assert control("POST", "faults/silent_stream?times=2").json() == {"armed": 2}
        assert control("POST", "faults/earthquake").status_code == 400
        assert control("POST", "faults/unavailable?times=0").status_code == 400
        control("DELETE", "faults")
        assert server.faults.armed("silent_stream") == 0


# -- the command


class Command:
    """`sfcdc emulator` as a process of its own; ended by the test that started it."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import typer; from sfcdc_assets.cli.emulator import emulator; typer.run(emulator)",
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def wait_until_served(self) -> None:
        assert self.process.stdout is not None
        said = b""
        with selectors.DefaultSelector() as selector:
            # Bytes from the pipe itself: select knows nothing of lines that a text reader has already buffered.
            selector.register(self.process.stdout, selectors.EVENT_READ)
            deadline = time.monotonic() + BOUND_SECONDS
            while selector.select(max(0.0, deadline - time.monotonic())):
                part = os.read(self.process.stdout.fileno(), 4096)
                said += part
                if b"Stop it" in said:
                    return
                if not part:
                    break
        raise AssertionError(f"the emulator did not say that it serves: {said.decode()}")

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        try:
            output, _ = self.process.communicate(timeout=BOUND_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate(timeout=BOUND_SECONDS)
            raise
        return self.process.returncode, output.decode()


def test_a_signal_that_another_thread_received_ends_the_wait_at_once() -> None:
    with Interruption() as interruption:
        other = threading.Timer(0.05, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM))
        other.start()
        assert interruption.wait(3600)  # pytest ends the test before that
        other.join(BOUND_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_interrupted_and_keeps_its_org(tmp_path: Path, number: int) -> None:
    arguments = ["--dir", str(tmp_path), "--seed", "3", "--records", "5", "--traffic", "100"]
    command = Command(*arguments)
    command.wait_until_served()
    environment = settings_in(tmp_path / "org.env")
    token = token_of(environment)
    org_id = requests.get(
        environment["SFCDC_INSTANCE_URL"] + "/services/oauth2/userinfo",
        headers={"Authorization": f"Bearer {token}"},
        verify=environment["SFCDC_CA_FILE"],
        timeout=BOUND_SECONDS,
    ).json()["organization_id"]
    events = first_events(environment, org_id, token, 3)
    assert command.end(number)[0] == 0

    again = Command(*arguments[:2])
    again.wait_until_served()
    environment = settings_in(tmp_path / "org.env")
    assert first_events(environment, org_id, token_of(environment), 3) == events
    code, output = again.end(number)
    assert (code, "Stopped." in output) == (0, True)
