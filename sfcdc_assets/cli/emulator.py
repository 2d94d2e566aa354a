"""`sfcdc emulator`: serve an emulated org until interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sfcdc_assets.cli.interruption import Interruption
from sfcdc_assets.emulator.first_change import make_first_change
from sfcdc_assets.emulator.org import Org
from sfcdc_assets.emulator.server import EmulatorServer
from sfcdc_assets.emulator.server_errors import EmulatorDirectoryError
from sfcdc_assets.emulator.traffic import TrafficGenerator

_PROGRESS_SECONDS = 30.0
_POPULATED = "populated"


def emulator(
    directory: Annotated[
        Path, typer.Option("--dir", metavar="D", help="Folder of the org: its database, certificates and org.env.")
    ] = Path(".sfcdc/emulator"),
    rest_port: Annotated[
        int, typer.Option("--port-rest", metavar="N", min=0, max=65535, help="Port of REST; 0 takes a free one.")
    ] = 0,
    pubsub_port: Annotated[
        int, typer.Option("--port-pubsub", metavar="N", min=0, max=65535, help="Port of Pub/Sub; 0 takes a free one.")
    ] = 0,
    seed: Annotated[int, typer.Option(metavar="S", help="Seed of a new org's data and of the traffic.")] = 0,
    records: Annotated[
        int, typer.Option(metavar="N", min=0, help="Records of each object in a new org, there before any event.")
    ] = 100,
    traffic: Annotated[
        float, typer.Option(metavar="RATE", min=0, help="Transactions a second that the org makes by itself.")
    ] = 0,
) -> None:
    """Serve an emulated Salesforce org over TLS on this machine until interrupted.

    The folder keeps the org: started again with the same --dir, it has the same records, events and certificates.
    """
    console = Console(highlight=False, soft_wrap=True)
    with Interruption() as interruption:
        _serve(console, interruption, directory, rest_port, pubsub_port, seed, records, traffic)


def _serve(
    console: Console,
    interruption: Interruption,
    directory: Path,
    rest_port: int,
    pubsub_port: int,
    seed: int,
    records: int,
    traffic: float,
) -> None:
    org = open_org(directory, seed, records)
    try:
        with EmulatorServer(org, directory=directory, rest_port=rest_port, pubsub_port=pubsub_port) as server:
            make_first_change(org, server.bus)
            generator = TrafficGenerator(org, seed)
            console.print(f"Emulated org {org.organization_id}")
            console.print(f"  REST     {server.rest_url}")
            console.print(f"  Pub/Sub  {server.pubsub_endpoint}")
            console.print(f"  Settings {server.settings_file}")
            console.print(f"Use it:    set -a; . {server.settings_file}; set +a")
            console.print("Stop it:   Ctrl-C")
            if traffic:
                generator.start(traffic)
            try:
                while not interruption.wait(_PROGRESS_SECONDS):
                    console.print(progress(server))
            finally:
                generator.stop()
    finally:
        org.close()
    console.print("Stopped.")


def open_org(directory: Path, seed: int, records: int) -> Org:
    """The org of a folder, with day-0 records if it is new. Raises EmulatorDirectoryError if the folder cannot be used.

    A first start that was killed while it filled the org is begun again, since records and the mark that they are there
    are committed together.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise EmulatorDirectoryError(directory, error.strerror or "it cannot be written") from error
    org = Org(directory, seed=seed)
    with org.database.transaction():
        if org.database.setting(_POPULATED) is None:
            org.populate(records)
            org.database.set_setting(_POPULATED, str(records))
    return org


def progress(server: EmulatorServer) -> str:
    """One line on what the org has done so far."""
    return (
        f"{server.bus.last_number:,} events published, {server.meter.total:,} delivered since the start, "
        f"{server.service.open_streams} streams open"
    )
