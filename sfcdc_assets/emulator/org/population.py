"""Day-0 data: many records in each object, inserted in bulk and without events.

Each field has a pool of values whose length is a prime of its own; rows walk through all pools side by side. That
gives varied records for the price of a list look-up a cell.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import cycle, islice

from sfcdc_assets.emulator.definitions.object_definition import DeleteConstraint, FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.definitions.record_types import FIELD as RECORD_TYPE
from sfcdc_assets.emulator.definitions.record_types import record_types
from sfcdc_assets.emulator.org.clock import whole_second
from sfcdc_assets.emulator.org.org_core import OrgCore
from sfcdc_assets.emulator.org.profiles import profiles
from sfcdc_assets.emulator.org.sample_values import sample_value
from sfcdc_assets.emulator.org.settings import DAY
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.records.new_record import auto_number
from sfcdc_assets.emulator.records.opportunity_stage import has_stages, stage_of
from sfcdc_assets.emulator.records.person_account import contact_fields, has_person_accounts

_PRIMES = (499, 503, 509, 521, 523, 541, 547, 557, 563, 569, 571, 577, 587, 593, 599, 601, 607, 613, 617, 619, 631, 641)
_YEARS_BACK = 730 * DAY
_BLOCK = 5_000
_OF_THE_RECORD = frozenset({"Id", "CreatedDate", "LastModifiedDate", "SystemModstamp"})
_FIRST = {"UserRole": 0, "User": 1}


def populate(org: OrgCore, counts: Mapping[str, int], seed: int) -> dict[str, int]:
    """Insert `counts[object]` records in each object, what all refer to first; must run inside a transaction of the
    database."""
    order = sorted(counts, key=lambda name: (_FIRST.get(name, len(_FIRST)), list(org.definitions).index(name)))
    for name in order:
        _fill(org, org.definitions[name], counts[name], random.Random(f"{seed}:{name}"))
    return {name: counts[name] for name in order}


def _fill(org: OrgCore, definition: ObjectDefinition, count: int, dice: random.Random) -> None:
    now = whole_second(org.clock())
    first = org.store.reserve(definition, count)
    fields = definition.stored_fields
    # Loaded accounts are businesses.
    of_persons = {*contact_fields(definition), "RecordTypeId"} if has_person_accounts(definition) else set()
    record_types_of = [each.id for each in record_types(definition, org.store.instance)]
    pools = {
        field.name: [dice.choice(record_types_of) for _ in range(len(record_types_of) * 3)]
        if field.name == RECORD_TYPE and definition.record_types
        else _pool(org, field, dice, max(1, min(count, _PRIMES[n % len(_PRIMES)])), now, of_persons)
        for n, field in enumerate(fields)
    }
    # A field that is null in all of them need not be written.
    fields = tuple(field for field in fields if _is_numbered(field) or pools[field.name] != [None])
    cursors = {name: cycle(pool) for name, pool in pools.items()}
    for start in range(0, count, _BLOCK):
        numbers = range(start, min(start + _BLOCK, count))
        created = [(now - _YEARS_BACK + _YEARS_BACK * number // count) // 1000 * 1000 for number in numbers]
        modified = [moment + dice.randrange(now - moment + 1) // 1000 * 1000 for moment in created]
        special: dict[str, Iterable[StoredValue]] = {
            "Id": org.store.record_ids(definition, first + start, len(numbers)),
            "CreatedDate": created,
            "LastModifiedDate": modified,
            "SystemModstamp": modified,
        }
        if definition.stamp is not None:
            special.setdefault(definition.stamp, created)
        columns: list[Iterable[StoredValue]] = []
        if definition.name == "Opportunity" and has_stages(definition):
            stages = list(islice(cursors["StageName"], len(numbers)))
            special["StageName"] = stages
            special |= {name: [stage_of(each).read_only[name] for each in stages] for name in stage_of("").read_only}
        for field in fields:
            if field.name in special:
                columns.append(special[field.name])
            elif field.auto_number is not None:
                columns.append([auto_number(field.auto_number, first + number) for number in numbers])
            elif field.unique:
                columns.append([_unique_value(field, first + number) for number in numbers])
            else:
                columns.append(islice(cursors[field.name], len(numbers)))
        org.store.insert_rows(definition, [field.name for field in fields], list(zip(*columns, strict=True)))


def _is_numbered(field: FieldDefinition) -> bool:
    """Return whether each record has a value of its own, and not one of a pool."""
    return field.name in _OF_THE_RECORD or field.auto_number is not None or field.unique


def _unique_value(field: FieldDefinition, number: int) -> str:
    return f"user{number}@emulator.example" if field.name == "Username" else f"K-{number:09d}"[: field.length]


def _pool(
    org: OrgCore, field: FieldDefinition, dice: random.Random, size: int, now: int, of_persons: Collection[str]
) -> Sequence[StoredValue]:
    if field.name in of_persons:
        return [False if field.type == "boolean" else None]
    if (
        field.name in {"IsDeleted", "IsArchived"}
        or (field.derived and field.type != "boolean")
        or field.roll_up is not None
    ):
        return [field.default if field.type == "boolean" else None]
    if field.type == "boolean" and not field.createable:
        return [bool(field.default)]
    if field.type == "reference":
        return _reference_pool(org, field, dice, size)
    if not field.createable:
        return [field.default]
    return [sample_value(field, dice, now=now) for _ in range(size)]


def _reference_pool(org: OrgCore, field: FieldDefinition, dice: random.Random, size: int) -> Sequence[StoredValue]:
    """Ids of records that exist already: parents are filled in the order of the definitions, so some stay null."""
    ids: list[StoredValue] = []
    for name in field.reference_to:
        if name == "Profile":
            ids.extend(each.id for each in profiles(org.store.instance)[1:])
        elif name in org.definitions and field.createable | (name == "User"):
            found = org.store.sample_ids(org.definitions[name], size, dice.randrange(2**31))
            ids.extend(found if name == "User" else _with_children(field, found))
    if not ids:
        return [None]
    if field.name in {"OwnerId", "ProfileId"} or not field.nillable:
        return [dice.choice(ids) for _ in range(size)]
    return [dice.choice(ids) if dice.random() < 0.8 else None for _ in range(size)]


def _with_children(field: FieldDefinition, ids: Sequence[str]) -> Sequence[str]:
    """Return as many ids, the oldest first, of those records that others refer to: the oldest third of all have no
    children, and few hold others, the newest tenth, so that most can be deleted."""
    count = len(ids)
    some = ids[-max(1, count // 10) :] if field.delete_constraint is DeleteConstraint.RESTRICT else ids[count // 3 :]
    return [some[place % len(some)] for place in range(count)]
