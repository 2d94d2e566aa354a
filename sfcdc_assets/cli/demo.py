"""`sfcdc demo`: the main job on the emulated org, from nothing to tables that are proven equal to the org."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sfcdc_assets.cli.demo_progress import Steps
from sfcdc_assets.cli.emulator_extra import require_emulator
from sfcdc_assets.cli.stopping import drawing, stops_at_once
from sfcdc_assets.config import load_settings
from sfcdc_assets.spark.early import EarlySpark
from sfcdc_assets.spark.java import check_java

# The demo's org shows each commit at once, so reads of it can have a watermark close to the stream's tip, and its
# stream does not pause between two events, so the end of a round's last transaction need not be waited for long.
NEVER_LATE = {"SFCDC_VISIBILITY_SECONDS": "0.5", "SFCDC_SETTLE_SECONDS": "1"}


@stops_at_once
def demo(  # noqa: PLR0915 - one story, from nothing to the summary
    directory: Annotated[
        Path, typer.Option("--dir", metavar="D", help="Work in this folder, which is emptied first.")
    ] = Path(".sfcdc/demo"),
    records: Annotated[int, typer.Option(metavar="N", min=0, help="Begin with so many records of each object.")] = 6500,
    events: Annotated[
        int, typer.Option(metavar="N", min=0, help="Make so many change events, over all rounds.")
    ] = 21_000,
    rounds: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Make the events in so many rounds, each followed by ticks and runs."),
    ] = 6,
    holes: Annotated[
        float,
        typer.Option(
            metavar="SHARE", min=0, max=1, help="Let this share of the transactions meet a hole in the stream."
        ),
    ] = 0.02,
    seed: Annotated[int, typer.Option(metavar="S", help="Make data and traffic from this seed.")] = 1,
) -> None:
    """Copy an emulated org, follow its changes of every kind, and compare every table with the org field by field.

    Starts an org of its own (REST and Pub/Sub over TLS on loopback), takes the snapshots, then makes traffic in rounds,
    with holes of every kind (gaps, overflows, unreadable events, duplicates ...), each round followed by sensor ticks
    and runs through Dagster. A PushTopic, a generic channel and a platform event come along. Exit code 0 only if every
    table equals the org and no doubt is left.
    """
    require_emulator()
    check_java()
    from sfcdc_assets.cli.demo_streams import CHANNELS, DemoStreams  # noqa: PLC0415
    from sfcdc_assets.cli.healing_figures import description, healing_figures  # noqa: PLC0415 - Dagster takes seconds to load
    from sfcdc_assets.cli.ticks import dagster_instance, sync_channels  # noqa: PLC0415
    from sfcdc_assets.cli.verify import show, verify_entities  # noqa: PLC0415
    from sfcdc_assets.emulator.first_change import make_first_change  # noqa: PLC0415
    from sfcdc_assets.emulator.org import EmulatedOrg  # noqa: PLC0415
    from sfcdc_assets.emulator.server import EmulatorServer  # noqa: PLC0415
    from sfcdc_assets.emulator.settings import OrgSettings  # noqa: PLC0415
    from sfcdc_assets.emulator.traffic import FULL_MIX, TrafficGenerator  # noqa: PLC0415
    from sfcdc_assets.emulator.traffic_holes import HoleMix  # noqa: PLC0415
    from sfcdc_assets.lake.warehouse import Warehouse  # noqa: PLC0415

    started, since = time.monotonic(), time.time()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name in [name for name in os.environ if name.startswith("SFCDC_") and not name.startswith("SFCDC_SPARK_")]:
        del os.environ[name]
    with drawing() as terminal, Steps(Console(file=terminal), 2 * rounds + 3) as steps, ExitStack() as stack:
        steps.begin(f"an org with {records:,} records of each object is made")
        org = EmulatedOrg(directory / "org.db", seed=seed, settings=OrgSettings(diff_convention="mixed"))
        org.populate(records, seed)
        server = stack.enter_context(EmulatorServer(org, directory=directory))
        instance = stack.enter_context(dagster_instance())
        os.environ.update(server.client_environment(), **NEVER_LATE, SFCDC_CHANNELS=",".join(CHANNELS))
        steps.tell(f"The org is at {server.rest_url}.")
        make_first_change(org, server.bus)
        streams = DemoStreams(server, org)
        ticks = 0
        early = EarlySpark(load_settings())
        early.start()  # it is wanted for the first snapshot, which takes longer than its start

        def sync() -> int:
            return len(sync_channels(instance, until_caught_up=True, tell=steps.tell, early=early))

        steps.begin("day 0: every record is copied")
        ticks += sync()
        # Few holes that put a whole table in doubt: each has the table copied again, which is what the demo waits for.
        mix = HoleMix(overflow=0.5, wildcard=0.5, garbled_header=0.5)
        traffic = TrafficGenerator(org, seed, FULL_MIX, bus=server.bus, holes=holes, hole_mix=mix)
        for number in range(1, rounds + 1):
            steps.begin(f"round {number} of {rounds}: the org changes")
            traffic.run(events=events // rounds)
            streams.send(number)
            steps.begin(f"round {number} of {rounds}: the tables follow {traffic.transactions:,} transactions")
            ticks += sync()
        steps.begin("every table is compared with the org, field by field")
        reports = verify_entities([], steps.tell)
        of_streams = list(streams.rows(Warehouse(str(directory / "warehouse"))))
        healing = healing_figures(Warehouse(str(directory / "warehouse")), instance, org.selected_entities, since)
        published, delivered = server.bus.last_number, server.meter.total
        operations = Counter(change.change_type for each in org.transactions() for change in each.changes)
    show(reports)
    equal = all(report.is_equal for report in reports) and all(is_equal for _, _, is_equal in of_streams)
    rows = [
        ("snapshot rows", f"{records * len(org.definitions):,}"),
        ("transactions", f"{traffic.transactions:,}"),
        ("record changes", ", ".join(f"{count:,} {kind.lower()}" for kind, count in operations.most_common())),
        ("deliveries charged", f"{delivered:,}, {delivered / published:.3f} an event"),
        ("holes in the stream", description(traffic.holes.made)),
        *healing.rows(),
        *((channel, said) for channel, said, _ in of_streams),
        ("sensor ticks", str(ticks)),
        ("seconds", f"{time.monotonic() - started:.0f}"),
        ("every table equals the org", "[green]yes[/green]" if equal else "[red]no[/red]"),
    ]
    Console().print(_summary(rows))
    if healing.left or not equal:
        raise typer.Exit(3)


def _summary(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table("demo", "", show_header=False, title="Summary", title_justify="left")
    for name, value in rows:
        table.add_row(name, value)
    return table
