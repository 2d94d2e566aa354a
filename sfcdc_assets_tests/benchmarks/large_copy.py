"""A first copy of 8 million rows of 50 columns, killed half-way and gone on with, and the comparison of all of it with
the org, beside the least that can be done: the same Bulk pages read and written by pyarrow, and a join in DuckDB.

The org is the emulated one, in a process of its own; each contestant is a process too, and what it costs is counted
from its start. The copies are an hour's work of the org's, so there is one of each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import requests

from sfcdc_assets_tests.benchmarks.client_process import ClientRun, run_client
from sfcdc_assets_tests.benchmarks.large_copy_clients import ENTITY
from sfcdc_assets_tests.benchmarks.served_org import ServedOrg, served_org
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer

ARROW, DUCKDB, QUERIES = "pyarrow alone", "pyarrow and a join in DuckDB", "queries and a join in DuckDB"
PAGE = 25_000
CHANGED = 1_000
"""Records that differ, when the table is compared with the org: the last ones."""
CHANGED_FIRST = 10
"""And the first ones, at which a day of the rolling audit begins; it keeps 200 suspicions at most, one a field."""
A_REQUEST = 200
_CLIENTS = "sfcdc_assets_tests.benchmarks.large_copy_clients"


def measure(quick: bool) -> Sequence[Figure]:
    """Copy, make the tables, change some records, compare."""
    rows, changed = (3 * PAGE, 10) if quick else (8_000_000, CHANGED)
    with tempfile.TemporaryDirectory() as name, served_org(Path(name) / "org", ENTITY, rows) as org:
        contestants = _Contestants(org, Path(name))
        read_before = org.pages_read()
        begun = contestants.run("copy", kill_after=rows // PAGE // 2)
        ended = contestants.run("copy")
        read = org.pages_read() - read_before
        least = contestants.run("arrow")
        built = contestants.run("tables")
        if built.said[-1]["rows"] != rows:
            raise WrongAnswer(f"{built.said[-1]['rows']:,} rows in the table, of {rows:,}")
        first, last = _change(org, "ASC", CHANGED_FIRST), _change(org, "DESC", changed)
        audit, of_queries = contestants.run("audit"), contestants.run("join_windows")
        compared, joined = contestants.run("verify"), contestants.run("join")
    _compare(rows, first | last, {"verify": compared, DUCKDB: joined})
    _compare(of_queries.said[-1]["compared"], first, {"the audit": audit, QUERIES: of_queries})
    again = read_again(read, [line["pages"] for line in ended.said if "pages" in line][-1])
    of = f"{rows:,} rows"
    return [
        Figure(
            f"a copy of {of} of 50 columns", "CPU s", [begun.cpu + ended.cpu], {ARROW: [least.cpu]}, Goal(1.3, of=ARROW)
        ),
        Figure(f"a copy of {of} of 50 columns", "s", [begun.seconds + ended.seconds], {ARROW: [least.seconds]}),
        Figure("the most memory of it", "MB", [max(begun.mb, ended.mb)], {ARROW: [least.mb]}, Goal(700)),
        Figure("pages read twice, after a kill half-way", "", [float(again)], goal=Goal(1)),
        Figure("its end, predicted at a quarter of what was left, is off by", "%", [_off(ended)], goal=Goal(20)),
        Figure(f"tables of {of}", "s", [built.seconds]),
        Figure(f"`verify` of {of}", "CPU s", [compared.cpu], {DUCKDB: [joined.cpu]}, Goal(1.2, of=DUCKDB)),
        Figure("the most memory of it", "MB", [compared.mb], {DUCKDB: [joined.mb]}),
        Figure(
            f"a day of the rolling audit, {audit.said[-1]['compared']:,} records",
            "CPU s",
            [audit.cpu],
            {QUERIES: [of_queries.cpu]},
            Goal(1.2, of=QUERIES),
        ),
    ]


class _Contestants:
    def __init__(self, org: ServedOrg, folder: Path) -> None:
        self._org, self._folder = org, folder

    def run(self, who: str, kill_after: int | None = None) -> ClientRun:
        warehouse, parquet = self._folder / "warehouse", self._folder / "parquet"
        return run_client(
            _CLIENTS, who, str(warehouse), str(parquet), settings=self._org.settings, kill_after=kill_after
        )


def read_again(read: int, pages: int) -> int:
    """How many pages the org was asked for more than once, when it was asked `read` times for `pages`. Raises
    `WrongAnswer` for more than one, the one that was on its way when the process was killed, and for less than all."""
    if not pages <= read <= pages + 1:
        raise WrongAnswer(f"the org was asked for {read:,} pages of {pages:,}: a kill may cost one")
    return read - pages


def _change(org: ServedOrg, order: str, count: int) -> set[str]:
    """Change so many records by REST, the first in this order of Ids; their Ids."""
    settings = org.settings
    url = settings["SFCDC_INSTANCE_URL"]
    with requests.Session() as http:
        http.trust_env, http.verify = False, settings["SFCDC_CA_FILE"]
        login = {name: settings[f"SFCDC_{name.upper()}"] for name in ("client_id", "client_secret")}
        answer = http.post(f"{url}/services/oauth2/token", data={"grant_type": "client_credentials", **login})
        http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        data = f"{url}/services/data/v65.0"
        found = _json(
            http.get(f"{data}/query", params={"q": f"SELECT Id FROM {ENTITY} ORDER BY Id {order} LIMIT {count}"})
        )
        ids = [record["Id"] for record in found["records"]]
        for start in range(0, len(ids), A_REQUEST):
            records = [
                {"attributes": {"type": ENTITY}, "Id": each, "LastName": f"Changed {each}"}
                for each in ids[start : start + A_REQUEST]
            ]
            results = _json(http.patch(f"{data}/composite/sobjects", json={"allOrNone": True, "records": records}))
            if not all(result["success"] for result in results):
                raise WrongAnswer(f"not all records were changed: {results[0]}")
    return set(ids)


def _json(answer: requests.Response) -> Any:
    if not answer.ok:
        raise WrongAnswer(f"{answer.url}: {answer.status_code} {answer.text[:500]}")
    return answer.json()


def _compare(rows: int, changed: set[str], runs: Mapping[str, ClientRun]) -> None:
    """Each looked at so many records, and found those that had changed, and no others."""
    for who, run in runs.items():
        found = run.said[-1]
        if found["compared"] != rows or set(found["different"]) != changed:
            raise WrongAnswer(
                f"{who} compared {found['compared']:,} of {rows:,} records and found {len(found['different']):,} of "
                f"{len(changed):,} differences"
            )


def _off(run: ClientRun) -> float:
    """By how much the time that was left, as the progress on the terminal works it out at a quarter of the pages of a
    process, was wrong; percent of the time that it took from there."""
    pages = [line for line in run.said if "pages" in line]
    first, then, last = pages[0], pages[len(pages) // 4], pages[-1]
    if then is first:
        return 0.0
    rate = (then["rows"] - first["rows"]) / (then["at"] - first["at"])
    predicted, took = (then["expected"] - then["rows"]) / rate, last["at"] - then["at"]
    return abs(predicted - took) / took * 100


STAGE = Stage(
    "A first copy and a comparison of a large object",
    measure,
    "The table with the Parquet files that pyarrow wrote, by DuckDB, in every column that both have in one form; "
    "all comparisons found the records that were changed between, and no others; the org counted the pages.",
    "Reading CSV and writing Parquet, in C for both contestants.",
)
