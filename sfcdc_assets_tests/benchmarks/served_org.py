"""An emulated org in a process of its own: `python -m sfcdc_assets_tests.benchmarks.served_org FOLDER OBJECT RECORDS`.

What it costs is not its client's. Prints the client's settings as JSON when it serves, then for each line of its
standard input how many pages of Bulk results it was asked for so far, and ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.rest.api_usage import ApiUsage
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.documentation import ROOT


@dataclass(frozen=True)
class ServedOrg:
    """The settings of a client, and the process's id. `ask`: writes it a line, and returns the one it answers; of a
    process that does not, an empty one."""

    settings: dict[str, str]
    process: int
    ask: Callable[[], str] = str

    def pages_read(self) -> int:
        """Pages of Bulk results that it was asked for until now, by whomever."""
        return int(self.ask())

    def cpu_seconds(self) -> float:
        """Of the org's process until now."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served_org(folder: Path, entity: str, records: int) -> Iterator[ServedOrg]:
    """One with so many records of one object."""
    command = [sys.executable, "-W", "ignore", "-m", __name__, str(folder), entity, str(records)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as child:
        to_child, from_child = child.stdin, child.stdout
        assert to_child is not None
        assert from_child is not None

        def ask() -> str:
            to_child.write("\n")
            to_child.flush()
            return from_child.readline()

        try:
            yield ServedOrg(json.loads(from_child.readline()), child.pid, ask)
        finally:
            to_child.close()


def main() -> None:
    """Serve."""
    folder, entity, records = sys.argv[1:]
    org = EmulatedOrg(Path(folder), seed=7)
    org.populate({entity: int(records)})
    with EmulatorServer(org, directory=Path(folder)) as server:
        print(json.dumps(server.client_environment()), flush=True)
        usage = ApiUsage(org)
        for _ in sys.stdin:
            print(usage.used("bulk_query_page"), flush=True)
    org.close()


if __name__ == "__main__":
    main()
