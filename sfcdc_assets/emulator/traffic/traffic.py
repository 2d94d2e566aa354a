"""Seeded traffic: transactions as people, integrations and the org itself make them, on whatever objects the org has.

The same seed on the same org makes the same transactions, as long as nobody else changes records meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container
from dataclasses import dataclass, fields
from itertools import accumulate
from random import Random

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import OrgUnavailableError, RecordError, TrafficRefusedError
from sfcdc_assets.emulator.events.avro.event_schema import is_large_text
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.text_difference import LEAST_LENGTH
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.sample_values import sample_value
from sfcdc_assets.emulator.org.transaction import Transaction
from sfcdc_assets.emulator.records.person_account import contact_fields, has_person_accounts
from sfcdc_assets.emulator.records.unit_of_work import UnitOfWork
from sfcdc_assets.emulator.traffic.text_edits import edited, long_text
from sfcdc_assets.emulator.traffic.traffic_holes import HoleMix, TrafficHoles
from sfcdc_assets.emulator.traffic.traffic_records import TrafficRecords

_ORIGINS = (
    "com/salesforce/api/rest/65.0;client=sfcdc-traffic",
    "com/salesforce/api/soap/65.0;client=SfdcInternalAPI/",
    "com/salesforce/api/bulkapi/65.0",
    "",
)
_OWN_USER_SHARE = 0.8
_REFUSALS_IN_A_ROW = 100
_PAUSE_SECONDS = 1.0
"""Before traffic tries again whether the disk has space."""
_BATCH = 200
"""Records that one call of the APIs may change."""
_CANDIDATES = 6
"""Records among which traffic looks for one with a large text."""


@dataclass(frozen=True)
class TrafficMix:
    """Relative weights of the kinds of transactions.

    `bulk_update` sets the same values on several records of one object, `geocode` is the org filling in coordinates,
    `several_objects` does two to four operations at once. `text_edit` changes some lines of a large text, `merge` makes
    one record of two or three, `hard_delete` removes live records for good, `empty_bin` deleted ones, which raises no
    event: these four are 0 by default, see FULL_MIX. `convert_lead` converts a lead, with an opportunity or without,
    and is 0 in FULL_MIX too, as is `load`, a batch of an integration: the same fields of up to 200 records of one
    object, each with values of its own, see LOAD_MIX.
    """

    create: float = 20
    update: float = 50
    bulk_update: float = 8
    delete: float = 7
    undelete: float = 3
    geocode: float = 4
    several_objects: float = 8
    text_edit: float = 0
    merge: float = 0
    hard_delete: float = 0
    empty_bin: float = 0
    convert_lead: float = 0
    load: float = 0


FULL_MIX = TrafficMix(text_edit=25, merge=3, hard_delete=2, empty_bin=1)
"""Everything that happens to records in an org."""
LOAD_MIX = TrafficMix(**{**{kind.name: 0 for kind in fields(TrafficMix)}, "load": 1})
"""An integration that writes as much as it can, as those do that bring an org to thousands of events a second."""


class TrafficGenerator:
    """Makes transactions one at a time (`step`), many at once (`run`), or in a thread at a rate (`start`, `stop`)."""

    def __init__(
        self,
        org: EmulatedOrg,
        seed: int = 0,
        mix: TrafficMix | None = None,
        *,
        bus: EventBus | None = None,
        holes: float = 0.0,
        hole_mix: HoleMix | None = None,
        of: Callable[[], Container[str]] | None = None,
    ) -> None:
        """`bus` is needed only to run until a number of events, and for holes, the share of transactions that get
        one. `of`: the objects whose records are changed, asked each time; without it, all of them."""
        if holes and bus is None:
            raise ValueError("traffic with holes needs the bus: TrafficGenerator(..., bus=bus)")
        self._org = org
        self._bus = bus
        self._of = of
        self._dice = Random(f"traffic:{seed}")
        self.holes = TrafficHoles(org, org.faults, holes, seed, hole_mix)
        mix = mix or TrafficMix()
        self._kinds = [kind.name for kind in fields(mix)]
        self._weights = list(accumulate(getattr(mix, kind) for kind in self._kinds))
        self.records = TrafficRecords(org)
        self._operations: dict[str, Callable[[UnitOfWork, set[str]], None]] = {
            "create": self._create,
            "update": self._update,
            "bulk_update": self._bulk_update,
            "delete": self._delete,
            "undelete": self._undelete,
            "geocode": self._geocode,
            "several_objects": self._several_objects,
            "text_edit": self._text_edit,
            "merge": self._merge,
            "hard_delete": self._hard_delete,
            "convert_lead": self._convert_lead,
            "load": self._load,
        }
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self.transactions = 0
        """Transactions made so far."""

    def step(self) -> Transaction:
        """Make one transaction. Raises TrafficRefusedError if the org accepts none."""
        self.holes.before_transaction()
        last = "nothing could be changed"
        for _ in range(_REFUSALS_IN_A_ROW):
            try:
                transaction = self._attempt()
            except RecordError as error:
                last = str(error)
                continue
            if transaction is not None:
                self.transactions += 1
                return transaction
        raise TrafficRefusedError(_REFUSALS_IN_A_ROW, last)

    def run(self, *, transactions: int = 0, events: int = 0) -> int:
        """Run as fast as possible: `transactions` transactions, or as many as it takes to publish at least `events`
        events.

        Returns how many transactions were made.
        """
        if events and self._bus is None:
            raise ValueError("traffic until a number of events needs the bus: TrafficGenerator(..., bus=bus)")
        first = self._bus.last_number if self._bus else 0
        made = 0
        while made < transactions or (self._bus is not None and self._bus.last_number - first < events):
            self.step()
            made += 1
        return made

    def start(self, rate: float) -> None:
        """Make `rate` transactions a second in a thread until `stop`; while the disk is full, none."""
        if rate <= 0:
            raise ValueError(f"a rate of {rate:g} transactions a second is not possible; give a number greater than 0")
        if self._thread is not None:
            raise RuntimeError("traffic is already running; stop it first")
        self._stopping.clear()
        self._thread = threading.Thread(target=self._keep_going, args=(1 / rate,), daemon=True, name="traffic")
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the transaction in progress, if one is running."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join()
            self._thread = None

    def _keep_going(self, interval: float) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            try:
                self.step()
            except OrgUnavailableError:
                self._stopping.wait(_PAUSE_SECONDS)
            # After a pause of the machine, go on at the rate instead of catching up in a burst.
            due = max(due + interval, time.monotonic() - interval)
            self._stopping.wait(max(0.0, due - time.monotonic()))

    def _attempt(self) -> Transaction | None:
        kind = self._dice.choices(self._kinds, cum_weights=self._weights)[0]
        with self._org.database.lock:
            if kind == "empty_bin":
                self._empty_bin()
                return None
            origin = "" if kind == "geocode" else self._dice.choice(_ORIGINS)
            with self._org.transaction(user_id=self._user(kind), change_origin=origin) as unit_of_work:
                self._operations[kind](unit_of_work, set())
            return unit_of_work.committed

    def _user(self, kind: str) -> str:
        if kind == "geocode":
            return self._org.users.automated_process
        others = self.records.choose("User", self._dice) if "User" in self._org.definitions else []
        return others[0] if others and self._dice.random() > _OWN_USER_SHARE else self._org.users.integration

    def _definition(self, *, deletable: bool = False) -> ObjectDefinition:
        """Any object; with `deletable`, not users, which nobody can delete and which traffic does not make either."""
        return self._chosen([d for d in self._definitions if d.deletable or not deletable])

    @property
    def _definitions(self) -> list[ObjectDefinition]:
        wanted = self._org.definitions if self._of is None else self._of()
        return [each for name, each in self._org.definitions.items() if name in wanted and each.is_written]

    def _chosen(self, candidates: list[ObjectDefinition]) -> ObjectDefinition:
        """One by chance. Raises RecordError if there are none."""
        if not candidates:
            raise RecordError("INVALID_TYPE", "the org has no object for it")
        return self._dice.choice(candidates)

    def _create(self, unit_of_work: UnitOfWork, touched: set[str]) -> None:
        definition = self._definition(deletable=True)
        values = {
            field.name: self._value(field)
            for field in definition.stored_fields
            if field.createable and (not field.nillable or self._dice.random() < 0.7)
        }
        wanted = {name: value for name, value in values.items() if value is not None}
        if has_person_accounts(definition):
            others = ("Name",) if self._dice.random() < 0.5 and "LastName" in wanted else contact_fields(definition)
            wanted = {name: value for name, value in wanted.items() if name not in others}
        touched.add(unit_of_work.create(definition.name, wanted))

    def _update(self, unit_of_work: UnitOfWork, touched: set[str]) -> None:
        self._set_same(unit_of_work, touched, 1)

    def _bulk_update(self, unit_of_work: UnitOfWork, touched: set[str]) -> None:
        self._set_same(unit_of_work, touched, self._dice.randint(2, 12))

    def _load(self, unit_of_work: UnitOfWork, touched: set[str]) -> None:
        definition = self._definition()
        chosen = self._some_fields(definition)
        for record_id in self.records.choose(definition.name, self._dice, count=_BATCH):
            touched.add(record_id)
            unit_of_work.update(definition.name, record_id, {field.name: self._value(field) for field in chosen})

    def _set_same(self, unit_of_work: UnitOfWork, touched: set[str], count: int) -> None:
        definition = self._definition()
        ids = [each for each in self.records.choose(definition.name, self._dice, count=count) if each not in touched]
        if not ids:
            return
        values = self._new_values(definition)
        for record_id in ids:
            touched.add(record_id)
            unit_of_work.update(definition.name, record_id, values)

    def _delete(self, unit_of_work: UnitOfWork, touched: set[str]) -> None:
        definition = self._definition(deletable=True)
        ids = self.records.choose(definition.name, self._dice, count=self._dice.choice((1, 1, 1, 3)))
        ids = [each for each in ids if each not in touched]
        for record_id in ids:
            touched.add(record_id)
            unit_of_work.delete(definition.name, record_id)

    def _text_edit(self, unit_of_work: UnitOfWork, touched: set[str]) -> None:
        """Change a few lines of a large text. If none of a few records has one, a record gets one."""
        definitions = [d for d in self._definitions if _large_texts(d)]
        if not definitions:
            return
        definition = self._dice.choice(definitions)
        field = self._dice.choice(_large_texts(definition))
        ids = self.records.choose(definition.name, self._dice, count=_CANDIDATES)
        texts = {record_id: self._text(definition, record_id, field) for record_id in ids}
        large = [record_id for record_id, text in texts.items() if len(text) >= LEAST_LENGTH]
        for record_id in (large or ids)[:1]:
            text = texts[record_id]
            new = edited(text, self._dice) if large else long_text(self._dice, self._dice.randint(25, 80))
            touched.add(record_id)
            unit_of_work.update(definition.name, record_id, {field.name: new[: field.length]})

    def _text(self, definition: ObjectDefinition, record_id: str, field: FieldDefinition) -> str:
        record = self._org.store.stored(definition, record_id) or {}
        return str(record.get(field.name) or "")

    def _merge(self, unit_of_work: UnitOfWork, touched: set[str]) -> None:
        mergeable = [d for d in self._definitions if "MasterRecordId" in d.fields_by_name]
        if not mergeable:
            return
        definition = self._dice.choice(mergeable)
        ids = self.records.choose(definition.name, self._dice, count=self._dice.choice((2, 2, 3)))
        if len(ids) > 1:
            touched.update(ids)
            unit_of_work.merge(definition.name, ids[0], tuple(ids[1:]), reparent=self._dice.random() < 0.7)

    def _hard_delete(self, unit_of_work: UnitOfWork, touched: set[str]) -> None:
        definition = self._definition(deletable=True)
        for record_id in self.records.choose(definition.name, self._dice):
            touched.add(record_id)
            unit_of_work.hard_delete(definition.name, record_id)

    def _convert_lead(self, unit_of_work: UnitOfWork, touched: set[str]) -> None:
        """Now and then into an account that is there already."""
        if not {"Lead", "Account", "Contact", "Opportunity"} <= self._org.definitions.keys():
            return
        leads = self.records.choose("Lead", self._dice)
        accounts = self.records.choose("Account", self._dice) if self._dice.random() < 0.2 else []
        for lead_id in leads:
            touched.add(lead_id)
            unit_of_work.convert_lead(
                lead_id, account_id=accounts[0] if accounts else None, opportunity=self._dice.random() < 0.7
            )

    def _empty_bin(self) -> None:
        """Remove some deleted records for good; no change is committed, so it is no transaction."""
        definition = self._definition(deletable=True)
        with self._org.transaction() as unit_of_work:
            for record_id in self.records.choose(definition.name, self._dice, count=3, deleted=True):
                if self._org.record(definition.name, record_id) is not None:
                    unit_of_work.hard_delete(definition.name, record_id)

    def _undelete(self, unit_of_work: UnitOfWork, touched: set[str]) -> None:
        definition = self._definition(deletable=True)
        for record_id in self.records.choose(definition.name, self._dice, deleted=True):
            if record_id not in touched and self._org.record(definition.name, record_id) is not None:
                touched.add(record_id)
                unit_of_work.undelete(definition.name, record_id)

    def _geocode(self, unit_of_work: UnitOfWork, touched: set[str]) -> None:
        """Coordinates of an address, set by the org itself: LastModifiedDate stays (docs/salesforce-streams.md,
        "Compound fields")."""
        definition = self._definition()
        coordinates = [
            [part for part in parts if part.name.endswith(("Latitude", "Longitude"))]
            for compound, parts in definition.components.items()
            if definition.fields_by_name[compound].type == "address"
        ]
        ids = [each for each in self.records.choose(definition.name, self._dice) if each not in touched]
        if not ids or not any(coordinates):
            return
        chosen = self._dice.choice([each for each in coordinates if each])
        values = {field.name: self._value(field) for field in chosen}
        touched.add(ids[0])
        unit_of_work.update(definition.name, ids[0], values, touch=False)

    def _several_objects(self, unit_of_work: UnitOfWork, touched: set[str]) -> None:
        """Write several objects in one transaction. Deletions come last, so that nothing in the transaction refers to a
        record it has deleted."""
        operations = [self._dice.choice((self._create, self._update, self._bulk_update)) for _ in range(2)]
        if self._dice.random() < 0.3:
            operations.append(self._create)
        if self._dice.random() < 0.3:
            operations.append(self._delete)
        for operation in operations:
            operation(unit_of_work, touched)

    def _new_values(self, definition: ObjectDefinition) -> dict[str, object]:
        return {field.name: self._value(field) for field in self._some_fields(definition)}

    def _some_fields(self, definition: ObjectDefinition) -> list[FieldDefinition]:
        """One to four fields; of a compound some components, of a geolocation both."""
        chosen: dict[str, FieldDefinition] = {}
        candidates = [field for field in definition.stored_fields if field.updateable and not field.unique]
        for field in self._dice.sample(candidates, min(len(candidates), self._dice.randint(1, 4))):
            chosen[field.name] = field
            parts = definition.components.get(field.compound_field_name or "", ())
            whole = field.name.endswith(("Latitude__s", "Longitude__s"))
            for part in parts:
                if part.updateable and (whole or self._dice.random() < 0.3):
                    chosen[part.name] = part
        return list(chosen.values())

    def _value(self, field: FieldDefinition) -> object:
        if field.type != "reference":
            return sample_value(field, self._dice, now=self._org.clock())
        targets = [name for name in field.reference_to if name in self._org.definitions]
        nulled = field.nillable and self._dice.random() < 0.2
        ids = [] if nulled or not targets else self.records.choose(self._dice.choice(targets), self._dice)
        return ids[0] if ids else None if field.nillable else self._org.users.integration


def _large_texts(definition: ObjectDefinition) -> list[FieldDefinition]:
    return [
        field
        for field in definition.stored_fields
        if field.updateable and field.length > LEAST_LENGTH and is_large_text(field)
    ]
