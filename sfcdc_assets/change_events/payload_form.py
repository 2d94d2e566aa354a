"""In which form a payload is written, and what landing and decoding ask of a form.

A payload shows its form by its first byte, so no table has to say it and no transport is asked: Avro is what Pub/Sub
sends, JSON what CometD sends, and one channel may have brought both. A change event in Avro begins with the length of
the entity's name, a zig-zag number, which is even for any length. The first byte of JSON, `{`, is odd.

In every form an event names a schema, which is the same for all of them: `schema_json` as the org gives it for that id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfcdc_assets.change_events.batch.decoder import DecodedBatch, batch_decoder
from sfcdc_assets.change_events.batch.header_columns import header_columns
from sfcdc_assets.change_events.change_event import ChangeEventHeader, DecodedEvent
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.decode import EventDecoder
from sfcdc_assets.change_events.header import read_header
from sfcdc_assets.change_events.json_event import JsonEventDecoder, read_json_header


class Decoder(Protocol):
    """Decodes the payloads of one form and schema to the cells of one entity's columns."""

    def decode(self, payload: bytes) -> DecodedEvent:
        """Return the event. Raises `ChangeEventError`."""


class ManyHeaders(Protocol):
    """Reads the headers of many payloads of one form and schema at once."""

    def read(self, payloads: pa.Array) -> tuple[npt.NDArray[np.bool_], pa.Table]:
        """Return which of the payloads were taken, and `HEADER_COLUMNS` of these. The others are left to
        `read_header`."""


class ManyDecoder(Protocol):
    """Decodes many payloads of one form and schema at once."""

    def decode(self, payloads: pa.Array) -> DecodedBatch:
        """Decode those that were taken, as their `Decoder` would; the others are left to it."""


@dataclass(frozen=True)
class PayloadForm:
    """One way to write a change event."""

    name: str
    read_header: Callable[[bytes, Mapping[str, Any] | None], ChangeEventHeader]
    """The header alone, from a payload and its schema if that is known: a broken body does not matter to it. Raises
    `HeaderError`."""
    decoder: Callable[[str, Sequence[Column]], Decoder]
    """A decoder for a schema's JSON and the columns. Raises `EventSchemaError`."""
    many_headers: Callable[[Mapping[str, Any] | None], ManyHeaders | None] = lambda _: None
    """Reads the headers of many payloads with a schema at once, where that can be done. A form needs no such thing.
    Raises `EventSchemaError`."""
    many_decoder: Callable[[str, Sequence[Column]], ManyDecoder | None] = lambda _, __: None
    """Decodes many payloads at once, where that can be done for the schema. A form needs no such thing."""
    shows_kinds: bool = False
    """Whether a time of day is written otherwise than a date or a moment, and one in place of another is refused."""


AVRO = PayloadForm("Avro", read_header, EventDecoder, header_columns, batch_decoder)
JSON = PayloadForm("JSON", read_json_header, JsonEventDecoder, shows_kinds=True)

BY_FIRST_BYTE: dict[bytes, PayloadForm] = {b"{": JSON}
"""The forms besides Avro, each under the odd byte that its payloads begin with."""


def form_of(payload: bytes) -> PayloadForm:
    """Return the form of a payload, damaged ones included: what is not known by its first byte is read as Avro."""
    return BY_FIRST_BYTE.get(payload[:1], AVRO)


def form_named(name: str) -> PayloadForm:
    """Return the form of a name."""
    return next((form for form in BY_FIRST_BYTE.values() if form.name == name), AVRO)


def header_of_payload(payload: bytes, schema: Mapping[str, Any] | None = None) -> ChangeEventHeader:
    """Return the header of an event in any form; `schema` is the event's, if it is known. Raises `HeaderError`."""
    return form_of(payload).read_header(payload, schema)
