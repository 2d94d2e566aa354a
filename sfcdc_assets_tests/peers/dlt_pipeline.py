"""A `dlt` pipeline that reads Salesforce as dlt's verified source does: one run, into files of JSON lines.

`dlt init salesforce` fetches the verified source from a Git repository, which a test does not; so this is a pipeline of
our own in the form of dlt's documentation (https://dlthub.com/docs/general-usage/incremental-loading) that sends the
same requests: a SOAP login, describe, the first Bulk API's query in lazy pages, and SOQL where that is switched off.
Settings come in the environment; the first argument is the folder of the files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import dlt
from dlt.destinations import filesystem
from simple_salesforce import Salesforce
from simple_salesforce.exceptions import SalesforceMalformedRequest

FULL = ("User", "Contact", "Campaign")
INCREMENTAL = {"Account": "LastModifiedDate", "Opportunity": "SystemModstamp"}


def pages(client: Salesforce, entity: str, soql: str) -> Iterator[list[dict[str, Any]]]:
    """Pages of records; moments are epoch milliseconds by the Bulk API, and text by SOQL."""
    try:
        yield from getattr(client.bulk, entity).query_all(soql, lazy_operation=True)
    except SalesforceMalformedRequest as error:
        if "Async API not enabled" not in str(error):
            raise
        page = client.query(soql)
        yield page["records"]
        while not page["done"]:
            page = client.query_more(page["nextRecordsUrl"], identifier_is_url=True)
            yield page["records"]


def moment(value: int | str | None) -> str | None:
    """As text with microseconds, which is what goes into the next run's WHERE."""
    if value is None:
        return None
    known = datetime.fromtimestamp(value / 1000, UTC) if isinstance(value, int) else datetime.fromisoformat(value)
    return known.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def records(client: Salesforce, entity: str, key: str = "", after: str | None = None) -> Iterator[dict[str, Any]]:
    """All fields but compounds of an object's records, of those that changed `after` only."""
    fields = getattr(client, entity).describe()["fields"]
    compounds = {field["compoundFieldName"] for field in fields} - {"Name"}
    names = [field["name"] for field in fields if field["name"] not in compounds]
    moments = [field["name"] for field in fields if field["type"] == "datetime"]
    soql = f"SELECT {', '.join(names)} FROM {entity}"
    soql += f" WHERE {key} > {after}" if after else ""
    soql += f" ORDER BY {key} ASC" if key else ""
    for page in pages(client, entity, soql):
        for record in page:
            yield {name: moment(record[name]) if name in moments else record[name] for name in names}


@dlt.source(name="salesforce")
def salesforce(username: str, password: str, security_token: str) -> Any:
    client = Salesforce(username=username, password=password, security_token=security_token)

    def changed(entity: str, key: str) -> Any:
        start = dlt.sources.incremental(key, initial_value=None)

        def rows(latest: Any = start) -> Iterator[dict[str, Any]]:
            yield from records(client, entity, key, latest.last_value)

        return dlt.resource(rows, name=entity, write_disposition="merge", primary_key="Id")

    for entity in FULL:
        yield dlt.resource(records(client, entity), name=entity, write_disposition="replace")
    for entity, key in INCREMENTAL.items():
        yield changed(entity, key)


if __name__ == "__main__":
    source = salesforce(
        os.environ["SALESFORCE_USERNAME"], os.environ["SALESFORCE_PASSWORD"], os.environ["SALESFORCE_SECURITY_TOKEN"]
    )
    pipeline = dlt.pipeline("salesforce", destination=filesystem(bucket_url=sys.argv[1]), dataset_name="crm")
    print(pipeline.run(source, loader_file_format="jsonl"))
