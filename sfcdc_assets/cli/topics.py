"""`sfcdc topics`: the PushTopics of the org beside those of the files."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.event_channels.push_topics.definition import PushTopic
from sfcdc_assets.event_channels.push_topics.definition_files import read_definitions
from sfcdc_assets.event_channels.push_topics.org_topics import apply_steps, org_topics
from sfcdc_assets.event_channels.push_topics.plan import Action, OrgTopic, Plan, Step, differences
from sfcdc_assets.event_channels.tables.topic_definitions import CheckedPlan, checked_plan
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.settings import Settings, load_settings

SIGNS = {Action.CREATE: "+", Action.CHANGE: "~", Action.DEACTIVATE: "-"}
NOT_APPLIED = 1
"""Exit code when a plan was shown and nobody agreed to it."""


class What(StrEnum):
    """What the command does."""

    LIST = "list"
    APPLY = "apply"


def topics(
    *,
    what: Annotated[What, typer.Argument(help="`list` the topics, or `apply` the files to the org.")] = What.LIST,
    yes: Annotated[bool, typer.Option("--yes", help="With apply: do not ask, as a terminal would be.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text; `apply` asks nothing.")] = False,
) -> None:
    """Compare the org's PushTopics with the files that define them, or apply the files to the org.

    `sfcdc topics apply` checks every definition in the folder SFCDC_PUSH_TOPICS (one TOML file a topic), shows what it
    would create, change and deactivate, and asks on a terminal. It never deletes, and leaves topics that no file
    defines as they are. Exit code 1 when a definition is refused (nothing is created then) or the plan is not applied.
    """
    settings = load_settings()
    with OrgSession(settings) as session:
        if what is What.LIST:
            ours = list(read_definitions(settings.push_topics).values())
            _list(ours, org_topics(session), as_json=as_json)
        else:
            _apply(settings, session, yes=yes, as_json=as_json)


def _list(ours: list[PushTopic], theirs: tuple[OrgTopic, ...], *, as_json: bool) -> None:
    defined = {topic.name.lower(): topic for topic in ours}
    in_org = {each.topic.name.lower(): each.topic for each in theirs}
    rows = [
        (in_org.get(name) or defined[name], _state(defined.get(name), in_org.get(name)))
        for name in sorted({*defined, *in_org})
    ]
    if as_json:
        say(json.dumps([{**asdict(topic), "state": state} for topic, state in rows]))
        return
    for topic, state in rows:
        say(f"{topic.name} ({state})")
        say(f"    {topic.query}")
        say(f"    {_notifies(topic)}")
    if not rows:
        say("No PushTopics, in the org or in files.")


def _notifies(topic: PushTopic) -> str:
    kinds = ", ".join(topic.operations) or "nothing"
    return f"notifies of {kinds}; looks at {topic.notify_for_fields} fields"


def _state(ours: PushTopic | None, theirs: PushTopic | None) -> str:
    if theirs is None:
        return "not created yet"
    active = "" if theirs.is_active else "inactive, "
    if ours is None:
        return f"{active}only in the org"
    changes = differences(ours, theirs)
    return f"{active}{'differs: ' + ', '.join(change.field for change in changes) if changes else 'as in its file'}"


def _apply(settings: Settings, session: OrgSession, *, yes: bool, as_json: bool) -> None:
    if not settings.push_topics.is_dir():
        problem = f"there is no folder {settings.push_topics}"
        raise SettingsError("SFCDC_PUSH_TOPICS", problem, "Put a TOML file for each topic into it")
    checked = checked_plan(session, settings.push_topics)
    if as_json:
        say(json.dumps({**checked.plan.to_json(), "warnings": checked.warnings, "applied": yes}))
    else:
        _show(checked)
    if not checked.plan.steps:
        return
    if not yes and not (not as_json and sys.stdin.isatty() and typer.confirm(_question(checked.plan))):
        say("Nothing was changed. `--yes` applies without a question.", err=True)
        raise typer.Exit(NOT_APPLIED)
    apply_steps(session, checked.plan.steps)
    if not as_json:
        say(f"Applied: {', '.join(step.topic.name for step in checked.plan.steps)}.")


def _show(checked: CheckedPlan) -> None:
    for step in checked.plan.steps:
        say(f"{SIGNS[step.action]} {step.action} {step.topic.name}")
        for line in _lines(step):
            say(f"    {line}")
    for warning in checked.warnings:
        say(f"! {warning}")
    if checked.plan.unchanged:
        say(f"= as in their files: {', '.join(checked.plan.unchanged)}")
    if checked.plan.not_ours:
        say(f"  only in the org, left as they are: {', '.join(checked.plan.not_ours)}")
    if not checked.plan.steps:
        say("Nothing to apply.")


def _lines(step: Step) -> list[str]:
    if step.action is Action.CREATE:
        return [step.topic.query, _notifies(step.topic)]
    return [str(change) for change in step.changes]


def _question(plan: Plan) -> str:
    count = len(plan.steps)
    return f"Apply {'this change' if count == 1 else f'these {count} changes'} to the org?"
