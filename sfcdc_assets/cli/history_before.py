"""`sfcdc history-before`: the versions of records before the first one that is known, from the org's field history."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timedelta
from itertools import groupby
from typing import Annotated

import typer

from sfcdc_assets.cli.terminal.options import moment_of
from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.cli.terminal.progress_display import ProgressDisplay
from sfcdc_assets.cli.terminal.stopping import stops_at_once
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.open_org import connect_for
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_connection.wanted_entities import entity_named
from sfcdc_assets.reconciliation.versions_before import VersionsBefore, versions_before
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import SettingsError, SfcdcError, counted
from sfcdc_assets.runtime.progress import Fact, FieldHistoryRead, RequestSent
from sfcdc_assets.runtime.times import duration_text
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.timeline.field_history import Why

KEPT = timedelta(days=730)
"""How long Salesforce keeps rows of field history at most."""
SHOWN = 8
_WORDS = {
    Why.GAP: "the value after a change is not the one before the next, so a change between them has no row, and the "
    "value in between is unknown",
    Why.NO_COLUMN: "rows of fields that the entity's tables do not have",
    Why.UNREADABLE: "values that are not of the column's type, or rows of one second that do not lead from one value "
    "to another",
    Why.NO_ID: "changes of a lookup whose row with ids is missing",
    Why.BEFORE_CREATION: "rows that are older than their record",
}


@stops_at_once
def history_before(
    *,
    entity: Annotated[
        list[str],
        typer.Option(metavar="ENTITY", help="Read the field history of this entity; may be given several times."),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; say what there is, and about what it would cost.")
    ] = False,
    tracked_since: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Since when history tracking has been on without a break, as the org's setup audit trail says. Fields "
            "whose rows go back to then have a certain value before their first change, too.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of sentences.")] = False,
) -> None:
    """Add versions from before the first snapshot to `history`, from the org's field history (AccountHistory ...).

    Salesforce keeps changes of tracked fields for 18 to 24 months. They are folded backwards from each record's first
    known version; `_certain_fields` names the columns whose values are proven, the others are unknown. What events and
    reads have proven is never changed, and run again, it adds what is missing. Exit code 1 where an entity has no field
    history, or not all of it could be read.
    """
    settings = load_settings()
    warehouse = Warehouse(settings.warehouse)
    known = warehouse.entities(current_state.LAYER)
    entities = [entity_named(each, known, "no entity of this name was copied") for each in entity]
    since = _moment(tracked_since) if tracked_since is not None else None
    warehouse.check_writable()
    reports: list[VersionsBefore] = []
    failed: list[SfcdcError] = []
    with connect_for(warehouse, settings) as org, ProgressDisplay(HistoryProgress()):
        run = OrgRunContext(warehouse=warehouse, settings=settings, org=org, run_id="sfcdc history-before")
        for each in entities:
            found = outcome_of(lambda name: versions_before(run, name, tracked_since=since, dry_run=dry_run), each)
            if isinstance(found, SfcdcError):
                failed.append(found)
            elif isinstance(found, Exception):
                raise found
            else:
                reports.append(found)
    if as_json:
        say(json.dumps({"entities": [each.to_json() for each in reports]}))
    else:
        for report in reports:
            show(report)
    for error in failed[:-1]:
        say(f"sfcdc: {error}", err=True)
    if failed:
        raise failed[-1]


def _moment(text: str) -> datetime:
    """Return the beginning of a day, or a moment, in UTC where it has no zone. Raises `SettingsError`."""
    moment = moment_of(text, "--tracked-since")
    now = clock.now()
    if not now - KEPT <= moment <= now:
        raise SettingsError(
            "--tracked-since",
            f"{text} is not within the last {KEPT.days} days, for which Salesforce keeps field history",
            f"Give a date from {now - KEPT:%Y-%m-%d} on",
        )
    return moment


def show(report: VersionsBefore) -> None:
    """Print what was found and done, and what of it does not fit."""
    name = report.field_history
    if report.rows == 0:
        say(f"{report.entity}: {name} has no rows: none of its fields is tracked, or nothing has changed since.")
        return
    rows = "rows that the org does not count" if report.rows is None else counted(report.rows, "row")
    if report.is_dry:
        say(f"{report.entity}: {name} has {rows}. To read them takes about {counted(report.requests, 'API request')}.")
        for each in report.fields:
            since = f", the oldest of {each.since:%Y-%m-%d}" if each.since else ""
            say(f"  {each.field}: {counted(each.rows, 'row')}{since}")
        return
    again = f"; {counted(report.done, 'record')} had theirs already" if report.done else ""
    say(
        f"{report.entity}: {counted(report.versions, 'version')} of {counted(report.records, 'record')} before the "
        f"first one that was known, from {counted(report.read, 'row')} of {name}{again}. "
        f"{counted(report.requests, 'API request')}."
    )
    in_order = sorted(report.misfits.items(), key=lambda each: (each[0][1], -each[1], each[0][0]))
    for why, group in groupby(in_order, key=lambda each: each[0][1]):
        found = [f"{field} {count:,}" for (field, _), count in group]
        more = f" and {len(found) - SHOWN} more fields" if len(found) > SHOWN else ""
        say(f"  {_WORDS[why]}: {', '.join(found[:SHOWN])}{more}.")


class HistoryProgress:
    """An observer: the rows that were read, of which entity, the versions that came of them, and what it cost."""

    def __init__(self) -> None:
        self._monotonic = clock.current().monotonic
        self._lock = threading.Lock()
        self._began = self._monotonic()
        self._requests = 0
        self._now: FieldHistoryRead | None = None

    def __call__(self, fact: Fact) -> None:
        """Take note of a fact."""
        with self._lock:
            if isinstance(fact, RequestSent):
                self._requests += 1
            elif isinstance(fact, FieldHistoryRead):
                self._now = fact

    def lines(self) -> list[str]:
        """Write the progress for a terminal."""
        return [self.line()]

    def line(self) -> str:
        """Write the progress for a log."""
        with self._lock:
            parts = [counted(self._requests, "API request"), duration_text(self._monotonic() - self._began)]
            if self._now is not None:
                of = f" of {self._now.rows_expected:,}" if self._now.rows_expected is not None else ""
                rows = f"{self._now.entity}: {self._now.rows:,}{of} rows of its field history read"
                parts = [rows, f"{counted(self._now.versions, 'version')} written", *parts]
            return "; ".join(parts)
