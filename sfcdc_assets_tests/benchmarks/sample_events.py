"""Change events to measure with: of a schema of so many fields, most of them updates of a few."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import fastavro

from sfcdc_assets_tests.change_events.written_event import bitmap_of, event_schema, header, optional

CHANGED_FIELDS = 5
CREATES, DELETES = 0.03, 0.01
REPEATED_BITMAPS = 8
_TYPES = (*["string"] * 6, "double", "double", "long", "boolean")
_DOCS = {"string": "Data:Text", "double": "Data:Currency", "long": "Data:DateTime", "boolean": "Data:Boolean"}


@dataclass(frozen=True)
class SampleEvents:
    """A schema, and payloads written with it."""

    schema: dict[str, Any]
    payloads: Sequence[bytes]


def sample_events(fields: int, count: int, *, varied: bool, seed: int = 7) -> SampleEvents:
    """`varied`: nearly no two updates change the same fields; otherwise there are `REPEATED_BITMAPS` sets of them.

    Of an update's fields one is nulled. 3 % are creates, which have every field, 1 % deletes.
    """
    rnd = random.Random(seed)
    types = [_TYPES[number % len(_TYPES)] for number in range(fields)]
    names = [f"Field_{number}__c" for number in range(fields)]
    schema = event_schema(*(optional(name, of, doc=_DOCS[of]) for name, of in zip(names, types, strict=True)))
    parsed = fastavro.parse_schema(schema)
    repeated = [sorted(rnd.sample(range(fields), CHANGED_FIELDS)) for _ in range(REPEATED_BITMAPS)]
    payloads = []
    for number in range(count):
        kind, dice = "UPDATE", rnd.random()
        changed: Sequence[int] = sorted(rnd.sample(range(fields), CHANGED_FIELDS)) if varied else rnd.choice(repeated)
        nulled: Sequence[int] = changed[:1]
        if dice < CREATES + DELETES:
            kind, changed, nulled = ("CREATE", range(fields), ()) if dice < CREATES else ("DELETE", (), ())
        body = {names[field]: _value(types[field], rnd) for field in changed if field not in nulled}
        is_update = kind == "UPDATE"
        head = header(
            kind,
            recordIds=[f"001Dp{rnd.randrange(10**13):013d}"],
            transactionKey=f"{number // 3:08x}-2d4b-e1e5-cd1f-50cf1c35a1e0",
            sequenceNumber=number % 3 + 1,
            commitTimestamp=1_690_000_000_000 + number,
            commitNumber=11_862_137_384_961 + number // 3,
            changedFields=bitmap_of(schema, *(names[field] for field in changed)) if is_update else [],
            nulledFields=bitmap_of(schema, *(names[field] for field in nulled)) if is_update else [],
        )
        written = io.BytesIO()
        values = {name: body.get(name) for name in names} | {"ChangeEventHeader": head}
        fastavro.schemaless_writer(written, parsed, values)
        payloads.append(written.getvalue())
    return SampleEvents(schema, payloads)


def _value(avro_type: str, rnd: random.Random) -> object:
    if avro_type == "string":
        return f"a text of some length {rnd.randrange(10**6)}" if rnd.random() < 0.8 else f"Küche {rnd.random()}"
    if avro_type == "double":
        return round(rnd.random() * 10_000, 2)
    return 1_700_000_000_000 + rnd.randrange(10**9) if avro_type == "long" else rnd.random() < 0.5
