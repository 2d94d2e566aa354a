"""What `sfcdc doctor --objects` shows: every object of the org, and how it is or could be fed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.live import Live

from sfcdc_assets.cli.terminal.fitting_table import Column, print_table
from sfcdc_assets.cli.terminal.output import Screen, say
from sfcdc_assets.doctor.org_objects import SELECTABLE, OrgObject, OrgObjects, org_objects
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.runtime.foreign_text import terminal_text
from sfcdc_assets.settings.channel_kinds import is_polled
from sfcdc_assets.settings.settings import Settings, load_settings

_COLUMNS = (
    Column("object"),
    Column("rows", 2),
    Column("changes a day", 1),
    Column("fed by"),
    Column("requests a day", 3),
    Column("advice", 4),
)


def show_objects(*, as_json: bool) -> None:
    """Print every object of the org. Raises what the org refuses."""
    settings = load_settings()
    screen = Screen(stderr=True)
    with (
        Live(console=screen, transient=True, auto_refresh=False) as live,
        connect(settings) as org,
    ):

        def tell(what: str, done: int, all_: int) -> None:
            if screen.is_terminal:
                live.update(terminal_text(f"{what}: {done:,} of {all_:,}"), refresh=True)

        found = org_objects(org, settings, tell)
    if as_json:
        of_objects = [asdict(each) for each in found.objects]
        asked = {"requests": found.spent, "push_topics": found.topics, "remarks": found.remarks}
        say(json.dumps({"objects": of_objects, "change_events": found.for_events, **asked}))
        return
    print_table("Objects of the org", _COLUMNS, [_row(each) for each in found.objects], left_out="--json has all.")
    for line in _summary(found, settings):
        say(line)


def _row(each: OrgObject) -> tuple[str, ...]:
    return (
        each.entity,
        "-" if each.rows is None else f"{each.rows:,}",
        "-" if each.changes is None else f"{each.changes:,}",
        each.fed_by or ("cannot be polled" if each.why_not else "nothing"),
        "-" if each.requests is None or (each.fed_by and not is_polled(each.fed_by)) else f"{each.requests:,.0f}",
        _advice(each),
    )


def _advice(each: OrgObject) -> str:
    if each.deserves_events:
        return "change events" if each.fed_by is None or is_polled(each.fed_by) else "change events, as it has"
    if each.why_not:
        return each.why_not.rstrip(".")
    if each.live_topic:
        return "a PushTopic could make it live"
    way = "" if each.fed_by else "can be polled (SFCDC_POLL)"
    how = "compared as a whole, as no stamp tells what changed" if each.is_compared else ""
    return ": ".join(filter(None, (way, how)))


def _summary(found: OrgObjects, settings: Settings) -> Iterator[str]:
    if found.for_events:
        yield (
            f"Of {SELECTABLE} objects that may have change events without an add-on, these change most: "
            f"{', '.join(found.for_events)}."
        )
    live = sum(each.live_topic for each in found.objects)
    if live:
        yield f"{counted(live, 'object')} more could be live by PushTopics; the org may have {found.topics} of them."
    yield (
        f"Polling what SFCDC_POLL takes today, every {settings.poll_seconds:g} s: about {found.requests:,.0f} API "
        "requests a day, beside the first copies."
    )
    yield from found.remarks
    yield f"Finding this out took {counted(found.spent, 'API request')}."
