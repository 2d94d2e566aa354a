"""A random history of an org, by seed: records change as traffic changes them, and now and then an administrator
changes what records are made of.

The same seed on the same org gives the same history, as long as nobody else changes it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any

from sfcdc_assets.emulator.definitions.field_notation import field_definition
from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.definitions.object_file import object_definition
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.sample_values import sample_value
from sfcdc_assets.emulator.traffic.traffic import FULL_MIX, TrafficGenerator, TrafficMix

_CHOICES = ["A", "B", "C", "Δ 𝛿 😀"]
_SHAPES: tuple[Mapping[str, Any], ...] = (
    {"type": "string", "length": 40},
    {"type": "string", "length": 7},
    {"type": "long_text", "length": 131_072},
    {"type": "textarea"},
    {"type": "picklist", "values": _CHOICES},
    {"type": "multipicklist", "values": _CHOICES},
    {"type": "boolean"},
    {"type": "boolean", "default": True},
    {"type": "double", "precision": 18, "scale": 4},
    {"type": "double", "precision": 9, "scale": 0},
    {"type": "int"},
    {"type": "currency"},
    {"type": "percent"},
    {"type": "date"},
    {"type": "datetime"},
    {"type": "time"},
    {"type": "email"},
    {"type": "url"},
    {"type": "encryptedstring"},
)
"""Of new fields, and what fields are retyped to."""
_LOCATION: Mapping[str, Any] = {"type": "location"}
_MOST_OBJECTS = 36
_RECORDS_OF_NEW_OBJECT = 6


@dataclass(frozen=True)
class HistoryMix:
    """Relative weights of what happens next; 0 leaves a kind out. `traffic` is a transaction of the traffic's own mix,
    `convert_lead` one that converts a lead; `recase_field` gives a field a name that differs by case alone, or deletes
    it and makes another one of that name."""

    traffic: float = 100
    convert_lead: float = 4
    add_field: float = 2
    drop_field: float = 1
    rename_field: float = 1
    retype_field: float = 2
    new_object: float = 0.3
    hide_field: float = 0.5
    show_field: float = 0.5
    recase_field: float = 0


@dataclass(frozen=True)
class HistoryStep:
    """One thing that happened. `commit_number` is that of the last transaction then; what raises no event has none of
    its own."""

    kind: str
    what: str
    commit_number: int


class OrgHistory:
    """Goes on one step at a time. `run` is a generator, so a test can look, or synchronise, between any two steps."""

    def __init__(
        self,
        org: EmulatedOrg,
        seed: int = 0,
        mix: HistoryMix | None = None,
        *,
        traffic_mix: TrafficMix = FULL_MIX,
        bus: EventBus | None = None,
        holes: float = 0.0,
        without: Collection[str] = (),
    ) -> None:
        """`bus` is needed for `holes`, the share of transactions that get a hole in the stream. `without`: objects that
        stay as they are."""
        self._org = org
        self._dice = Random(f"life:{seed}")
        self._without = without
        self._traffic = TrafficGenerator(org, seed, traffic_mix, bus=bus, holes=holes, of=self._names)
        nothing = {kind.name: 0.0 for kind in fields(TrafficMix)}
        conversions = TrafficMix(**{**nothing, "convert_lead": 1.0, "create": 0.2})
        self._conversions = TrafficGenerator(org, seed, conversions, of=self._names)
        mix = mix or HistoryMix()
        self._kinds = [kind.name for kind in fields(mix)]
        self._weights = [getattr(mix, kind) for kind in self._kinds]
        self._number = 0
        self._changes: dict[str, Callable[[], str | None]] = {
            "add_field": self._add_field,
            "drop_field": self._drop_field,
            "rename_field": self._rename_field,
            "retype_field": self._retype_field,
            "new_object": self._new_object,
            "hide_field": self._hide_field,
            "show_field": self._show_field,
            "recase_field": self._recase_field,
        }

    def run(self, steps: int) -> Iterator[HistoryStep]:
        """Yield that many steps; each has happened when its event is given out."""
        for _ in range(steps):
            yield self.step()

    def step(self) -> HistoryStep:
        """One step. What the org refuses, or what there is nothing for, becomes a transaction of the traffic."""
        kind = self._dice.choices(self._kinds, self._weights)[0]
        with self._org.database.lock:
            if kind in self._changes:
                what = self._tried(self._changes[kind])
                if what is not None:
                    return HistoryStep(kind, what, self._org.last_commit_number)
                kind = "traffic"
            generator = self._conversions if kind == "convert_lead" else self._traffic
            transaction = generator.step()
            return HistoryStep(kind, transaction.transaction_key, transaction.commit_number)

    def _tried(self, change: Callable[[], str | None]) -> str | None:
        try:
            return change()
        except RecordError:
            return None

    def _add_field(self) -> str:
        definition = self._definition()
        shape = self._dice.choice((*_SHAPES, _LOCATION))
        name = self._new_name("Life")
        field = field_definition(definition.name, name, shape)
        has_values = field.is_stored and self._dice.random() < 0.7
        self._org.setup.add_field(definition.name, name, shape, values=self._values(field) if has_values else None)
        return f"{definition.name}.{name} {field.type}"

    def _drop_field(self) -> str | None:
        chosen = self._custom_field()
        if chosen is None:
            return None
        entity, field = chosen
        self._org.setup.drop_field(entity, field.name)
        return f"{entity}.{field.name}"

    def _rename_field(self) -> str | None:
        chosen = self._custom_field()
        if chosen is None:
            return None
        entity, field = chosen
        name = self._new_name("Renamed")
        self._org.setup.rename_field(entity, field.name, name)
        return f"{entity}.{field.name} -> {name}"

    def _recase_field(self) -> str | None:
        chosen = self._custom_field()
        if chosen is None:
            return None
        entity, field = chosen
        name = field.name.removesuffix("__c").swapcase() + "__c"
        if self._org.field_generation(entity, name):
            return None
        if self._dice.random() < 0.5:
            self._org.setup.rename_field(entity, field.name, name)
            return f"{entity}.{field.name} -> {name}"
        shape = self._dice.choice(_SHAPES)
        again = field_definition(entity, name, shape)
        values = self._values(again) if self._dice.random() < 0.7 else None
        self._org.setup.drop_field(entity, field.name)
        self._org.setup.add_field(entity, name, shape, values=values)
        return f"{entity}.{field.name}, made again as {name} {again.type}"

    def _retype_field(self) -> str | None:
        chosen = self._custom_field()
        if chosen is None:
            return None
        entity, field = chosen
        shape = self._dice.choice(_SHAPES)
        change = self._org.setup.change_type(entity, field.name, shape)
        return f"{entity}.{field.name} {field.type} -> {shape['type']}: {change.notice}"

    def _new_object(self) -> str | None:
        number = sum(definition.custom for definition in self._org.definitions.values())
        if number >= _MOST_OBJECTS:
            return None
        name = self._new_name("Thing")
        shapes = self._dice.sample(_SHAPES, 4)
        document = {
            "name": name,
            "label": name.removesuffix("__c"),
            "key_prefix": f"b{number:02d}",
            "fields": [
                {"OwnerId": {"type": "reference", "to": "User", "required": True}},
                {"Name": {"type": "autonumber", "format": "T-{0000}"}},
                *({f"Field_{place}__c": dict(shape)} for place, shape in enumerate(shapes)),
                {"Place__c": dict(_LOCATION)},
            ],
        }
        self._org.setup.add_object(object_definition(document, name))
        if self._dice.random() < 0.5:
            self._org.populate({name: _RECORDS_OF_NEW_OBJECT}, seed=self._dice.randrange(2**31))
        return name

    def _hide_field(self) -> str | None:
        definition = self._definition()
        hidden = self._org.field_security.hidden(definition.name)
        candidates = [field for field in definition.stored_fields if field.updateable and field.name not in hidden]
        if not candidates:
            return None
        field = self._dice.choice(candidates)
        self._org.field_security.hide(definition.name, field.name)
        return f"{definition.name}.{field.name}"

    def _show_field(self) -> str | None:
        hidden = [
            (entity, name) for entity in self._names() for name in sorted(self._org.field_security.hidden(entity))
        ]
        if not hidden:
            return None
        entity, name = self._dice.choice(hidden)
        self._org.field_security.show(entity, name)
        return f"{entity}.{name}"

    def _names(self) -> list[str]:
        return [name for name in self._org.definitions if name not in self._without]

    def _definition(self) -> ObjectDefinition:
        return self._org.definitions[self._dice.choice(self._names())]

    def _custom_field(self) -> tuple[str, FieldDefinition] | None:
        candidates = [
            (name, field)
            for name in self._names()
            for field in self._org.definitions[name].fields
            if field.name.endswith("__c") and not field.unique
        ]
        return self._dice.choice(candidates) if candidates else None

    def _new_name(self, stem: str) -> str:
        """Never one that was there before, whoever lived in this org."""
        while True:
            self._number += 1
            name = f"{stem}_{self._number}__c"
            if not any(self._org.field_generation(entity, name) for entity in self._org.definitions) and (
                name not in self._org.definitions
            ):
                return name

    def _values(self, field: FieldDefinition) -> Callable[[Mapping[str, object]], object]:
        dice, now = Random(self._dice.getrandbits(32)), self._org.clock()
        short = replace(field, length=min(field.length, 3_000))
        return lambda _record: sample_value(short, dice, now=now)
