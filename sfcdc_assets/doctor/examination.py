"""All checks in an order in which each stands on those before it. What depends on a failed one is not checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sfcdc_assets.doctor import connection, machine, polls, rights, streams
from sfcdc_assets.doctor.finding import Finding, Outcome, not_checked, of_error, warning
from sfcdc_assets.doctor.storage import WRITABLE, change_feed, storage
from sfcdc_assets.doctor.streams import checkpoint
from sfcdc_assets.doctor.workers import WORKERS, workers
from sfcdc_assets.lake.store.formula_notes import read_formula_notes
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.open_org import knowing_refusals
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.org_connection.wanted_entities import entities_to_copy, polled_among
from sfcdc_assets.org_reads.first_start import first_start, never_copied
from sfcdc_assets.polls.known_objects import known_object
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.channel_members import ChannelMembers
from sfcdc_assets.salesforce.errors import RequestRefused
from sfcdc_assets.salesforce.limits import limits
from sfcdc_assets.salesforce.login import Grant
from sfcdc_assets.salesforce.login_choice import chosen_grant
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.settings.channel_kinds import is_polled
from sfcdc_assets.settings.setting_values import DOTENV, dotenv_settings
from sfcdc_assets.settings.settings import Settings, load_settings
from sfcdc_assets.spark.cluster import is_cluster, spark_address

RIGHTS = "rights on objects"


@dataclass(frozen=True)
class Machine:
    """What of this machine is looked at: its environment, the port of the Dagster UI and who listens, the time."""

    environment: Mapping[str, str]
    port: int
    listen: Callable[[int], int]
    now_ms: Callable[[], int]


def examine(here: Machine) -> Iterator[Finding]:
    """Every finding, as it is found."""
    settings = outcome_of(load_settings)
    dotenv, file = dotenv_settings(), Path(DOTENV)
    if isinstance(settings, SfcdcError):
        yield machine.java(None)
        yield of_error(machine.SETTINGS, settings)
        for check in (connection.LOGIN, *_AFTER_THE_LOGIN, "warehouse", "checkpoints"):
            yield not_checked(check, machine.SETTINGS)
    elif isinstance(settings, Exception):
        raise settings
    else:
        yield machine.java(settings)
        remote = [machine.spark_server(spark_address(settings))] if settings.spark_remote else []
        yield from remote
        yield machine.sources(here.environment, dotenv, file)
        yield from machine.secret_files(settings, dotenv, file)
        stored = storage(Warehouse(settings.warehouse))
        yield from _org(settings, here, is_refused=_is_refused(settings, stored))
        yield from stored
        if _is_refused(settings, stored):
            yield not_checked("checkpoints", WRITABLE)
        else:
            yield change_feed(Warehouse(settings.warehouse))
            for channel in (each for each in settings.channels if not is_polled(each)):
                yield checkpoint(Warehouse(settings.warehouse), channel, here.now_ms())
        if is_cluster(settings):
            stands_on = (*stored, *remote)
            broken = next((each.check for each in stands_on if each.outcome is Outcome.FAILED), None)
            yield not_checked(WORKERS, broken) if broken else workers(settings, _session)
    yield machine.dagster_home(here.environment.get("DAGSTER_HOME"))
    yield machine.ui_port(here.port, here.listen)


_AFTER_THE_LOGIN = (
    connection.MY_DOMAIN,
    connection.ORGANIZATION,
    rights.API,
    "streams",
    RIGHTS,
    rights.ALLOWANCES,
)


def _is_refused(settings: Settings, stored: Sequence[Finding]) -> bool:
    """Return whether an object store takes nothing: what reads tables would wait for it, for minutes, and say the
    same."""
    refused = any(each.check == WRITABLE and each.outcome is Outcome.FAILED for each in stored)
    return refused and not Warehouse(settings.warehouse).is_local


def _session(settings: Settings) -> object:
    from sfcdc_assets.apply.ready_spark import ready_spark  # noqa: PLC0415 - PySpark, for who has a cluster

    return ready_spark(settings)


def _org(settings: Settings, here: Machine, *, is_refused: bool) -> Iterator[Finding]:
    try:
        grant = chosen_grant(settings, lambda: here.now_ms() / 1000)
    except SfcdcError as error:
        yield of_error(connection.LOGIN, error)
        yield from (not_checked(check, connection.LOGIN) for check in _AFTER_THE_LOGIN)
        return
    ways = list(connection.way_in(settings, grant, here.now_ms))
    yield from ways
    if any(each.check == connection.TLS and each.outcome is Outcome.FAILED for each in ways):
        yield from (not_checked(check, connection.TLS) for check in (connection.LOGIN, *_AFTER_THE_LOGIN))
        return
    try:
        with connect(settings) as connected:
            org = knowing_refusals(connected, Warehouse(settings.warehouse))
            yield from _logged_in(settings, grant, org, here, is_refused=is_refused)
    except SfcdcError as error:
        yield of_error(connection.LOGIN, error)


def _logged_in(
    settings: Settings, grant: Grant, org: OrgConnection, here: Machine, *, is_refused: bool
) -> Iterator[Finding]:
    found = connection.login(org, grant)
    yield found
    if found.outcome is Outcome.FAILED:
        yield from (not_checked(check, connection.LOGIN) for check in _AFTER_THE_LOGIN)
        return
    yield connection.my_domain(settings.instance_url, org.session.instance_url_of_login)
    api = rights.api(org)
    if api.outcome is Outcome.FAILED:
        yield api
        yield from (not_checked(check, rights.API) for check in _AFTER_THE_LOGIN if check not in _BEFORE_THE_API)
        return
    if is_refused:
        yield api
        yield from (not_checked(check, WRITABLE) for check in _AFTER_THE_LOGIN if check not in _BEFORE_THE_API)
        return
    warehouse = Warehouse(settings.warehouse)
    yield connection.organization(warehouse, org)
    yield api
    yield from _objects(settings, warehouse, org, here)


_BEFORE_THE_API = (connection.MY_DOMAIN, rights.API)


def _objects(settings: Settings, warehouse: Warehouse, org: OrgConnection, here: Machine) -> Iterator[Finding]:
    listed: dict[str, ChannelMembers | None] = {}
    for channel in settings.feeding_channels:
        try:
            if is_polled(channel):
                selected = org.polled_objects()
                listed[channel] = ChannelMembers(selected.polled)
                yield polls.selection(selected, polled_among(selected.polled, listed))
                yield from polls.files_of_none(selected, org.poll.own)
            else:
                listed[channel] = org.members(channel)
                yield streams.selection(channel, listed[channel])
        except (SfcdcError, ValueError) as error:
            broken = error if isinstance(error, SfcdcError) else SfcdcError(f"{error}.")
            yield of_error(streams.SELECTION.format(channel), broken)
    yield streams.wanted(warehouse, settings, org)
    reached = list(streams.reachable(settings, org))
    yield from reached
    in_streams = not any(each.outcome is Outcome.FAILED for each in reached)
    entities = entities_to_copy(settings, warehouse, listed)
    polled = polled_among(entities, listed)
    new = never_copied(warehouse, entities)
    tries = _has_jobs_to_try(org, len(new), settings.snapshot_reserve_percent)
    seen: list[ObjectDescription] = []
    for entity in entities:
        has_events = entity not in polled
        try_bulk = tries and entity in new and not known_object(entity).no_bulk
        yield from rights.rights_of(org, entity, seen, try_bulk=try_bulk, streams=in_streams and has_events)
        if not has_events and seen and seen[-1].name == entity:
            yield from polls.readable(seen[-1], org.poll.of(entity))
    if new and not tries:
        problem = "Bulk was not tried: the org has few Bulk jobs left today, and copies need them."
        yield warning(RIGHTS, problem, "Run it again when the org has taken yesterday's jobs off its count.")
    if not entities:
        yield not_checked(RIGHTS, "the objects of the channels, which are not known")
    yield from rights.formulas(settings, seen, read_formula_notes(warehouse).entities)
    yield from _allowances(org, new, here, settings.snapshot_reserve_percent, polled)


def _has_jobs_to_try(org: OrgConnection, new: int, reserve_percent: float) -> bool:
    """Return whether a job for each object that was never copied leaves enough for their copies and for others."""
    found = outcome_of(limits, org.session)
    jobs = None if isinstance(found, Exception) else found.get(rights.JOBS)
    return jobs is None or jobs.remaining - 2 * new >= jobs.maximum * reserve_percent / 100


def _allowances(
    org: OrgConnection, new: tuple[str, ...], here: Machine, reserve_percent: float, polled: Collection[str]
) -> Iterator[Finding]:
    try:
        allowed = limits(org.session)
        start = first_start(org.session, new, here.now_ms(), from_earliest=org.from_earliest, polled=polled)
        yield from rights.allowances(allowed, start, reserve_percent)
    except RequestRefused:
        fix = "Give the user View Setup and Configuration."
        yield warning(rights.ALLOWANCES, "The org does not show them to this user.", fix)
    except SfcdcError as error:
        yield of_error(rights.ALLOWANCES, error)
