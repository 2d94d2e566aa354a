"""Plausible values for fields, drawn from a seeded source: for day-0 data, traffic and tests."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.traffic import text_edits

_FIRST = (
    "Ana",
    "Bertha",
    "Chloé",
    "Dmitri",
    "Émile",
    "Fatima",
    "Grace",
    "Håkon",
    "Ines",
    "Jürgen",
    "Keiko",
    "Liam",
    "Łukasz",
)
_LAST = (
    "Müller",
    "O'Brien",
    "García",
    "Smith",
    "Nguyễn",
    "Šimić",
    "Okafor",
    "Tanaka",
    "Rossi",
    "de Boer",
    "Kaya",
    "Silva",
)
_FIRMS = ("Burlington Textiles", "Edge Communications", "GenePoint", "Grand Hotels & Resorts", "Pyramid Construction",
          "United Oil & Gas", "Zażółć Sp. z o.o.", "東京商事", "Dickenson plc", "Société Générale d'Été")  # fmt: skip
_PLACES = (
    ("525 S. Lexington Ave", "Burlington", "NC", "27215", "USA", 36.0889, -79.4411),
    ("Großer Hirschgraben 23\nHinterhaus", "Frankfurt", "Hessen", "60311", "Germany", 50.1109, 8.6776),
    ("312 Constitution Place", "Austin", "TX", "78767", "USA", 30.2672, -97.7431),
    ("Rue de l'Église 7", "Genève", "GE", "1204", "Switzerland", 46.2044, 6.1432),
    ("千代田 1-1", "Tokyo", "Tokyo", "100-0001", "Japan", 35.6852, 139.7528),
)
_WORDS = ("customer", "renewal", "asked for", "a quote", "the \"gold\" plan", "delivery, delayed", "überprüft",
          "next steps:", "installed", "on site", "signed", "waiting", "budget", "approved", "naïve",
          "follow-up")  # fmt: skip
_CITY_PARTS = ("Street", "City", "State", "PostalCode", "Country", "Latitude", "Longitude")
_NULL_SHARE = 0.15
_NEVER_BY_CHANCE = frozenset({"Recurrence2PatternText"})
"""A pattern would make a series of every event."""


def sample_value(field: FieldDefinition, dice: random.Random, *, now: int) -> StoredValue:
    """Return a value the field accepts, null now and then where that is allowed; references are always null.

    `now` (epoch ms) is the centre of dates. Text of long fields has several lines and a few hundred characters, every
    third one some 2,000, enough for changes to come as differences.
    """
    if field.name in _NEVER_BY_CHANCE:
        return None
    if field.type == "boolean":
        return dice.random() < 0.3
    if field.nillable and dice.random() < _NULL_SHARE:
        return None
    make = _BY_TYPE.get(field.type)
    return make(field, dice, now) if make else None


def long_text(dice: random.Random, lines: int) -> str:
    """Several lines of text with quotes, commas and letters beyond ASCII."""
    return "\n".join(f"{n}. " + " ".join(dice.choices(_WORDS, k=dice.randint(4, 9))) for n in range(1, lines + 1))


def _string(field: FieldDefinition, dice: random.Random, _now: int) -> StoredValue:
    name = field.name
    place = next((n for n, part in enumerate(_CITY_PARTS) if name.endswith(part)), None)
    if field.compound_field_name and place is not None:
        return str(dice.choice(_PLACES)[place])[: field.length]
    if name == "FirstName":
        return dice.choice(_FIRST)
    if name == "LastName":
        return dice.choice(_LAST)
    if field.unique:
        return f"{name[:3].upper()}-{dice.getrandbits(60):x}"[: field.length]
    if name in {"Name", "Company", "CompanyName"}:
        return f"{dice.choice(_FIRMS)} {dice.randint(1, 99_999)}"[: field.length]
    if field.length <= 20:
        return f"{dice.randrange(10**8):08d}"[: field.length]
    return " ".join(dice.choices(_WORDS, k=3))[: field.length].strip()


def _textarea(field: FieldDefinition, dice: random.Random, now: int) -> StoredValue:
    if field.compound_field_name:
        return _string(field, dice, now)
    if field.length >= 4_000 and dice.random() < 0.33:
        return text_edits.long_text(dice, dice.randint(25, 60))[: field.length].strip()
    return long_text(dice, dice.randint(2, 8))[: field.length].strip()


def _picklist(field: FieldDefinition, dice: random.Random, _now: int) -> StoredValue:
    return dice.choice(field.picklist_values) if field.picklist_values else None


def _multi_picklist(field: FieldDefinition, dice: random.Random, _now: int) -> StoredValue:
    chosen = set(dice.sample(field.picklist_values, k=dice.randint(1, max(1, len(field.picklist_values) - 1))))
    return ";".join(value for value in field.picklist_values if value in chosen)


def _double(field: FieldDefinition, dice: random.Random, _now: int) -> StoredValue:
    if field.name.endswith(("Latitude", "Latitude__s")):
        return round(dice.uniform(-90, 90), 6)
    if field.name.endswith(("Longitude", "Longitude__s")):
        return round(dice.uniform(-180, 180), 6)
    return round(dice.uniform(0, 10.0 ** min(7, field.precision - field.scale)), field.scale)


def _percent(field: FieldDefinition, dice: random.Random, _now: int) -> StoredValue:
    return round(dice.uniform(0, 100), field.scale)


def _day(now: int, dice: random.Random) -> datetime:
    return datetime.fromtimestamp(now // 1000, UTC) + timedelta(
        days=dice.randint(-700, 400), seconds=dice.randrange(86_400)
    )


_BY_TYPE: dict[str, Callable[[FieldDefinition, random.Random, int], StoredValue]] = {
    "string": _string,
    "combobox": _picklist,
    "textarea": _textarea,
    "picklist": _picklist,
    "multipicklist": _multi_picklist,
    "int": lambda _field, dice, _now: dice.randint(0, 99_999),
    "double": _double,
    "currency": _double,
    "percent": _percent,
    "date": lambda _field, dice, now: _day(now, dice).date().isoformat(),
    "datetime": lambda _field, dice, now: int(_day(now, dice).timestamp()) * 1000,
    "time": lambda _field, dice, _now: f"{dice.randrange(24):02d}:{dice.randrange(60):02d}:00.000",
    "phone": lambda _field, dice, _now: f"({dice.randint(200, 999)}) 555-{dice.randrange(10_000):04d}",
    "email": lambda _field, dice, _now: f"person{dice.randrange(10**6)}@example.com",
    "url": lambda _field, dice, _now: f"https://www.example.com/{dice.randrange(10**6)}",
    "base64": lambda _field, dice, _now: base64.b64encode(dice.randbytes(dice.randrange(1, 60))).decode(),
    "encryptedstring": lambda _field, dice, _now: f"{dice.randrange(10**12):012d}",
}
