"""A first copy of an object by Bulk API 2.0, beside `simple-salesforce` as its documentation shows it, to Parquet.

https://github.com/simple-salesforce/simple-salesforce#using-bulk-20: `sf.bulk2.<Object>.query` gives pages of CSV;
pandas reads them and writes Parquet.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.org_connection.run_context import no_spark
from sfcdc_assets.org_reads.take_snapshot import ToCopy, take_snapshot
from sfcdc_assets.salesforce.describe import describe
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.benchmarks.client_process import run_client
from sfcdc_assets_tests.benchmarks.served_org import ServedOrg, served_org
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer
from sfcdc_assets_tests.run_contexts import run_on

ENTITY = "Contact"
CHANNEL = "/data/ChangeEvents"
PEER = "simple-salesforce and pandas"
COMPARED = ["Id", "LastName", "Phone", "AccountId"]


def measure(quick: bool) -> Sequence[Figure]:
    """Both clients, each in a process of its own, against an org in another one; then ours with a quarter of it."""
    rows, rounds = (2_000, 1) if quick else (200_000, 3)
    ours, peers, org_rate = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        with served_org(Path(folder) / "org", ENTITY, rows) as org:
            for number in range(rounds):
                copy, parquet = Path(folder) / f"copy{number}", Path(folder) / f"parquet{number}"
                before = org.cpu_seconds()
                ours.append(_client(org, "ours", copy))
                org_rate.append(rows / max(org.cpu_seconds() - before, 0.01))
                peers.append(_client(org, "peer", parquet))
                _compare(copy, parquet, rows)
        with served_org(Path(folder) / "small", ENTITY, rows // 4) as org:
            of_few = [_client(org, "ours", Path(folder) / f"few{number}") for number in range(rounds)]
    few = f"{rows // 4:,} rows"
    return [
        Figure(
            f"{rows:,} rows of 50 columns to tables",
            "CPU s",
            [each["cpu"] for each in ours],
            {PEER: [each["cpu"] for each in peers]},
            Goal(0.1, of=PEER),
        ),
        Figure(
            "peak memory of the client",
            "MB",
            [each["mb"] for each in ours],
            {few: [each["mb"] for each in of_few], PEER: [each["mb"] for each in peers]},
            Goal(1.2, of=few),
        ),
        Figure("the emulated org", "rows/CPU s", org_rate, goal=Goal(30_000, at_least=True)),
    ]


def _client(org: ServedOrg, who: str, target: Path) -> Mapping[str, float]:
    module = "sfcdc_assets_tests.benchmarks.snapshot"
    return run_client(module, who, str(target), settings=org.settings).said[-1]


def _copy(warehouse: Warehouse) -> None:
    with connect(load_settings()) as org:
        take_snapshot(run_on(warehouse, org, no_spark), ToCopy(ENTITY, CHANNEL), lambda _: 0)


def _peer(target: Path) -> Callable[[], None]:
    """As documented; the fields are those that ours asks for."""
    import pandas as pd  # noqa: PLC0415 - what the other contestant imports
    from simple_salesforce import Salesforce  # noqa: PLC0415

    settings = load_settings()
    with connect(settings) as org:
        described = describe(org.session, ENTITY)
        token, version = org.session.token(), org.session.version
    fields = [field.name for field in described.fields if field.type not in ("address", "location")]
    session = requests_session(str(settings.ca_file))
    salesforce = Salesforce(instance_url=settings.instance_url, session_id=token, session=session, version=version)
    target.mkdir()

    def work() -> None:
        for number, page in enumerate(salesforce.bulk2.Contact.query(f"SELECT {', '.join(fields)} FROM {ENTITY}")):
            pd.read_csv(io.StringIO(page)).to_parquet(target / f"{number}.parquet")

    return work


def requests_session(ca_file: str) -> Any:
    """One that trusts the emulated org."""
    import requests  # noqa: PLC0415

    session = requests.Session()
    session.trust_env, session.verify = False, ca_file
    return session


def _compare(copy: Path, parquet: Path, rows: int) -> None:
    """Both have the same records, with the same values in some columns."""
    taken = Snapshots.open(Warehouse(str(copy)), ENTITY)
    assert taken is not None
    mine = taken.table.scan(COMPARED, "_snapshot = 1").sort_by("Id")
    theirs = pa.concat_tables([pq.read_table(file, columns=COMPARED) for file in sorted(parquet.glob("*.parquet"))])
    theirs = theirs.cast(mine.schema).sort_by("Id")
    if mine.num_rows != rows or not mine.equals(theirs.replace_schema_metadata(mine.schema.metadata)):
        raise WrongAnswer(f"{mine.num_rows:,} rows of ours and {theirs.num_rows:,} of the peer, of {rows:,}, differ")


def main() -> None:
    """One client, once: its CPU seconds without imports, and the most memory it had."""
    parser = argparse.ArgumentParser()
    parser.add_argument("who", choices=["ours", "peer"])
    parser.add_argument("target", type=Path)
    given = parser.parse_args()
    work = _peer(given.target) if given.who == "peer" else lambda: _copy(Warehouse(str(given.target)))
    begun, clock = time.process_time(), time.perf_counter()
    work()
    done = {"cpu": time.process_time() - begun, "seconds": time.perf_counter() - clock}
    print(json.dumps({**done, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


STAGE = Stage(
    "Snapshot",
    measure,
    "Ids and three columns of every record with those that the peer's Parquet files have.",
    "TLS, unzipping and reading CSV, which both contestants do in C, and writing Parquet; no work of Python's is left "
    "for each row.",
)

if __name__ == "__main__":
    main()
