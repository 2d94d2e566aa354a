"""A change event as the pipeline knows it, whatever it was written in: its header, and the cells it sets.

Avro's decoder (`decode`) makes it from bytes and bitmaps. Nothing after it knows of either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.change_events.change_type import ChangeType
from sfcdc_assets.change_events.errors import HeaderError
from sfcdc_assets.change_events.type_conversion import CellValue
from sfcdc_assets.salesforce.api_name import is_api_name
from sfcdc_assets.salesforce.record_id import may_be_named, to_18_characters

Cell = tuple[int, CellValue]
"""A column's index and its value; None is an explicit null."""

END_OF_TIME_MS = 253_402_300_800_000
"""The year 10000: a later commit timestamp comes from broken bytes and would not fit a table's timestamp."""


@dataclass(frozen=True, slots=True)
class ChangeEventHeader:
    """What the header says of the change, under Salesforce's names in snake_case; `commit_timestamp` is epoch ms UTC.

    Which fields the event changed is in the header too. Each form of payload has its own way to say it, so its decoder
    reads it, and what it comes to is the event's cells.
    """

    entity_name: str
    record_ids: tuple[str, ...]
    change_type: ChangeType
    change_origin: str
    transaction_key: str
    sequence_number: int
    commit_timestamp: int
    commit_number: int
    commit_user: str

    @property
    def is_gap(self) -> bool:
        """Whether this is a gap or overflow event: no field values, the records have to be read back."""
        return self.change_type.is_gap


@dataclass(frozen=True, slots=True)
class DecodedEvent:
    """One event: its header, the cells it sets (each column at most once), which of them hold a diff, its enriched
    values."""

    header: ChangeEventHeader
    cells: list[Cell]
    diff_columns: frozenset[int]
    """Columns whose cell is not the value but a diff to the value before (large text)."""
    missing: str | None = None
    """What the event changed without telling the value, in words; only reading the record back does."""
    unproven: frozenset[int] = frozenset()
    """Columns whose values are not known after the event, because of what is `missing`."""
    enriched: Sequence[Cell] = ()
    """Columns that the event did not change, and what it says is in them (see `enriched`). Never null, never a diff."""


def header_of(values: Mapping[str, Any], change_type: str) -> ChangeEventHeader:
    """Return the header from its fields under Salesforce's own names, all of them present. Raises `HeaderError`."""
    if not 0 <= values["commitTimestamp"] < END_OF_TIME_MS or not -(2**31) <= values["sequenceNumber"] < 2**31:
        raise HeaderError(
            f"commitTimestamp {values['commitTimestamp']} or sequenceNumber {values['sequenceNumber']} is no such thing"
        )
    if not is_api_name(values["entityName"]):
        # It would become a folder and a part of addresses. It is not quoted: a stranger may have written it.
        raise HeaderError("its entityName is not the API name of an object")
    if not values["recordIds"] or not all(map(may_be_named, values["recordIds"])):
        raise HeaderError("its recordIds name no record, or not by an id")
    return ChangeEventHeader(
        values["entityName"],
        tuple(map(to_18_characters, values["recordIds"])),
        ChangeType.of_symbol(change_type),
        values["changeOrigin"],
        values["transactionKey"],
        values["sequenceNumber"],
        values["commitTimestamp"],
        values["commitNumber"],
        values["commitUser"],
    )
