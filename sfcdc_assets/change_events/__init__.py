"""Change events: from the bytes of a transport to headers, columns and cells.

Guarantees: what a payload does not say is not made up (an unchanged field is never a null), a wrong schema is noticed
(bits beyond it, bytes left over), and one bad event raises one `ChangeEventError`.
"""

from __future__ import annotations

from sfcdc_assets.change_events.bitmap import decode_field_bitmap
from sfcdc_assets.change_events.change_event import ChangeEventHeader, DecodedEvent
from sfcdc_assets.change_events.change_type import ChangeType
from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column, arrow_schema, columns, columns_of_arrow_schema
from sfcdc_assets.change_events.decode import EventDecoder
from sfcdc_assets.change_events.errors import (
    BitmapError,
    ChangeEventError,
    EventSchemaError,
    HeaderError,
    PayloadError,
)
from sfcdc_assets.change_events.header import read_header

__all__ = [
    "BitmapError",
    "ChangeEventError",
    "ChangeEventHeader",
    "ChangeType",
    "Column",
    "ColumnType",
    "DecodedEvent",
    "EventDecoder",
    "EventSchemaError",
    "HeaderError",
    "PayloadError",
    "arrow_schema",
    "columns",
    "columns_of_arrow_schema",
    "decode_field_bitmap",
    "read_header",
]
