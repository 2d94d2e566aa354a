"""`sfcdc forget`: a record erased from every table, and kept out."""

from __future__ import annotations

import getpass
import json
import os
from pathlib import Path
from socket import gethostname
from typing import Annotated, Any

import typer

from sfcdc_assets.cli.forget_samples import forget_stored_samples
from sfcdc_assets.cli.terminal.output import Screen, say
from sfcdc_assets.cli.terminal.stopping import drawing, stops_at_once
from sfcdc_assets.lake.erasure.erase import Found, check_known, erase, find
from sfcdc_assets.lake.tables import current_state, raw_events, snapshots
from sfcdc_assets.lake.tables.erasure_receipts import Done, OnNewEvent, hash_of
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.wanted_entities import entity_named
from sfcdc_assets.runtime.errors import SettingsError, counted
from sfcdc_assets.runtime.progress import Fact, TableSearched, observing
from sfcdc_assets.salesforce.record_id import eighteen_characters
from sfcdc_assets.settings.settings import load_settings

SAMPLES_LEFT = (
    "Dagster's event log, as DAGSTER_HOME is not set: run `sfcdc forget-samples` there if SFCDC_SAMPLE_ROWS "
    "ever was set"
)


@stops_at_once
def forget(
    *,
    entity: Annotated[str, typer.Option(metavar="ENTITY", help="The object of the records.")],
    record_id: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="A record, by its 15 or 18 characters; may be given several times."),
    ] = None,
    ids_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with the ids of records, one a line.")
    ] = None,
    on_new_event: Annotated[
        OnNewEvent,
        typer.Option(
            help="What an event does that names the record and is committed later: refuse it, so that the record never "
            "comes back, or let it be a new-life, from which on the record is one as any other."
        ),
    ] = OnNewEvent.REFUSE,
    by: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Who is to stand in the receipt; by default the user of this machine."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; say where the records are found.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of sentences.")] = False,
) -> None:
    """Erase records from every table, old files included, and keep them out.

    Rows of current_state, history, text_fields, snapshots, ledgers, formula values and PushTopics go, and so do the
    payloads of their events, in quarantine too; the headers of these stay, without the Id. Histories, feeds and shares
    of the records go with them. Files of older versions are deleted at once, and consistent cuts that need them are
    dropped. A receipt in `erasure_receipts` says what, where, when and by whom, with a hash of the Id and no value.

    No redelivered event, snapshot, read-back, poll, audit or rebuild brings the records back. Other records stay as
    they are. Safe beside runs and sensors, and to repeat after a crash. Makes no API calls, and changes nothing in the
    org. Exit code 1 where an id is unknown: nothing was changed then.
    """
    settings = load_settings()
    warehouse = Warehouse(settings.warehouse)
    # Where channels alone are landed, and no entity, an Id says enough.
    name = entity_named(entity, _known(warehouse) or {entity}, "no entity of this name was copied")
    records = {name: frozenset(_ids([*(record_id or []), *_lines(ids_file)]))}
    with drawing() as terminal, Screen(file=terminal).status("Searching ...") as progress:

        def show(fact: Fact) -> None:
            if isinstance(fact, TableSearched):
                what = "erased" if fact.erased else "found"
                progress.update(f"{fact.table}: {counted(fact.rows, 'row')} {what}")

        with observing(show):
            if dry_run:
                check_known(warehouse, records)
                found = find(warehouse, records)
            else:
                warehouse.check_writable()
                check_known(warehouse, records)
                has_dagster = bool(os.environ.get("DAGSTER_HOME"))
                receipt, done = erase(
                    warehouse,
                    records,
                    on_new_event=on_new_event,
                    by=by or _user(),
                    not_erased=() if has_dagster else (SAMPLES_LEFT,),
                )
                # Last: a run that was at work may have shown the record until now.
                samples = forget_stored_samples() if has_dagster else None
    hashes = {each: hash_of(each) for each in sorted(records[name])}
    if dry_run:
        say(json.dumps({"entity": name, **found.to_json()})) if as_json else _show_found(name, found)
    elif as_json:
        say(json.dumps(_as_json(name, receipt, done, samples, list(hashes.values()), on_new_event)))
    else:
        _show_done(name, receipt, done, samples, len(hashes), on_new_event)


def _known(warehouse: Warehouse) -> set[str]:
    events = RawEvents.open(warehouse).counts() if raw_events.NAME in warehouse.entities("") else {}
    return {*warehouse.entities(snapshots.LAYER), *warehouse.entities(current_state.LAYER), *events}


def _lines(file: Path | None) -> list[str]:
    if file is None:
        return []
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise SettingsError("--ids-file", f"{file} cannot be read: {why}", "Name a text file, an id a line") from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def _ids(given: list[str]) -> list[str]:
    """Return ids in 18 characters. Raises `SettingsError` for one that is none, or whose last three characters are not
    those of its first fifteen: a mistyped id is another record's."""
    if not given:
        raise SettingsError("--id", "is not given", "Name the records, here or in --ids-file")
    found = []
    for each in given:
        try:
            whole = eighteen_characters(each)
        except ValueError:
            raise SettingsError(
                "--id", f"{each!r} is not a Salesforce id of 15 or 18 characters", "Correct it"
            ) from None
        if len(each) == 18 and whole != each:
            raise SettingsError(
                "--id",
                f"{each}: the last three characters are not those of {each[:15]}, so a character is mistyped",
                f"It would be {whole} if the first fifteen are right",
            )
        found.append(whole)
    return found


def _user() -> str:
    """Return who runs this, as the system knows it: in a container the number may be all."""
    try:
        return f"{getpass.getuser()}@{gethostname()}"
    except (KeyError, OSError):
        return f"{os.getuid()}@{gethostname()}"


def _show_found(entity: str, found: Found) -> None:
    for table, rows in found.rows.items():
        old = len(found.files.get(table, ()))
        if rows or old:
            say(f"{table}: {counted(rows, 'row')}" + (f", and {counted(old, 'file')} of older versions" if old else ""))
    say(f"{entity}: nothing was changed.", err=True)


def _show_done(
    entity: str, receipt: str, done: Done, samples: int | None, records: int, on_new_event: OnNewEvent
) -> None:
    for table, rows in sorted(done.erased.items()):
        say(f"{table}: {counted(rows, 'row')} erased")
    cuts = f", {counted(done.cuts_dropped, 'consistent cut')} that needed them dropped" if done.cuts_dropped else ""
    shown = f"; samples deleted from {counted(samples, 'event')} of Dagster" if samples else ""
    later = "are refused" if on_new_event is OnNewEvent.REFUSE else "start the record again"
    say(
        f"{entity}: {counted(records, 'record')} erased; {counted(done.files_deleted, 'file')} of older versions "
        f"deleted{cuts}{shown}. New events of it {later}. Receipt {receipt}."
    )
    for each in done.not_erased:
        say(f"not erased: {each}")


def _as_json(
    entity: str, receipt: str, done: Done, samples: int | None, hashes: list[str], on_new_event: OnNewEvent
) -> dict[str, Any]:
    return {
        "entity": entity,
        "receipt": receipt,
        "record_sha256": hashes,
        "on_new_event": on_new_event.value,
        "erased": dict(sorted(done.erased.items())),
        "files_deleted": done.files_deleted,
        "cuts_dropped": done.cuts_dropped,
        "samples_deleted": samples,
        "not_erased": list(done.not_erased),
    }
