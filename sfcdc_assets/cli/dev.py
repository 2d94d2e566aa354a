"""`sfcdc dev`: the Dagster UI over a live, busy emulated org, or over your own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from sfcdc_assets.config import load_settings
from sfcdc_assets.errors import SettingsError
from sfcdc_assets.spark.java import check_java


def dev(
    directory: Annotated[
        Path, typer.Option("--dir", help="Folder of the org, the warehouse and Dagster's home.")
    ] = Path(".sfcdc/dev"),
    port: Annotated[int, typer.Option(help="Port of the Dagster UI.")] = 3000,
    records: Annotated[int, typer.Option(help="Records of each object of the emulated org.")] = 2000,
    traffic: Annotated[float, typer.Option(help="Transactions a second in the emulated org.")] = 5.0,
    seed: Annotated[int, typer.Option(help="Seed of the emulated org's data and traffic.")] = 1,
) -> None:
    """Serve the Dagster UI on 127.0.0.1 with the sensors on, until interrupted.

    Without SFCDC_INSTANCE_URL an emulated org with steady traffic is started first. State is kept in the folder, so the
    next start goes on from there.
    """
    check_java()
    workspace = Path("workspace.yaml").absolute()
    if not workspace.exists():
        raise SettingsError("workspace.yaml", "is not in this folder", "Run from the root of a clone")
    home = (directory / "dagster_home").absolute()
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy("dagster.yaml", home / "dagster.yaml")
    environment = {**os.environ, "DAGSTER_HOME": str(home)}
    if load_settings().instance_url:
        _serve_ui(workspace, port, environment)
        return
    from sfcdc_assets.emulator.org import Org  # noqa: PLC0415 - not needed over a real org
    from sfcdc_assets.emulator.server import EmulatorServer  # noqa: PLC0415
    from sfcdc_assets.emulator.traffic import TrafficGenerator  # noqa: PLC0415

    fresh = not (directory / "org.db").exists()
    org = Org(directory / "org.db", seed=seed)
    if fresh:
        org.populate(records, seed)
    with EmulatorServer(org, directory=directory) as server:
        generator = TrafficGenerator(org, seed, bus=server.bus)
        generator.start(traffic)
        try:
            warehouse = environment.get("SFCDC_WAREHOUSE", str((directory / "warehouse").absolute()))
            _serve_ui(workspace, port, {**environment, **server.client_environment(), "SFCDC_WAREHOUSE": warehouse})
        finally:
            generator.stop()


def _serve_ui(workspace: Path, port: int, environment: dict[str, str]) -> None:
    """Run `dagster dev` until it ends or we are interrupted; then wait until it has ended too."""
    command = [sys.executable, "-m", "dagster", "dev", "-w", str(workspace), "-h", "127.0.0.1", "-p", str(port)]
    typer.echo(f"The Dagster UI comes up on http://127.0.0.1:{port} (Ctrl+C ends it).", err=True)
    process = subprocess.Popen(command, env=environment)
    previous = signal.signal(signal.SIGTERM, lambda *_: process.send_signal(signal.SIGINT))
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=60)
    finally:
        signal.signal(signal.SIGTERM, previous)
    if code not in (0, -signal.SIGINT, 130):
        raise typer.Exit(1)
