"""`sfcdc demo`: the main job on the emulated org, from nothing to tables that are proven equal to the org."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sfcdc_assets.spark.java import check_java


def demo(
    directory: Annotated[Path, typer.Option("--dir", help="Folder of the demo; emptied at the start.")] = Path(
        ".sfcdc/demo"
    ),
    records: Annotated[int, typer.Option(help="Records of each object on day 0.")] = 6500,
    events: Annotated[int, typer.Option(help="Change events to make, over all rounds.")] = 21_000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of traffic, each followed by ticks and runs.")] = 6,
    seed: Annotated[int, typer.Option(help="Seed of the org's data and traffic.")] = 1,
) -> None:
    """Copy an emulated org, follow its changes of every kind, and compare every table with the org field by field.

    Starts an org of its own (REST and Pub/Sub over TLS on loopback), takes the snapshots, then makes traffic in rounds,
    each followed by sensor ticks and runs through Dagster. Exit code 0 only if every table equals the org.
    """
    check_java()
    from sfcdc_assets.cli.ticks import dagster_instance, sync_channels  # noqa: PLC0415 - Dagster takes seconds to load
    from sfcdc_assets.cli.verify import show, verify_entities  # noqa: PLC0415
    from sfcdc_assets.emulator.org import Org  # noqa: PLC0415
    from sfcdc_assets.emulator.server import EmulatorServer  # noqa: PLC0415
    from sfcdc_assets.emulator.traffic import TrafficGenerator  # noqa: PLC0415

    console = Console(stderr=True)
    started = time.monotonic()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name in [name for name in os.environ if name.startswith("SFCDC_") and not name.startswith("SFCDC_SPARK_")]:
        del os.environ[name]
    org = Org(directory / "org.db", seed=seed)
    org.populate(records, seed)
    with EmulatorServer(org, directory=directory) as server, dagster_instance() as instance:
        os.environ.update(server.client_environment(), SFCDC_WAREHOUSE=str(directory / "warehouse"))
        console.print(f"An org with {records:,} records of each object is at {server.rest_url}.")
        ticks = 0

        def sync() -> int:
            return len(
                sync_channels(instance, until_caught_up=True, tell=lambda line: console.print(line, markup=False))
            )

        ticks += sync()
        traffic = TrafficGenerator(org, seed, bus=server.bus)
        for number in range(1, rounds + 1):
            traffic.run(events=events // rounds)
            console.print(f"Round {number} of {rounds}: {traffic.transactions:,} transactions so far.")
            ticks += sync()
        reports = verify_entities([])
        operations = Counter(change.change_type for each in org.transactions() for change in each.changes)
    show(reports)
    summary = Table("demo", "", show_header=False, title="Summary", title_justify="left")
    summary.add_row("snapshot rows", f"{records * len(org.definitions):,}")
    summary.add_row("transactions", f"{traffic.transactions:,}")
    summary.add_row(
        "record changes", ", ".join(f"{count:,} {kind.lower()}" for kind, count in operations.most_common())
    )
    summary.add_row("sensor ticks", str(ticks))
    summary.add_row("seconds", f"{time.monotonic() - started:.0f}")
    equal = not any(report.differences for report in reports)
    summary.add_row("every table equals the org", "[green]yes[/green]" if equal else "[red]no[/red]")
    Console().print(summary)
    if not equal:
        raise typer.Exit(3)
