"""One change event's payload in Avro: from its bytes and bitmaps to the event that the pipeline knows."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import fastavro

from sfcdc_assets.change_events.bitmap import field_bits
from sfcdc_assets.change_events.change_event import DecodedEvent
from sfcdc_assets.change_events.change_type import ChangeType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.errors import PayloadError
from sfcdc_assets.change_events.event_cells import EventCells, Update
from sfcdc_assets.change_events.event_schema import (
    HEADER_FIELD,
    SchemaField,
    compile_avro,
    entity_of_schema,
    header_schema,
    parse_event_schema,
    schema_fields,
)
from sfcdc_assets.change_events.header import AVRO_READ_ERRORS, error_text, header_from_values, plain_change_type

_REMEMBERED_UPDATES = 1024
"""Updates of an org repeat a few sets of fields; what each set means is worked out once."""


@lru_cache(maxsize=32)
def _compiled(schema_json: str) -> tuple[str, tuple[SchemaField, ...], Any, tuple[str, ...]]:
    """Return what a schema says of its events, whatever columns are read of them: a process meets the same few in batch
    after batch, and to compile one takes as long as to decode a hundred events."""
    schema = parse_event_schema(schema_json)
    header, symbols = plain_change_type(header_schema(schema))
    body = {**schema, "fields": [{**schema["fields"][0], "type": header}, *schema["fields"][1:]]}
    return entity_of_schema(schema), schema_fields(schema), compile_avro(body), symbols


class EventDecoder:
    """Decodes the Avro payloads of one schema id to the cells of one entity's columns; compiled once, used for many.

    Fields without a column are read and dropped. Not to be pickled: make one where it is used.
    """

    def __init__(self, schema_json: str, columns: Sequence[Column]) -> None:
        """Compile the schema. Raise `EventSchemaError` when `schema_json` is no change event schema."""
        self._entity, self._layout, self._avro_schema, self._symbols = _compiled(schema_json)
        self._cells = EventCells(self._entity, self._layout, columns)
        self._update = lru_cache(maxsize=_REMEMBERED_UPDATES)(self._compile_update)

    def decode(self, payload: bytes) -> DecodedEvent:
        """Return the event and the cells it sets (see `EventCells.event`).

        Raises `PayloadError` for bytes that are cut off, left over or of another schema, `HeaderError`, `BitmapError`.
        """
        source = io.BytesIO(payload)
        try:
            body: Any = fastavro.schemaless_reader(source, self._avro_schema)
        except AVRO_READ_ERRORS as error:
            raise self._error(f"its bytes do not fit the schema ({error_text(error)})") from None
        if source.tell() != len(payload):
            raise self._error(f"{len(payload) - source.tell()} bytes are left over, so this is not the event's schema")
        values = body[HEADER_FIELD]
        header = header_from_values(values, self._symbols)
        update = None
        if header.change_type is ChangeType.UPDATE:
            update = self._update(
                tuple(values["changedFields"]), tuple(values["nulledFields"]), tuple(values["diffFields"])
            )
        return self._cells.event(header, body, update)

    def _compile_update(
        self, changed_fields: tuple[str, ...], nulled_fields: tuple[str, ...], diff_fields: tuple[str, ...]
    ) -> Update:
        bitmaps = (changed_fields, nulled_fields, diff_fields)
        return self._cells.update(*(field_bits(bitmap, self._layout) for bitmap in bitmaps))

    def _error(self, problem: str) -> PayloadError:
        return PayloadError(self._entity, problem)
