"""`salesforce-bulk`, the client of the first version of the Bulk API: queries, inserts and upserts in XML and CSV.

Its known faults: it logs in at login.salesforce.com alone, so it is given a session; it reads a batch's results under
`Content-Type: text/csv` to the letter, and answers with None under any other; and it polls every ten seconds unless
another interval is given.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path

import pytest

from sfcdc_assets_tests.peers.pip_client import pip_client
from sfcdc_assets_tests.peers.served_org import served_org

pytestmark = pytest.mark.slow
REQUIREMENT = "salesforce-bulk==2.2.0"
SECONDS = 120


def test_it_reads_and_writes(tmp_path: Path) -> None:
    with served_org(tmp_path / "org", {"User": 1, "Account": 60}) as served:
        truth = {str(record["Id"]): record["Name"] for record in served.org.records("Account")}
        session = {"SESSION_ID": served.server.sessions.issue(served.org.users.integration)}
        command = [str(pip_client(REQUIREMENT) / "python"), str(Path(__file__).with_name("bulk_client.py"))]
        environment = {**served.environment, **session}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(done.stdout)
        assert {row["Id"]: row["Name"] for row in csv.DictReader(io.StringIO(found["read"]))} == truth
        made, refused = found["inserted"]
        assert (made["success"], made["created"], made["error"]) == ("true", "true", "")
        assert refused["error"].startswith("REQUIRED_FIELD_MISSING")
        (upserted,) = found["upserted"]
        records = {str(record["Id"]): record["Name"] for record in served.org.records("Account")}
        assert records == truth | {made["id"]: "Bulk", upserted["id"]: "Upserted"}
        assert found["aborted"] == "Aborted"
