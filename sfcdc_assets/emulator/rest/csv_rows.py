"""Rows of a CSV file that a client uploads, as records (https://developer.salesforce.com/docs/atlas.en-us.api_asynch.meta/
api_asynch/datafiles_csv_valid_record_rows.htm): an empty value is none, `#N/A` is null, `Account.Key__c` names a parent
by its external id."""

from __future__ import annotations

import csv
import io
from typing import Any

from sfcdc_assets.emulator.errors import ApiError

_NULL = "#N/A"


def read_rows(text: str, delimiter: str) -> tuple[list[str], list[list[str]]]:
    """The header and the rows. Raises ApiError InvalidBatch for what is no such file."""
    try:
        lines = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise ApiError("InvalidBatch", f"Failed to parse CSV: {error}") from None
    if not lines or not any(lines[0]):
        raise ApiError("InvalidBatch", "The CSV has no header row")
    header = [name.strip() for name in lines[0]]
    rows = [line for line in lines[1:] if line]
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            message = f"Row {number} has {len(row)} values, and the header {len(header)}"
            raise ApiError("InvalidBatch", message)
    return header, rows


def record_of(header: list[str], row: list[str]) -> dict[str, Any]:
    """The record of a row, in the form of a REST request."""
    record: dict[str, Any] = {}
    for name, value in zip(header, row, strict=True):
        if value == "":
            continue
        given: str | None = None if value == _NULL else value
        parent, dot, key = name.partition(".")
        record[parent] = {key: given} if dot else given
    return record
