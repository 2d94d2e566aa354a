"""What steps of a scenario may be. Each is the first key of its entry in the file; the other keys are its options.

Those of RECORD_VERBS change records and are one transaction each, or several in one under `together`. Those of
SETUP_VERBS are an administrator's, and those of ORG_VERBS the org's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.emulator.records.unit_of_work import UnitOfWork
from sfcdc_assets.emulator.scenarios.play import NamedRecord, Play
from sfcdc_assets.emulator.setup.channels import CHANGE_EVENTS
from sfcdc_assets.emulator.traffic.traffic import TrafficMix

Options = Mapping[str, Any]
"""What a step says: its verb with what it acts on, and its options."""


@dataclass(frozen=True)
class Verb:
    """`act` does it; `said` says it in words. `needs` and `takes` are options that must be there, or may be."""

    said: Callable[[Options], str]
    act: Callable[..., None]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


def _listed(names: str | Sequence[str]) -> str:
    return names if isinstance(names, str) else ", ".join(names)


def _create(play: Play, work: UnitOfWork, step: Options) -> None:
    names = step["as"] if isinstance(step["as"], list) else [step["as"]] * step.get("times", 1)
    for name in names:
        play.add(name, step["create"], work.create(step["create"], play.values(step.get("values", {}))))


def _create_said(step: Options) -> str:
    times = step.get("times", 1)
    return f"create {step['create']} {_listed(step['as'])}" + (f", {times} of them" if times > 1 else "")


def _update(play: Play, work: UnitOfWork, step: Options) -> None:
    for record in play.records(step["update"]):
        work.update(record.entity, record.id, play.values(step["values"]))


def _reschedule(play: Play, work: UnitOfWork, step: Options) -> None:
    """Reschedule a series, not by `update`, which has no way to say what the series is from now on."""
    record = play.record(step["reschedule"])
    play.names[step["reschedule"]] = [
        NamedRecord(record.entity, work.reschedule(record.id, play.values(step["values"])))
    ]


def _delete(play: Play, work: UnitOfWork, step: Options) -> None:
    for record in play.records(step["delete"]):
        work.delete(record.entity, record.id)


def _hard_delete(play: Play, work: UnitOfWork, step: Options) -> None:
    for record in play.records(step["hard_delete"]):
        work.hard_delete(record.entity, record.id)


def _undelete(play: Play, work: UnitOfWork, step: Options) -> None:
    for record in play.records(step["undelete"]):
        work.undelete(record.entity, record.id)


def _merge(play: Play, work: UnitOfWork, step: Options) -> None:
    winner, losers = play.record(step["merge"]), play.records(step["losers"])
    work.merge(winner.entity, winner.id, tuple(loser.id for loser in losers), reparent=True)


def _convert(play: Play, work: UnitOfWork, step: Options) -> None:
    lead = work.convert_lead(play.record(step["convert"]).id)
    made = {"account": ("Account", lead.account_id), "contact": ("Contact", lead.contact_id)}
    for kind, (entity, record_id) in made.items():
        play.add(f"{step['convert']}'s {kind}", entity, record_id)


def _geocode(play: Play, work: UnitOfWork, step: Options) -> None:
    record = play.record(step["geocode"])
    work.update(record.entity, record.id, play.values(step["values"]), touch=False)


def _archive(play: Play, work: UnitOfWork, step: Options) -> None:
    for record in play.records(step["archive"]):
        work.archive(record.entity, record.id)


def _with_values(verb: str) -> Callable[[Options], str]:
    return lambda step: f"{verb} {_listed(step[verb])}: {', '.join(step['values'])}"


def _plain(verb: str) -> Callable[[Options], str]:
    return lambda step: f"{verb.replace('_', ' ')} {_listed(step[verb])}"


RECORD_VERBS: Mapping[str, Verb] = {
    "create": Verb(_create_said, _create, ("as",), ("values", "times")),
    "update": Verb(_with_values("update"), _update, ("values",)),
    "reschedule": Verb(_with_values("reschedule"), _reschedule, ("values",)),
    "delete": Verb(_plain("delete"), _delete),
    "hard_delete": Verb(_plain("hard_delete"), _hard_delete),
    "undelete": Verb(_plain("undelete"), _undelete),
    "merge": Verb(lambda step: f"merge {_listed(step['losers'])} into {step['merge']}", _merge, ("losers",)),
    "convert": Verb(_plain("convert"), _convert),
    "geocode": Verb(_with_values("geocode"), _geocode, ("values",)),
    "archive": Verb(_plain("archive"), _archive),
}


def _person_accounts(play: Play, _step: Options) -> None:
    play.org.setup.enable_person_accounts()


def _preferences(play: Play, _step: Options) -> None:
    play.org.setup.add_user_preferences()


_FEATURES = {"person accounts": _person_accounts, "user preferences": _preferences}


def _enable(play: Play, step: Options) -> None:
    _FEATURES[step["enable"]](play, step)


def _field(play: Play, step: Options) -> None:
    """Make the field as it is described, whatever a playing before made of it: its type is changed back, which events
    tell of as of any such change. A field that was dropped and made again would lose its values without a word."""
    entity, _, name = step["field"].partition(".")
    options = {key: value for key, value in step.items() if key != "field"}
    known = play.org.definitions[entity].fields_by_name.get(name) if entity in play.org.definitions else None
    if known is None:
        play.org.setup.add_field(entity, name, options)
    else:
        play.org.setup.change_type(entity, name, options)


def _retype(play: Play, step: Options) -> None:
    entity, _, name = step["retype"].partition(".")
    play.org.setup.change_type(entity, name, {key: value for key, value in step.items() if key != "retype"})


def _rename_value(play: Play, step: Options) -> None:
    entity, _, name = step["rename_value"].partition(".")
    play.org.setup.rename_picklist_value(entity, name, step["from"], step["to"])


def _encrypt(play: Play, step: Options) -> None:
    entity, _, name = step["encrypt"].partition(".")
    play.org.setup.encrypt_field(entity, name)


def _channel(play: Play, step: Options) -> None:
    channels, name = play.org.channels, step["channel"]
    if name != CHANGE_EVENTS and all(each.name != name for each in channels.all()):
        channels.create(name)
    for entity, fields in step["enriched"].items():
        member = next((each for each in channels.members() if (each.channel, each.entity) == (name, entity)), None)
        if member is None:
            channels.add_member(name, entity, fields)
        else:
            channels.enrich(member.id, fields)


SETUP_VERBS: Mapping[str, Verb] = {
    "enable": Verb(_plain("enable"), _enable),
    "field": Verb(lambda step: f"field {step['field']}, a {step['type']}", _field, ("type",), ("values", "length")),
    "retype": Verb(lambda step: f"{step['retype']} becomes a {step['type']}", _retype, ("type",), ("values",)),
    "rename_value": Verb(
        lambda step: f"the value {step['from']} of {step['rename_value']} becomes {step['to']}",
        _rename_value,
        ("from", "to"),
    ),
    "encrypt": Verb(_plain("encrypt"), _encrypt),
    "channel": Verb(
        lambda step: f"channel {step['channel']} with {', '.join(step['enriched'])}", _channel, ("enriched",)
    ),
}


def _traffic(play: Play, step: Options) -> None:
    play.traffic(step["traffic"])


ORG_VERBS: Mapping[str, Verb] = {
    "traffic": Verb(lambda step: f"{step['traffic'].replace('_', ' ')} by chance", _traffic),
}
CHOICES: Mapping[str, frozenset[str]] = {
    "enable": frozenset(_FEATURES),
    "traffic": frozenset(TrafficMix.__dataclass_fields__) - {"empty_bin"},
}
"""What may stand behind a verb, where that is a closed list."""
