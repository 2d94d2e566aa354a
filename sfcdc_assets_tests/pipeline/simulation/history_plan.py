"""What a simulated history is made of, drawn from its seed: small objects, how the org behaves, what may happen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from sfcdc_assets.apply.batch_events import MOST_EVENTS
from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.definitions.object_file import built_in_definitions
from sfcdc_assets.emulator.formulas.parser import parse_formula
from sfcdc_assets.emulator.formulas.syntax import references_of
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.salesforce.channel_members import STANDARD_CHANNEL
from sfcdc_assets_tests.pipeline.simulation.org_history import HistoryMix

OBJECTS = ("Account", "Contact", "Case", "Task", "Invoice_Statement__c", "Lead", "Opportunity")
FAMILY = ("Lead", "Account", "Contact", "Opportunity")
"""What a converted lead becomes."""
RETYPE = 2.0
"""Weight of changed types: 2 finds one simulated in a hundred (seed 76) whose history has a value dated too early."""
CUSTOM_CHANNEL = "/data/Life__chn"
SETUP = 0.2
"""Share of the histories in which an administrator takes objects off the channel and puts them back."""
DELAY_MS = 1_500
"""How late REST often is, for which reads of the org allow."""
LATE, LATE_MS = 0.2, 20_000
"""Share of the histories in which REST lags by far more than reads of the org allow for."""
LAGGING, LAGS_MS, SPREADS_MS = 0.2, (0, 1_500, 3_000), (0, 5_000)
"""Share of the histories in which events are published later than they are committed, and one after another."""
BEGUN_AT_LATEST, LOST, WITHOUT_RIGHTS, RECASED = 0.2, 0.2, 0.2, 0.15
"""Shares of the histories whose stream is begun at LATEST, that lose their place in it, whose client does not always
see all records, and in which names of fields change by their case alone."""
POLLED_OBJECT = "Life_Polled__c"
"""What no channel carries."""
BESIDE, BESIDE_FROM = 0.3, 1_111
"""Share of the histories with a polled object and platform events beside the change events, of those from that seed on:
earlier ones are what they were when they were run for docs/proof.md."""
WAITING = 0.5
"""Share of the same whose runs wait for reads of suspect records, as all earlier ones do."""
REBUILT_AS_BEFORE = 0.15
"""Share of the histories whose tables are rebuilt in batches of the size that made them; in the others all at once,
which costs half and has to give the same."""
SETTLE, SETTLE_LAGGING = 0.3, 10.0
"""Seconds by the history's clock. The org sends at once what it has, and what REST shows late or may not have its
watermark to yet must not have become visible by waiting for the stream; where events lag the wait is longer than they
do."""
_KEPT = ("Id", "IsDeleted", "MasterRecordId", "Name", "AccountId", "Amount", "Description")


@dataclass(frozen=True)
class BatchPlan:
    """`holes` is the share of transactions that meet one, `steps` those of each round, `visibility` seconds;
    `most_events` of an entity are applied by one batch, `rebuilt_at_once` when its tables are built again."""

    seed: int
    objects: tuple[ObjectDefinition, ...]
    settings: OrgSettings
    mix: HistoryMix
    holes: float
    steps: tuple[int, ...]
    records: int
    visibility: float
    most_events: int
    channel: str = STANDARD_CHANNEL
    comings_and_goings: float = 0.0
    """Share of the steps after which an object leaves the channel or comes back, or, on a custom channel, is filtered
    or is not any more."""
    rights_lost: float = 0.0
    """The same of the rights to see all records of an object, and of their return."""
    rights_are_shown: bool = True
    """Whether the client can look up which rights it has."""
    losses: float = 0.0
    """Share of the steps after which the place in the stream is lost."""
    starts: tuple[str, str] = ("EARLIEST", "EARLIEST")
    """Where a stream without a place is begun in the first round, and later."""
    settle: float = SETTLE
    """Seconds."""
    rebuilt_at_once: int = MOST_EVENTS
    waits: bool = True
    """Whether a run waits until records that are suspect can be read back, or leaves that to a later one."""
    has_others: bool = False
    """There are a polled object and platform events (`beside_change_events`)."""


def plan_of(seed: int) -> BatchPlan:
    """The history of a seed."""
    dice = Random(f"plan:{seed}")
    is_family = dice.random() < 0.08
    names = FAMILY if is_family else tuple(dice.sample(OBJECTS, dice.choice((1, 2, 2))))
    objects = _smaller([d for d in built_in_definitions() if d.name in names], dice, 2 if is_family else 4)
    delay = dice.choice((0, 0, 0, DELAY_MS))
    if Random(f"late:{seed}").random() < LATE:
        delay = LATE_MS
    changes = dice.random() < 0.65
    setup = Random(f"setup:{seed}")
    has_setup, is_custom = setup.random() < SETUP, setup.random() < 0.6
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
        HistoryMix(
            convert_lead=20 if is_family else 0,
            add_field=2.5 if changes else 0,
            drop_field=1.5 if changes else 0,
            rename_field=1.5 if changes else 0,
            retype_field=RETYPE if changes else 0,
            new_object=0.4 if changes and not is_family and not (has_setup and is_custom) else 0,
            hide_field=2 if changes else 0,
            show_field=2 if changes else 0,
        ),
        holes=dice.choice((0.0, 0.0, 0.08, 0.2)),
        steps=tuple(dice.randint(8, 25) for _ in range(2 if is_family else dice.choice((2, 2, 2, 3)))),
        records=dice.choice((3, 6)),
        visibility=2.0 if delay else 0.0,
        most_events=Random(f"batches:{seed}").choice((1, 3, MOST_EVENTS, MOST_EVENTS)),
        channel=CUSTOM_CHANNEL if has_setup and is_custom else STANDARD_CHANNEL,
        comings_and_goings=0.2 if has_setup else 0.0,
    )


def full_plan_of(seed: int) -> BatchPlan:
    """The same with what goes wrong between an org and its client."""
    plan, dice = plan_of(seed), Random(f"mishaps:{seed}")
    if dice.random() < LAGGING:
        settings = replace(
            plan.settings, publishing_lag=dice.choice(LAGS_MS), publishing_spread=dice.choice(SPREADS_MS)
        )
        plan = replace(plan, settings=settings, settle=SETTLE_LAGGING)
    if dice.random() < BEGUN_AT_LATEST:
        plan = replace(plan, starts=("LATEST", dice.choice(("LATEST", "EARLIEST"))))
    if dice.random() < (0.5 if plan.starts[0] == "LATEST" else LOST):
        plan = replace(plan, losses=0.1)
    if dice.random() < WITHOUT_RIGHTS:
        plan = replace(plan, rights_lost=0.1, rights_are_shown=dice.random() < 0.5)
    if dice.random() < RECASED and plan.mix.add_field:
        plan = replace(plan, mix=replace(plan.mix, recase_field=5))
    if dice.random() < REBUILT_AS_BEFORE:
        plan = replace(plan, rebuilt_at_once=plan.most_events)
    if seed >= BESIDE_FROM:
        waits = Random(f"waits:{seed}").random() < WAITING
        plan = replace(plan, waits=waits, has_others=dice.random() < BESIDE)
    if plan.losses or plan.starts[0] == "LATEST":
        # What no event reports and REST shows later than reads allow for, nobody can know.
        plan = replace(plan, settings=replace(plan.settings, rest_delay=min(plan.settings.rest_delay, DELAY_MS)))
    if (plan.losses or plan.rights_lost or plan.comings_and_goings) and len(plan.steps) == 2:
        # Before the last round all is given back: what is off or lost is to be met by a round before that one.
        plan = replace(plan, steps=(plan.steps[0], plan.steps[1] // 2, plan.steps[1] // 2))
    return plan


def _smaller(definitions: Iterable[ObjectDefinition], dice: Random, most: int) -> tuple[ObjectDefinition, ...]:
    """The objects with what they must have and `most` of their other fields: columns are what a history costs."""
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
    if field.calculated_formula is not None:
        return {each.path for each in references_of(parse_formula(field.calculated_formula))}
    return set(re.findall(r'"(\w+)"', field.sql_expression or ""))
