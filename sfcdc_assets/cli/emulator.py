"""`sfcdc emulator`: serve an emulated org until interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfcdc_assets.cli.emulator_parts.change import change
from sfcdc_assets.cli.emulator_parts.control import DEFAULT_FOLDER
from sfcdc_assets.cli.emulator_parts.events import events
from sfcdc_assets.cli.emulator_parts.extra import require_emulator
from sfcdc_assets.cli.emulator_parts.fault import fault
from sfcdc_assets.cli.emulator_parts.scenario import LIST, scenario
from sfcdc_assets.cli.terminal.interruption import Interruption
from sfcdc_assets.cli.terminal.output import Screen
from sfcdc_assets.runtime.errors import SfcdcError

SUBCOMMANDS = {"fault": fault, "change": change, "events": events, "scenario": scenario}
"""What one does to an org that is being served, from another terminal."""


class JsonWithoutScenarioError(SfcdcError):
    """`--json` is given where nothing is printed that it could change."""

    def __init__(self) -> None:
        super().__init__("--json goes with --scenario: `sfcdc emulator --scenario NAME --json`.")


def emulator(  # noqa: PLR0913 - a command's options
    *,
    context: typer.Context,
    directory: Annotated[
        Path, typer.Option("--dir", metavar="D", help="Folder of the org: its database, certificates and org.env.")
    ] = Path(DEFAULT_FOLDER),
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
    public_key: Annotated[
        Path | None,
        typer.Option(
            "--public-key", metavar="PEM", help="Key or certificate of JWT assertions; by default one in the folder."
        ),
    ] = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option("--host-name", metavar="NAME", help="Another name the certificate is for; may be repeated."),
    ] = None,
    sandbox: Annotated[bool, typer.Option("--sandbox", help="Be a sandbox, to clients that ask.")] = False,
    is_whole: Annotated[
        bool,
        typer.Option("--whole-org", help="Of a new org: have objects of every kind, with histories, shares and feeds."),
    ] = False,
    faults_file: Annotated[
        Path | None,
        typer.Option("--faults", metavar="FILE", help="Faults that happen by themselves; docs/faults.md says how."),
    ] = None,
    scenario_name: Annotated[
        str | None,
        typer.Option(
            "--scenario", metavar="NAME", help="Play a scenario while you watch, then go on; `list` names them all."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each step of the scenario, and end with it.")
    ] = False,
    opens: Annotated[bool, typer.Option("--open", help="Open the org's pages in a browser.")] = False,
) -> None:
    """Serve an emulated Salesforce org over TLS on this machine until interrupted.

    The folder keeps the org: started again with the same --dir, it has the same records, events and certificates. Its
    pages, at the address of REST, show records, events, subscribers and faults. The commands below act on an org that
    is being served.
    """
    if context.invoked_subcommand is not None:
        return
    require_emulator()
    from sfcdc_assets.cli.demo_parts.emulated_org import ToServe, list_scenarios, serve  # noqa: PLC0415 - only with the extra

    if scenario_name == LIST:
        list_scenarios(as_json=as_json)
        return
    if as_json and scenario_name is None:
        raise JsonWithoutScenarioError
    console = Screen(highlight=False, soft_wrap=True, stderr=as_json)
    with Interruption() as interruption:
        serve(
            console,
            interruption,
            ToServe(
                directory=directory,
                rest_port=rest_port,
                pubsub_port=pubsub_port,
                seed=seed,
                records=records,
                traffic=traffic,
                public_key=public_key,
                host_names=host_name or (),
                is_sandbox=sandbox,
                is_whole=is_whole,
                faults_file=faults_file,
                scenario_name=scenario_name,
            ),
            opens_browser=opens,
            as_json=as_json,
        )
