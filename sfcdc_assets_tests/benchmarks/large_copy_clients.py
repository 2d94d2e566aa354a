"""What `large_copy` runs, each in a process of its own: `python -m ... WHO WAREHOUSE PARQUET`. Prints JSON, a line for
each page or for each result."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import requests
from deltalake import DeltaTable

from sfcdc_assets.apply.apply_changes import ToApply, apply_entity
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.rolling_audits import RollingAudits
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.org_connection.run_context import no_spark
from sfcdc_assets.org_reads.take_snapshot import SnapshotListener, ToCopy, take_snapshot
from sfcdc_assets.reconciliation.rolling_audit import look
from sfcdc_assets.reconciliation.verify import verify_entity
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.describe import describe
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.snapshot.pages import MOST_ROWS_PER_PAGE
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.spark.session import spark_session
from sfcdc_assets_tests.run_contexts import run_on

ENTITY, CHANNEL = "Contact", "/data/ChangeEvents"
AUDITED = 150
"""Requests a day of the rolling audit in the smallest org, at one percent: `SFCDC_AUDIT_PERCENT`."""
LOOKS = AUDITED // 4
_ARROW = {
    "boolean": pa.bool_(),
    "currency": pa.float64(),
    "double": pa.float64(),
    "percent": pa.float64(),
    "int": pa.float64(),
    "datetime": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
}
"""Types of a describe as pyarrow reads them in CSV; all others are texts."""


class _Pages(SnapshotListener):
    def paged(self, progress: SnapshotProgress) -> None:
        rows = {"rows": progress.rows_done, "expected": progress.rows_expected, "at": time.time()}
        print(json.dumps({"pages": progress.pages_done, **rows}), flush=True)


def copy(warehouse: Path, _parquet: Path) -> None:
    """Copy it as the pipeline does; goes on where a killed process stopped."""
    with connect(load_settings()) as org:
        run = run_on(Warehouse(str(warehouse)), org, no_spark)
        report = take_snapshot(run, ToCopy(ENTITY, CHANNEL), lambda _: 0, _Pages())
    print(json.dumps({"calls": report.calls, "resumed": report.resumed}))


def tables(warehouse: Path, _parquet: Path) -> None:
    """Make the tables of what was copied."""
    spark, at = spark_session(load_settings()), Warehouse(str(warehouse))
    try:
        apply_entity(run_on(at, spark=lambda: spark), ToApply(ENTITY, CHANNEL))
    finally:
        spark.stop()
    made = CurrentState.open(at, ENTITY)
    print(json.dumps({"rows": made.table.count() if made else 0}))


class _Nobody:
    def land(self, channel: str, *, entity: str) -> None:
        """No event comes: what the org changes meanwhile is a difference."""


def verify(warehouse: Path, _parquet: Path) -> None:
    """Compare all of it with the org, as `sfcdc verify` does before it looks again at what changed meanwhile."""
    with connect(load_settings()) as org:
        report = verify_entity(run_on(Warehouse(str(warehouse)), org, no_spark), _Nobody(), ENTITY, CHANNEL)
    different = sorted({each.record_id for each in report.differences})
    print(json.dumps({"compared": report.compared, "different": different, "calls": report.calls}))


def audit(warehouse: Path, _parquet: Path) -> None:
    """Make the looks of a day, each a run's, and none of which finds out whether a suspicion is a difference."""
    at, compared = Warehouse(str(warehouse)), 0
    landed_until = {CHANNEL: clock.now_ms()}
    with connect(load_settings()) as org:
        # As far apart as in a day they would take one: the hour's share is no bound here.
        run = run_on(at, org, no_spark, audit_percent=100.0)
        for _ in range(LOOKS):
            compared += look(run, {ENTITY: CHANNEL}, {}, landed_until).compared.get(ENTITY, 0)
    suspected = _suspected(at)
    # They lie in what the first look is about, and each of the others looks at them once more.
    compared -= len(suspected) * (LOOKS - 1)
    print(json.dumps({"compared": compared, "different": sorted(suspected)}))


def _suspected(warehouse: Warehouse) -> set[str]:
    found = RollingAudits(warehouse).looks().get(ENTITY)
    return {each.record_id for each in found.suspicions} if found else set()


def arrow(_warehouse: Path, parquet: Path) -> None:
    """Do the least that can be done with the same pages: each read by pyarrow and written to a Parquet file."""
    parquet.mkdir(exist_ok=True)
    with _bulk() as (http, url, described):
        for number, body in enumerate(_bulk_pages(http, url, described)):
            pq.write_table(_read_csv(body, described), parquet / f"{number:05}.parquet", compression="zstd")


def join(warehouse: Path, parquet: Path) -> None:
    """Read both sides and join them in DuckDB: the pages as they are now, and the table's files."""
    arrow(warehouse, parquet)
    pages = duckdb.sql(f"SELECT * FROM read_parquet('{parquet}/*.parquet') WHERE NOT IsDeleted")
    print(json.dumps(_joined(warehouse, pages)))


def join_windows(warehouse: Path, _parquet: Path) -> None:
    """Do the same of the records that the looks of the day before this were about, which queries read."""
    before = RollingAudits(Warehouse(str(warehouse))).looks()[ENTITY].up_to_id
    where = f"Id < '{before}'" if before else "Id != ''"
    with _bulk() as (http, url, described):
        fields = ", ".join(_fields(described))
        found: list[dict[str, Any]] = []
        path: str | None = f"{url}/query"
        params: dict[str, str] | None = {"q": f"SELECT {fields} FROM {ENTITY} WHERE {where} ORDER BY Id"}
        while path is not None:
            answer = http.get(path, params=params).json()
            found += answer["records"]
            path = f"{url.partition('/services')[0]}{answer['nextRecordsUrl']}" if not answer["done"] else None
            params = None
    text = pa.schema([(name, pa.string()) for name in _fields(described)])
    rows = [{name: _text(row.get(name)) for name in text.names} for row in found]
    pages = duckdb.from_arrow(pa.Table.from_pylist(rows, schema=text))
    print(json.dumps(_joined(warehouse, pages, where, as_text=True)))


def _joined(warehouse: Path, pages: duckdb.DuckDBPyRelation, where: str = "true", *, as_text: bool = False) -> Any:
    """Ids that only one side has, or of which a column differs that both have in one form; and how many rows of the org
    were compared. `as_text`: only texts, whose form is the same in JSON."""
    table = DeltaTable(str(warehouse / "current_state" / ENTITY))
    ours = duckdb.sql(f"SELECT * FROM read_parquet({table.file_uris()}) WHERE NOT _is_deleted AND {where}")
    theirs = dict(zip(pages.columns, pages.types, strict=True))
    both = [
        name
        for name, kind in zip(ours.columns, ours.types, strict=True)
        if name != "Id" and name in theirs and (kind == "VARCHAR" if as_text else str(kind) == str(theirs[name]))
    ]
    differs = " OR ".join(f'o."{name}" IS DISTINCT FROM p."{name}"' for name in both)
    wrong = duckdb.sql(
        f"SELECT coalesce(o.Id, p.Id) FROM ours o FULL JOIN pages p ON o.Id = p.Id "
        f"WHERE o.Id IS NULL OR p.Id IS NULL OR {differs}"
    ).fetchall()
    count = pages.aggregate("count(*)").fetchall()[0][0]
    return {"compared": count, "columns": len(both), "different": sorted(each for (each,) in wrong)}


@contextmanager
def _bulk() -> Iterator[tuple[requests.Session, str, ObjectDescription]]:
    """Yield a connection that is logged in, the address of the REST API, and the object's describe."""
    settings = load_settings()
    with connect(settings) as org:
        described, token = describe(org.session, ENTITY), org.session.token()
        url = f"{settings.instance_url}/services/data/v{org.session.version}"
    with requests.Session() as http:
        http.trust_env, http.verify = False, str(settings.ca_file)
        http.headers.update({"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"})
        yield http, url, described


def _bulk_pages(http: requests.Session, url: str, described: ObjectDescription) -> Iterator[bytes]:
    soql = f"SELECT {', '.join(_fields(described))} FROM {ENTITY}"
    job = http.post(f"{url}/jobs/query", json={"operation": "queryAll", "query": soql}).json()["id"]
    while http.get(f"{url}/jobs/query/{job}").json()["state"] != "JobComplete":
        time.sleep(0.2)
    locator: str | None = None
    while locator != "null":
        params = {"maxRecords": str(MOST_ROWS_PER_PAGE)} | ({"locator": locator} if locator else {})
        answer = http.get(f"{url}/jobs/query/{job}/results", params=params)
        locator = answer.headers["Sforce-Locator"]
        yield answer.content


def _fields(described: ObjectDescription) -> list[str]:
    return [field.name for field in described.fields if field.type not in ("address", "location")]


def _read_csv(body: bytes, described: ObjectDescription) -> pa.Table:
    types = {field.name: _ARROW.get(field.type, pa.string()) for field in described.fields}
    return arrow_csv.read_csv(
        pa.BufferReader(body),
        # Where it cuts a page, pyarrow may lose half of a value's line break (apache/arrow#51368).
        read_options=arrow_csv.ReadOptions(block_size=len(body), use_threads=False),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=True
        ),
    )


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


WORK: dict[str, Callable[[Path, Path], None]] = {
    each.__name__: each for each in (copy, tables, verify, audit, arrow, join, join_windows)
}


def main() -> None:
    """Do one of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("who", choices=WORK)
    parser.add_argument("warehouse", type=Path)
    parser.add_argument("parquet", type=Path)
    given = parser.parse_args()
    WORK[given.who](given.warehouse, given.parquet)


if __name__ == "__main__":
    main()
