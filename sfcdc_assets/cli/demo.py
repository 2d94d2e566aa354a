"""`sfcdc demo`: the main job on the emulated org, from nothing to tables that are proven equal to the org."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from sfcdc_assets.cli.demo_parts.demo_progress import Steps
from sfcdc_assets.cli.emulator_parts.extra import require_emulator
from sfcdc_assets.cli.syncing.sync_summary import suspect_records
from sfcdc_assets.cli.terminal.output import Screen, say
from sfcdc_assets.cli.terminal.stopping import drawing, stops_at_once
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.runtime.progress import observing
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.early_start import EarlySpark
from sfcdc_assets.spark.java import check_java

# The demo's org shows each commit at once, so reads of it can have their watermark at the stream's tip, and its stream
# does not pause between two events, so the end of a round's last transaction need not be waited for long. No audit goes
# round: at the end everything is compared. Polled objects are asked often enough for some polls within minutes, and may
# have all requests, as the org's day is not shared.
SETTINGS = {
    "SFCDC_VISIBILITY_SECONDS": "0",
    "SFCDC_SETTLE_SECONDS": "1",
    "SFCDC_AUDIT_PERCENT": "0",
    "SFCDC_POLL_SECONDS": "60",
    "SFCDC_POLL_PERCENT": "100",
}

HEALING_SECONDS = 120.0
"""After the last round, for read-backs whose pause is not over."""
PAUSE_SECONDS = 5.0


@stops_at_once
def demo(
    directory: Annotated[
        Path, typer.Option("--dir", metavar="D", help="Work in this folder, which is emptied first.")
    ] = Path(".sfcdc/demo"),
    records: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Begin with so many records of each object that has change events; polled ones have fewer.",
        ),
    ] = 1000,
    events: Annotated[
        int, typer.Option(metavar="N", min=0, help="Make so many change events, over all rounds.")
    ] = 3_000,
    rounds: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Make the events in so many rounds; the tables follow one while the org makes the next.",
        ),
    ] = 2,
    holes: Annotated[
        float,
        typer.Option(
            metavar="SHARE", min=0, max=1, help="Let this share of the transactions meet a hole in the stream."
        ),
    ] = 0.02,
    seed: Annotated[int, typer.Option(metavar="S", help="Make data and traffic from this seed.")] = 1,
) -> None:
    """Copy an emulated org, follow its changes of every kind, and compare every table with it, field by field.

    Starts an org of 40 objects, five of which have change events, takes the snapshots, then has the org change in
    rounds, with holes of every kind (gaps, overflows, unreadable events, duplicates ...), which Dagster's sensors and
    runs follow; the other 35 objects are polled. A PushTopic, a generic channel and a platform event come along. Exit
    code 0 only if every table equals the org and nothing is suspect.
    """
    require_emulator()
    check_java()
    from sfcdc_assets.cli.demo_parts.demo_org import CHANNELS, COPIED, POLLED, STREAMED, demo_org  # noqa: PLC0415

    started, since = time.monotonic(), time.time()
    warehouse = _begin_in(directory)
    with drawing() as terminal, Steps(Screen(file=terminal), rounds + 4) as steps, ExitStack() as stack:
        steps.begin(f"an org of {len(COPIED)} objects is made, {len(STREAMED)} of which have change events")
        org = stack.enter_context(demo_org(directory, records, seed, holes))
        early = EarlySpark(load_settings())
        early.start()  # it is wanted for the first tables, and starts while the org is filled and Dagster is loaded
        from sfcdc_assets.cli.demo_parts.demo_polls import finish_polls  # noqa: PLC0415
        from sfcdc_assets.cli.demo_parts.demo_report import (  # noqa: PLC0415
            compared_streams,
            description,
            healing_figures,
        )
        from sfcdc_assets.cli.local_dagster.drive import sync_channels  # noqa: PLC0415
        from sfcdc_assets.cli.local_dagster.instance import dagster_instance  # noqa: PLC0415
        from sfcdc_assets.cli.verify import show, verify_entities  # noqa: PLC0415
        from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels  # noqa: PLC0415

        instance = stack.enter_context(dagster_instance())
        served = org.served()
        os.environ.update(
            served.environment,
            **SETTINGS,
            SFCDC_CHANNELS=",".join(CHANNELS),
            SFCDC_POLL=",".join(POLLED),
            SFCDC_POLL_OBJECTS=str(_let_shares_vanish(directory / "polled_objects", POLLED)),
        )
        steps.org_is_up(served.url)
        stack.enter_context(observing(steps.observe))
        # Between two rounds the subscriptions stay open, as between two ticks of a sensor.
        channels = stack.enter_context(OpenChannels(forgotten_seconds=math.inf))

        def sync() -> int:
            done = sync_channels(instance, until_caught_up=True, report=steps.tell, channels=channels, early=early)
            return len(done)

        steps.begin("day 0: every record is copied")
        ticks = sync()
        org.begin_round(events // rounds)
        for number in range(1, rounds + 1):
            transactions = org.end_round()
            going_on = ", and the org goes on changing" if number < rounds else ""
            steps.begin(f"round {number} of {rounds}: the tables follow {transactions:,} transactions{going_on}")
            if number < rounds:
                org.begin_round(events // rounds)
            ticks += sync()
        steps.begin(f"{len(POLLED)} polled objects are asked, and compared where no stamp tells")
        ticks += finish_polls(warehouse, load_settings(), sync)
        ticks += read_back_suspects(warehouse, sync, steps.tell)
        steps.begin("every table is compared with the org, field by field")
        reports = verify_entities([], steps.tell, channels=channels)
        facts = org.facts()
        of_streams = list(compared_streams(warehouse, facts, channels))
        healing = healing_figures(warehouse, instance, facts.entities, since)
    show(reports)
    equal = all(report.is_equal for report in reports) and all(is_equal for _, _, is_equal in of_streams)
    rows: list[tuple[str, str | Text]] = [
        ("snapshot rows", f"{served.records:,}"),
        ("objects compared", f"{len(reports)}, {len(POLLED)} of them polled"),
        ("transactions", f"{facts.transactions:,}"),
        ("record changes", ", ".join(f"{count:,} {kind.lower()}" for kind, count in facts.changes.most_common())),
        ("deliveries charged", f"{facts.delivered:,}, {facts.delivered / facts.published:.3f} an event"),
        ("holes in the stream", description(facts.holes)),
        *healing.rows(),
        *((channel, said) for channel, said, _ in of_streams),
        ("sensor ticks", str(ticks)),
        ("seconds", f"{time.monotonic() - started:.0f}"),
        ("every table equals the org", Text("yes", "green") if equal else Text("no", "red")),
    ]
    Screen().print(_summary(rows))
    ask = f"SFCDC_WAREHOUSE={shlex.quote(warehouse.root)} sfcdc sql"
    say(f"""The org has ended, its tables stay. Ask them: {ask} 'SELECT * FROM account LIMIT 5'""", err=True)
    if healing.left or not equal or len(reports) != len(COPIED):
        raise typer.Exit(3)


def read_back_suspects(warehouse: Warehouse, sync: Callable[[], int], tell: Callable[[str], object]) -> int:
    """Sync until no suspect record is left, for `HEALING_SECONDS` at most; returns the ticks of the syncs.

    A record that the org shows late is read again after half a minute, and of some reasons its row says nothing: the
    comparison with the org alone would not notice that one is still open.
    """
    ticks, ends_at = 0, clock.current().monotonic() + HEALING_SECONDS
    while (left := suspect_records(warehouse)) and clock.current().monotonic() < ends_at:
        if not ticks:
            tell(f"{counted(left, 'suspect record')} left, to be read back after a pause of half a minute.")
        clock.sleep(PAUSE_SECONDS)
        ticks += sync()
    return ticks


def _begin_in(directory: Path) -> Warehouse:
    """Empty the folder, and forget settings that are about another org; the demo's warehouse."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700, parents=True)
    for name in [name for name in os.environ if name.startswith("SFCDC_") and not name.startswith("SFCDC_SPARK_")]:
        del os.environ[name]
    return Warehouse(str(directory / "warehouse"))


def _let_shares_vanish(folder: Path, polled: Iterable[str]) -> Path:
    """Many records get another owner, which replaces their shares: that these vanish is no sign of a lost permission.
    Returns the folder with the files that say so."""
    folder.mkdir()
    for entity in polled:
        if entity.endswith("Share"):
            (folder / f"{entity}.toml").write_text("vanish_percent = 100\n", encoding="utf-8")
    return folder


def _summary(rows: Iterable[tuple[str, str | Text]]) -> Table:
    table = Table("demo", "", show_header=False, title="Summary", title_justify="left")
    for name, value in rows:
        table.add_row(name, value)
    return table
