"""The headers at the front of many payloads (see `change_events.header` for one)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from sfcdc_assets.change_events.batch.payload_bytes import Flags, Places
from sfcdc_assets.change_events.batch.payload_cursors import Reading, Texts
from sfcdc_assets.change_events.batch.slots import NotReadInBatches
from sfcdc_assets.change_events.change_event import END_OF_TIME_MS
from sfcdc_assets.change_events.header import plain_change_type
from sfcdc_assets.salesforce.api_name import API_NAME
from sfcdc_assets.salesforce.record_id import NAMED

SHORT_ID = 15
"""Bytes of an id that has a longer form."""

_TEXTS = {"type": "array", "items": "string"}


@dataclass(frozen=True)
class Headers:
    """What the headers say, by the fields' names. Of payloads that were given up it means nothing."""

    numbers: Mapping[str, Places]
    text: Mapping[str, tuple[Places, Places]]
    """Starts and sizes."""
    texts: Mapping[str, Texts]


class HeaderReader:
    """Reads the headers of one schema."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        """`record`: the header's schema. Raises `EventSchemaError` and `NotReadInBatches`."""
        plain, self.symbols = plain_change_type(record)
        self._fields = [(field["name"], field["type"]) for field in plain["fields"]]
        for name, avro_type in self._fields:
            if avro_type not in ("string", "int", "long", _TEXTS):
                raise NotReadInBatches(f"the header's {name} is a {avro_type}")

    def read(self, reading: Reading) -> Headers:
        """Read on from the payloads' beginning to their bodies."""
        numbers, text, texts = {}, {}, {}
        for name, avro_type in self._fields:
            if avro_type == "string":
                text[name] = reading.text()
            elif avro_type == _TEXTS:
                texts[name] = reading.texts()
            else:
                numbers[name] = reading.long()
        kind, sequence, time = (numbers[name] for name in ("changeType", "sequenceNumber", "commitTimestamp"))
        bad = (kind < 0) | (kind >= len(self.symbols)) | (sequence < -(2**31)) | (sequence >= 2**31)
        bad |= (time < 0) | (time >= END_OF_TIME_MS)
        ids = texts["recordIds"]
        bad |= np.bincount(ids.rows, minlength=len(bad)) == 0
        bad[ids.rows[ids.sizes == SHORT_ID]] = True
        if bad.any():
            reading.give_up(bad)
        reading.not_past_the_end()
        rows = np.flatnonzero(reading.ok)
        self._give_up_others(reading, API_NAME, rows, *(places[rows] for places in text["entityName"]))
        left = reading.ok[ids.rows]
        self._give_up_others(reading, NAMED, ids.rows[left], ids.starts[left], ids.sizes[left])
        return Headers(numbers, text, texts)

    @staticmethod
    def _give_up_others(reading: Reading, form: str, rows: Places, starts: Places, sizes: Places) -> None:
        """Give up the payloads that have a text of another form among these."""
        has_form = pc.match_substring_regex(reading.source.slices(starts, sizes), f"^(?:{form})$")
        reading.give_up(rows[~has_form.to_numpy(zero_copy_only=False)])


def texts_of(headers: Headers, ok: Flags) -> Iterator[tuple[str, Texts]]:
    """Every text of the headers of payloads that are `ok`, field by field."""
    rows = np.flatnonzero(ok)
    for name, (starts, sizes) in headers.text.items():
        yield name, Texts(rows, starts[rows], sizes[rows])
    for name, each in headers.texts.items():
        kept = ok[each.rows]
        yield name, Texts(each.rows[kept], each.starts[kept], each.sizes[kept])
