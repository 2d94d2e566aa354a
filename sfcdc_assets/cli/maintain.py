"""`sfcdc maintain`: tables packed, old versions and cuts forgotten, now instead of tonight."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sfcdc_assets.cli.terminal.output import Screen, say
from sfcdc_assets.cli.terminal.stopping import drawing, stops_at_once
from sfcdc_assets.lake.maintenance.maintain import maintain_with_settings
from sfcdc_assets.lake.maintenance.table_done import TableDone, summary_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.settings.settings import load_settings


@stops_at_once
def maintain(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, when all is done, instead of lines.")] = False,
) -> None:
    """Compact, vacuum and prune the warehouse, so that it stays fast as it ages.

    Packs the small files of tables that are only appended to; forgets consistent cuts as they age
    (SFCDC_CUT_BATCH_HOURS, SFCDC_CUT_MINUTE_HOURS, SFCDC_CUT_HOUR_HOURS, SFCDC_CUT_RETENTION_DAYS); deletes files and
    log entries that no kept cut and no reader of the last half hour needs, and after a week those that killed tasks
    left; writes a checkpoint of each table's log. No row changes.

    Dagster does this every night (schedule `maintain_every_night`), and what cuts need less of every ten minutes
    (`thin_out_often`). Where only `sfcdc sync` runs, from cron, run this once a day. It is safe at any time,
    beside syncs and sensors too, and may be stopped. Makes no API calls.

    Prints a line for each table in which there was something to do. Exit code 1 where a table is damaged or cannot be
    written; each is named with its remedy, and the others are maintained.
    """
    settings = load_settings()
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_writable()
    done: list[TableDone] = []
    with drawing() as terminal, Screen(file=terminal).status("Maintaining raw_events ...") as progress:
        for each in maintain_with_settings(warehouse, settings, clock.now_ms()):
            done.append(each)
            progress.update(f"{counted(len(done), 'table')} done, last {each.table}, {each.seconds:.1f} s")
            if not as_json and each.is_worth_telling:
                say(str(each))
    if as_json:
        say(json.dumps({"tables": [each.to_json() for each in done]}))
    else:
        say(summary_of(done))
    if any(each.failure for each in done):
        raise typer.Exit(1)
