"""What a life is made of, drawn from its seed: small objects, how the org behaves, what may happen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from sfcdc_assets.emulator.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.object_file import built_in_definitions
from sfcdc_assets.emulator.org_life import LifeMix
from sfcdc_assets.emulator.settings import OrgSettings
from sfcdc_assets.pipeline.applying.batch_end import MOST_EVENTS

OBJECTS = ("Account", "Contact", "Case", "Task", "Invoice_Statement__c", "Lead", "Opportunity")
FAMILY = ("Lead", "Account", "Contact", "Opportunity")
"""What a converted lead becomes."""
RETYPE = 2.0
"""Weight of changed types: 2 finds one life in a hundred (seed 76) whose history has a value dated too early."""
LATE, LATE_MS = 0.2, 20_000
"""Share of the lives in which REST lags by far more than reads of the org allow for."""
_KEPT = ("Id", "IsDeleted", "MasterRecordId", "Name", "AccountId", "Amount", "Description")


@dataclass(frozen=True)
class BatchPlan:
    """`holes` is the share of transactions that meet one, `steps` those of each round, `visibility` seconds;
    `most_events` of an entity are applied by one batch."""

    seed: int
    objects: tuple[ObjectDefinition, ...]
    settings: OrgSettings
    mix: LifeMix
    holes: float
    steps: tuple[int, ...]
    records: int
    visibility: float
    most_events: int


def plan_of(seed: int) -> BatchPlan:
    """The life of a seed."""
    dice = Random(f"plan:{seed}")
    is_family = dice.random() < 0.08
    names = FAMILY if is_family else tuple(dice.sample(OBJECTS, dice.choice((1, 2, 2))))
    objects = _smaller([d for d in built_in_definitions() if d.name in names], dice, 2 if is_family else 4)
    delay = dice.choice((0, 0, 0, 1_500))
    if Random(f"late:{seed}").random() < LATE:
        delay = LATE_MS
    changes = dice.random() < 0.65
    return BatchPlan(
        seed,
        objects,
        OrgSettings(
            diff_convention="mixed",
            rest_delay=delay,
            enriched_fields={names[0]: ("OwnerId",)} if dice.random() < 0.2 else {},
            siblings_share_event_id=dice.random() < 0.5,
            hidden_fields_in_bitmaps=dice.random() < 0.3,
            overflow_keeps_first=dice.random() < 0.5,
            wildcard_names_field=dice.random() < 0.5,
        ),
        LifeMix(
            convert_lead=20 if is_family else 0,
            add_field=2.5 if changes else 0,
            drop_field=1.5 if changes else 0,
            rename_field=1.5 if changes else 0,
            retype_field=RETYPE if changes else 0,
            new_object=0.4 if changes and not is_family else 0,
            hide_field=2 if changes else 0,
            show_field=2 if changes else 0,
        ),
        holes=dice.choice((0.0, 0.0, 0.08, 0.2)),
        steps=tuple(dice.randint(8, 25) for _ in range(2 if is_family else dice.choice((2, 2, 2, 3)))),
        records=dice.choice((3, 6)),
        visibility=2.0 if delay else 0.0,
        most_events=Random(f"batches:{seed}").choice((1, 3, MOST_EVENTS, MOST_EVENTS)),
    )


def _smaller(definitions: Iterable[ObjectDefinition], dice: Random, most: int) -> tuple[ObjectDefinition, ...]:
    """The objects with what they must have and `most` of their other fields: columns are what a life costs."""
    definitions = tuple(definitions)
    names = {definition.name for definition in definitions}
    return tuple(_with_fewer_fields(definition, names, dice, most) for definition in definitions)


def _with_fewer_fields(definition: ObjectDefinition, names: set[str], dice: Random, most: int) -> ObjectDefinition:
    whole = [field for field in definition.fields if field.compound_field_name is None]
    kept = {field.name for field in whole if _is_needed(field)}
    others = [field.name for field in whole if field.name not in kept and _can_stand_alone(field, names)]
    kept |= set(dice.sample(others, min(most, len(others))))
    stays = [field for field in definition.fields if (field.compound_field_name or field.name) in kept]
    present = {field.name for field in stays}
    return definition.with_fields(tuple(field for field in stays if _made_from(field) <= present))


def _is_needed(field: FieldDefinition) -> bool:
    is_required = not field.nillable and field.type != "boolean"
    return is_required or field.name in _KEPT or field.name.startswith(("IsConverted", "Converted"))


def _can_stand_alone(field: FieldDefinition, names: set[str]) -> bool:
    return not (field.roll_up and field.roll_up.child not in names)


def _made_from(field: FieldDefinition) -> set[str]:
    return set(re.findall(r'"(\w+)"', field.sql_expression or ""))
