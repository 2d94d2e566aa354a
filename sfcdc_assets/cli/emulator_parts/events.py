"""`sfcdc emulator events`: the events of an org that is being served, decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from sfcdc_assets.cli.emulator_parts.control import AsJson, Folder, printable, served_org
from sfcdc_assets.cli.terminal.interruption import Interruption
from sfcdc_assets.runtime.times import utc

_PAGE = 500
_WAIT_SECONDS = 1
"""How long a request waits for events, and Ctrl-C for its end."""
_COLOURS = {"create": "green", "update": "blue", "delete": "red", "undelete": "cyan", "published": "white"}
_COLOURS |= {f"{change}d": colour for change, colour in _COLOURS.items()} | {"pushed": "white"}
_LONGEST = 60
_HEADER = "ChangeEventHeader"
_SHOWN_IDS = 3


def events(
    *,
    context: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with those that come, until Ctrl-C.")] = False,
    last: Annotated[int, typer.Option(metavar="N", min=0, help="Begin with this many of the newest.")] = 20,
    entity: Annotated[str, typer.Option(metavar="OBJECT", help="Of one object, platform event or channel.")] = "",
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Print the events of the emulated org, decoded, each once, oldest first: changes of records, platform events,
    notifications of PushTopics and what is pushed to generic channels. The second column says which.

    Watching is no subscription: it uses up no deliveries, and no fault strikes it. With --json, each line is one event:
    `kind`, `replay_id`, `event_id`, `entity`, `schema_id`, `payload` and `at` (epoch ms).
    """
    with served_org(context, folder) as org:
        chosen = {"entity": entity} if entity else {}
        page = org.get("/feed", limit=max(1, last), **chosen)
        _print(page["events"][-last:] if last else (), as_json=as_json)
        if not follow:
            return
        with Interruption() as interruption:
            while not interruption.wait(0):
                page = org.get("/feed", after=page["next_after"], limit=_PAGE, wait=_WAIT_SECONDS, **chosen)
                _print(page["events"], as_json=as_json)


def _print(found: Any, *, as_json: bool) -> None:
    for event in found:
        typer.echo(json.dumps(event) if as_json else event_line(event))


def event_line(event: Mapping[str, Any]) -> str:
    """Return an event of the feed in a line of a terminal."""
    payload, moment = event["payload"], event["at"]
    what, ids, values = _shown(event["kind"], payload)
    named = " ".join(ids[:_SHOWN_IDS]) + (f" and {len(ids) - _SHOWN_IDS} more" if len(ids) > _SHOWN_IDS else "")
    parts = (
        f"{utc(moment):%H:%M:%S}" if moment else "        ",
        f"{event['kind']:<14}",
        typer.style(f"{what:<9}", fg=_COLOURS.get(what.lower(), "yellow")),
        printable(event["entity"]),
        typer.style(printable(named), dim=True),
        "  ".join(f"{printable(name)}={_short(value)}" for name, value in _flat(values)),
    )
    return "  ".join(part for part in parts if part)


def _shown(kind: str, payload: Mapping[str, Any]) -> tuple[str, Sequence[str], Mapping[str, Any]]:
    """Return what happened, the ids of records it happened to, and the fields that came."""
    if kind == "PushTopic":
        return payload["event"]["type"], [payload["sobject"]["Id"]], payload["sobject"]
    if kind == "generic":
        return "pushed", [], {"payload": payload["payload"]}
    if kind == "platform event":
        return "published", [], payload
    header = payload.get(_HEADER, {})
    body = {name: value for name, value in payload.items() if name != _HEADER}
    return str(header.get("changeType", "unreadable")), header.get("recordIds", []), body


def _flat(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and "diff" not in value:
            yield from ((f"{name}.{part}", each) for part, each in value.items())
        else:
            yield name, "a diff" if isinstance(value, dict) else value


def _short(value: Any) -> str:
    if value is None:
        return "null"
    text = printable(value if isinstance(value, str) else json.dumps(value))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
