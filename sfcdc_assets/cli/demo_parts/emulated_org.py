"""Serving an emulated org for the commands that do. Needs the extra `emulator`, so commands import it when they run."""

from __future__ import annotations

import contextlib
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from sfcdc_assets.cli.emulator_parts.scenario import print_list, print_received, print_step
from sfcdc_assets.cli.terminal.interruption import Interrupted, Interruption
from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.emulator.control.scenario_control import step_json
from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, stock_definitions
from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.errors import EmulatorDirectoryError
from sfcdc_assets.emulator.events.first_change import make_first_change
from sfcdc_assets.emulator.faults.fault_plan import FaultPlan, PlannedFaults, load_fault_plan
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.scenarios.played_steps import watched
from sfcdc_assets.emulator.scenarios.scenario import Scenario, scenario_of, scenarios
from sfcdc_assets.emulator.serving.jwt_key import own_public_key, public_key_in
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.runtime.errors import counted

_PROGRESS_SECONDS = 30.0
_POPULATED = "populated"
_STOCK_RECORDS = 100


@dataclass(frozen=True, kw_only=True)
class ToServe:
    """The org of a folder, as it is to be served: port 0 takes a free one, `records` are those of each object in a new
    org, `traffic` the transactions that it makes a second.

    `public_key`: what JWT assertions are checked with, by default the folder's own. `faults_file`: see fault_plan.
    `scenario_name`: what is played at the beginning. `is_whole`: see `open_emulated_org`.
    """

    directory: Path
    rest_port: int
    pubsub_port: int
    seed: int
    records: int
    traffic: float
    public_key: Path | None = None
    host_names: Sequence[str] = ()
    is_sandbox: bool = False
    is_whole: bool = False
    faults_file: Path | None = None
    scenario_name: str | None = None


def serve(
    console: Console,
    interruption: Interruption,
    wanted: ToServe,
    *,
    opens_browser: bool = False,
    as_json: bool = False,
) -> None:
    """Serve an org until interrupted, saying now and then what it has done; with `as_json`, its scenario is all.

    Raises PublicKeyError, FaultFileError, UnknownScenarioError, ScenarioRefusedError.
    """
    directory = wanted.directory
    scenario = None if wanted.scenario_name is None else scenario_of(wanted.scenario_name)
    plan = FaultPlan(0, ()) if wanted.faults_file is None else load_fault_plan(wanted.faults_file)
    registered = None if wanted.public_key is None else public_key_in(wanted.public_key)
    try:
        with interruption.raised():
            org = open_emulated_org(directory, wanted.seed, wanted.records, with_stock=True, is_whole=wanted.is_whole)
    except Interrupted:
        console.print("Stopped before the org was filled; the next start begins with that again.")
        return
    try:
        credentials = replace(org.settings.credentials, public_key=registered or own_public_key(directory))
        org.settings = replace(org.settings, credentials=credentials, is_sandbox=wanted.is_sandbox)
        with EmulatorServer(
            org,
            directory=directory,
            rest_port=wanted.rest_port,
            pubsub_port=wanted.pubsub_port,
            host_names=wanted.host_names,
            traffic_seed=wanted.seed,
        ) as server:
            make_first_change(org, server.bus)
            console.print(f"Emulated org {org.organization_id}")
            console.print(f"  REST     {server.rest_url}")
            console.print(f"  Pub/Sub  {server.pubsub_endpoint}")
            console.print(f"  Settings {server.settings_file}")
            console.print(f"Use it:    set -a; . {server.settings_file}; set +a")
            console.print(f"See it:    {server.rest_url} in a browser (it warns: the org makes its own certificate)")
            console.print("Stop it:   Ctrl-C")
            server.traffic.set(wanted.traffic)
            if scenario is not None:
                play(server, scenario, as_json=as_json)
            if as_json:
                return
            if opens_browser and not webbrowser.open(server.rest_url):
                console.print(f"No browser could be opened; open {server.rest_url} yourself.")
            with PlannedFaults(plan, server.faults, server.rest_faults):
                while not interruption.wait(_PROGRESS_SECONDS):
                    console.print(progress(server))
    finally:
        org.close()
    console.print("Stopped.")


def list_scenarios(*, as_json: bool) -> None:
    """Print all scenarios."""
    print_list({each.name: each.described for each in scenarios().values()}, as_json=as_json)


def play(server: EmulatorServer, scenario: Scenario, *, as_json: bool) -> None:
    """Play a scenario, and print each step when it has happened."""
    if not as_json:
        say(f"{scenario.title}: {scenario.happens}")
    for number, step in enumerate(watched(server.scenarios.steps(scenario), server.feed, scenario), start=1):
        print_step(number, step_json(step), as_json=as_json)
    print_received(scenario.received, as_json=as_json)


def open_emulated_org(
    directory: Path, seed: int, records: int, *, with_stock: bool = False, is_whole: bool = False
) -> EmulatedOrg:
    """Return the org of a folder, with day-0 records if it is new. Raises EmulatorDirectoryError if the folder cannot
    be used, OrgInUseError, DatabaseFullError.

    `with_stock`: a new org has the objects too that connectors read without being told to, with at most 100 records
    each, and, as in a real org, nobody has chosen them for change data capture. `is_whole`: it has one object of each
    kind that a poller meets, too, and histories, shares and feeds.
    A first start that was killed while it filled the org is begun again, since records and the mark that they are there
    are committed together.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = directory / ".writable"
        probe.touch()
        probe.unlink()
        built_in = built_in_definitions()
        objects = (*built_in, *stock_definitions()) if with_stock else None
        org = EmulatedOrg(directory, seed=seed, objects=whole_org() if is_whole else objects)
    except OSError as error:
        raise EmulatorDirectoryError(directory, error.strerror or "it cannot be written") from error
    if org.database.setting(_POPULATED) is not None:
        return org
    try:
        with org.database.loading():
            names = {definition.name for definition in built_in}
            org.selected_entities = [name for name in org.definitions if name in names]
            stock = min(records, _STOCK_RECORDS)
            own = [each.name for each in org.definitions.values() if each.companion is None]
            org.populate({name: records if name in names else stock for name in own})
            org.database.set_setting(_POPULATED, str(records))
    except BaseException:
        org.close()
        raise
    return org


def progress(server: EmulatorServer) -> str:
    """One line on what the org has done so far."""
    return (
        f"{counted(server.bus.last_number, 'event')} published, {server.meter.total:,} delivered since the start, "
        f"{counted(server.service.open_streams, 'stream')} open"
    )


@dataclass(frozen=True)
class ServedOrg:
    """An org's id, and the settings to reach it."""

    organization_id: str
    environment: Mapping[str, str]


@contextlib.contextmanager
def busy_org(directory: Path, records: int, traffic: float, seed: int) -> Iterator[ServedOrg]:
    """Yield an emulated org that makes transactions by itself."""
    org = open_emulated_org(directory, seed, records)
    try:
        # Another start's transactions are not those of the first again.
        traffic_seed = seed + org.last_commit_number
        with EmulatorServer(org, directory=directory, traffic_seed=traffic_seed) as server:
            make_first_change(org, server.bus)
            say(f"An emulated org is at {server.rest_url}; its settings are in {server.settings_file}.", err=True)
            server.traffic.set(traffic)
            yield ServedOrg(org.organization_id, server.client_environment())
    finally:
        org.close()
