"""`sfcdc dev`: the Dagster UI over a live, busy emulated org, or over your own."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from dotenv import dotenv_values

from sfcdc_assets.cli.emulator_parts.extra import require_emulator
from sfcdc_assets.cli.local_dagster.dagster_home import only_user_of, prepare, write_environment
from sfcdc_assets.cli.local_dagster.dagster_ui import free_port
from sfcdc_assets.cli.local_dagster.kept_dagster import KeptDagster
from sfcdc_assets.cli.local_dagster.lost_runs import fail_lost_runs
from sfcdc_assets.cli.syncing.first_start import agree_to_first_start
from sfcdc_assets.cli.terminal.interruption import Interruption
from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.open_org import open_org
from sfcdc_assets.org_connection.same_organization import claim_warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.setting_values import prefix_of
from sfcdc_assets.settings.settings import Settings, is_secret_file, load_settings
from sfcdc_assets.spark.java import check_java

_PATHS = ("WAREHOUSE", "CA_FILE", "PRIVATE_KEY_FILE", "SPARK_STANDING")
"""Settings that are paths, without their prefix."""


def dev(
    *,
    directory: Annotated[
        Path, typer.Option("--dir", metavar="D", help="Keep the org, the warehouse and Dagster's home in this folder.")
    ] = Path(".sfcdc/dev"),
    port: Annotated[int, typer.Option(metavar="N", help="Serve the UI on this port; 0 takes a free one.")] = 3000,
    records: Annotated[
        int, typer.Option(metavar="N", min=0, help="Begin a new emulated org with so many records of each object.")
    ] = 2000,
    traffic: Annotated[
        float, typer.Option(metavar="RATE", min=0, help="Let the emulated org make so many transactions a second.")
    ] = 1.0,
    seed: Annotated[
        int, typer.Option(metavar="S", help="Make data and traffic of the emulated org from this seed.")
    ] = 1,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a first start.")] = False,
) -> None:
    """Serve the Dagster UI on 127.0.0.1 with the sensors on, until interrupted.

    When the settings name no org, an emulated one with steady traffic is started first. The folder keeps everything:
    the next start goes on from there. Each real org has a Dagster home of its own in it, beside the emulated one's.
    Several orgs (SFCDC_ORGS) share one, with a code location each; `sfcdc --org NAME dev` serves one of them.
    """
    settings = load_settings(of_all=True)
    several = [load_settings(org) for org in settings.orgs] if settings.org is None else []
    emulated = not several and not names_an_org(settings)
    if emulated:
        require_emulator("No setting names an org to follow, and an emulated one")
    if not settings.spark_remote:
        check_java()
    port = free_port(port)
    with Interruption() as interruption, contextlib.ExitStack() as stack:
        stack.enter_context(only_user_of(directory))
        environment = _environment(settings)
        org = None
        followed_orgs = {}
        if not emulated:
            for each in several or [settings]:
                agree_to_first_start(each, yes=yes)
                followed_orgs[each.org] = _enriched(each)
            named = "_".join(settings.orgs) if several else followed_orgs[settings.org]
            home = (directory / f"dagster_home_{named}").absolute()
        else:
            from sfcdc_assets.cli.demo_parts.emulated_org import busy_org  # noqa: PLC0415 - only with the extra

            org = stack.enter_context(busy_org(directory, records, traffic, seed))
            environment = {**org.environment, **environment}
            followed_orgs[settings.org] = org.organization_id
            claim_warehouse(Warehouse(environment["SFCDC_WAREHOUSE"]), org.organization_id, clock.now_ms())
            home = (directory / "dagster_home").absolute()
        has_spark = bool(environment.get("SFCDC_SPARK_REMOTE") or environment.get("SFCDC_SPARK_STANDING"))
        if not has_spark:
            environment = {**environment, "SFCDC_SPARK_STANDING": str((directory / "spark.json").absolute())}
        workspace, shared = prepare(home, [each.org or "" for each in several]), (directory / "dev.env").absolute()
        write_environment(shared, environment, org.environment if org is not None else {}, home)
        for name, organization_id in followed_orgs.items():
            say(followed(organization_id, environment, home, name), err=True)
        say(f"For `sfcdc status` in another terminal:  . {shlex.quote(str(shared))}", err=True)
        fail_lost_runs(home)
        kept = KeptDagster(
            directory=str(directory),
            workspace=str(workspace),
            home=str(home),
            port=port,
            log_format=settings.log_format,
            keeps_spark=not has_spark,
            org=settings.org,
        )
        if org is None:
            kept.become(environment, interruption)
        else:
            kept.keep(environment, interruption)  # the emulated org is served from this process


def names_an_org(settings: Settings) -> bool:
    """Return whether the settings say where to log in, or as whom."""
    return any((settings.instance_url, settings.access_token, settings.client_id, settings.username))


def followed(organization_id: str, environment: Mapping[str, str], home: Path, org: str | None = None) -> str:
    """Say which org goes into which warehouse, and where Dagster keeps its runs. `org`: its name, if there are
    several."""
    own = prefix_of(org)
    where = environment.get(f"{own}INSTANCE_URL") or environment.get(f"{own}LOGIN_URL") or Settings().login_url
    warehouse = environment[f"{own}WAREHOUSE"]
    return f"Following the organization {organization_id} at {where} into {warehouse}. Dagster's home is {home}."


def _enriched(settings: Settings) -> str:
    """Id of the settings' org, whose the warehouse is. Raises `WrongOrganization`, and what connecting raises."""
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_writable()
    with open_org(warehouse, settings) as org:
        return org.session.organization_id


def _environment(settings: Settings) -> dict[str, str]:
    """Ours and that of `.env`, with absolute paths: Dagster runs in its home folder."""
    found = {**{name: value for name, value in dotenv_values(".env").items() if value}, **os.environ}
    if names_an_org(settings):
        found[f"{prefix_of(settings.org)}WAREHOUSE"] = settings.warehouse
    paths = {f"{prefix_of(org)}{path}" for org in (None, *settings.orgs) for path in _PATHS}
    for name in (each for each in found if each in paths or is_secret_file(each, settings.orgs)):
        if found[name] and "://" not in found[name]:
            found[name] = str(Path(found[name]).expanduser().absolute())
    return found
