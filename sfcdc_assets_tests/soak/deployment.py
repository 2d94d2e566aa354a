"""The services of deploy/compose.yaml on this machine: a Postgres, the code server, the daemon and the webserver, with
their commands, their Dagster instance and their policies.

Two things differ from Compose. Spark is the one that the code server keeps where no cluster is set, below it in its
container; and of the two webservers there is one.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg2
import yaml

from sfcdc_assets_tests.deploy.deployment import BIN, DEPLOY, command, services, write_home
from sfcdc_assets_tests.deploy.postgres import LOOPBACK, PASSWORD, PROGRAMS
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.free_port import free_port
from sfcdc_assets_tests.soak.container import Container

READY_SECONDS = 240.0
_NOBODY = 65534
_AS_NOBODY = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
"""Postgres refuses to run as root."""


class Deployment:
    """Its containers by name, in the order in which they depend on one another."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        """`folder`: for all that they keep; `settings`: those of the code server."""
        self.folder, self.home = folder, write_home(folder / "dagster")
        ports = {name: free_port() for name in ("postgres", "code", "webserver")}
        self.postgres_port = ports["postgres"]
        self._here = {"sfcdc-code": LOOPBACK, "0.0.0.0": LOOPBACK, "4000": str(ports["code"])}
        (folder / "password").write_text(f"{PASSWORD}\n")
        instance = {
            **_without(os.environ),
            "DAGSTER_HOME": str(self.home),
            "DAGSTER_POSTGRES_HOST": LOOPBACK,
            "DAGSTER_POSTGRES_PORT": str(self.postgres_port),
            "DAGSTER_POSTGRES_PASSWORD_FILE": str(folder / "password"),
        }
        self._code_environment = {**instance, **settings}
        workspace = yaml.safe_load((DEPLOY / "workspace.yaml").read_text())
        for each in workspace["load_from"]:
            each["grpc_server"] |= {"host": LOOPBACK, "port": ports["code"]}
        self.containers = {"postgres": self._postgres()}
        for name, environment in {
            "code": self._code_environment,
            "webserver": instance,
            "daemon": instance,
        }.items():
            (folder / name).mkdir()
            (folder / name / "workspace.yaml").write_text(yaml.safe_dump(workspace))
            where = {**self._here, "3000": str(ports["webserver"])}
            self.containers[name] = Container(
                name, command(name, **where), environment, folder / name, grace=_grace_seconds(name)
            )

    @property
    def code(self) -> Container:
        """The code server, with its runs and Spark."""
        return self.containers["code"]

    @contextmanager
    def running(self) -> Iterator[None]:
        """As `docker compose up`: who depends on a service begins when that is healthy."""
        try:
            self.containers["postgres"].start()
            eventually(self._has_database, self.said, seconds=READY_SECONDS)
            self.code.start()
            eventually(self._is_healthy, self.said, seconds=READY_SECONDS)
            for name in ("webserver", "daemon"):
                self.containers[name].start()
            yield
        finally:
            for container in reversed(self.containers.values()):
                container.stop()

    def restart(self) -> None:
        """As `docker compose restart`: each service is stopped and started, in their order; nobody waits until one is
        healthy."""
        for container in self.containers.values():
            container.stop()
            container.start()

    def lose_power(self) -> None:
        """All containers are gone at the same moment, and are started when the machine is there again."""
        for container in self.containers.values():
            container.cut_off()
        for container in self.containers.values():
            container.start()

    def said(self) -> str:
        """The last lines of all."""
        return "\n".join(
            f"--- {name}\n{container.log.read_text(errors='replace')[-2000:]}"
            for name, container in self.containers.items()
            if container.log.exists()
        )

    def _postgres(self) -> Container:
        folder = self.folder / "postgres"
        folder.mkdir()
        as_user = _AS_NOBODY if os.getuid() == 0 else []
        if as_user:
            os.chown(folder, _NOBODY, _NOBODY)
        data = folder / "data"
        made = subprocess.run(
            [
                *as_user,
                *(str(PROGRAMS / "initdb"), "--pgdata", str(data), "--encoding", "UTF8", "--no-locale", "--no-sync"),
                *("--username", "dagster", "--auth", "scram-sha-256", "--pwfile", str(self.folder / "password")),
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise RuntimeError(f"initdb: {made.stderr}")
        listen = ["-p", str(self.postgres_port), "-c", f"listen_addresses={LOOPBACK}", "-c", "unix_socket_directories="]
        server = [*as_user, str(PROGRAMS / "postgres"), "-D", str(data), *listen]
        # SIGINT, as the image says: otherwise it waits until its clients have gone.
        return Container("postgres", server, dict(os.environ), folder, stop_signal=signal.SIGINT)

    def _has_database(self) -> bool:
        try:
            connection = psycopg2.connect(**self.database("postgres"))
        except psycopg2.OperationalError:
            return False
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE dagster")
        connection.close()
        return True

    def database(self, name: str = "dagster") -> dict[str, str]:
        """How a client reaches a database."""
        found = {"host": LOOPBACK, "port": str(self.postgres_port), "user": "dagster", "password": PASSWORD}
        return {**found, "dbname": name}

    def _is_healthy(self) -> bool:
        _, *words = services()["code"]["healthcheck"]["test"]
        asked = [str(BIN / words[0]), *(self._here.get(word, word) for word in words[1:])]
        return subprocess.run(asked, env=self._code_environment, capture_output=True, check=False).returncode == 0


def _grace_seconds(service: str) -> float:
    return float(str(services()[service].get("stop_grace_period", "10s")).removesuffix("s"))


def _without(environment: Mapping[str, str]) -> dict[str, str]:
    """This process's, without settings of the project and of Dagster."""
    return {name: value for name, value in environment.items() if not name.startswith(("SFCDC_", "DAGSTER_"))}
