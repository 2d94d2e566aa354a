"""Before a first start spends what a real org allows in a day, it says how much that is, and on a terminal asks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

import typer

from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.retry_pause import RetryPause
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.org_connection.same_organization import check_owner
from sfcdc_assets.org_connection.wanted_entities import check_wanted_entities, entities_to_copy, polled_among
from sfcdc_assets.org_reads.first_start import first_start, is_first_start, sentence
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.errors import ORG_AWAY, OrgUnavailable, OrgUnreachable, RequestRefused
from sfcdc_assets.salesforce.host_check import is_this_machine
from sfcdc_assets.salesforce.limits import limits
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.spark.java import check_java


class FirstStartDeclined(SfcdcError):
    """A person does not want to spend that."""

    def __init__(self) -> None:
        super().__init__(
            "Nothing was read and nothing written. SFCDC_ENTITIES copies fewer objects, SFCDC_REPLAY_PRESET=LATEST "
            "leaves out the events of the last 72 hours."
        )


def agree_to_first_start(settings: Settings, *, yes: bool, waits: bool = False) -> None:
    """Say what a first start takes, and on a terminal ask, unless `yes`. An emulated org has its allowances to spare.
    `waits`: for an org that is away, which is reported, and asked again after pauses that grow.

    Raises `FirstStartDeclined`, `JavaMissing`, and what connecting raises; where it `waits`, of that what no waiting
    mends.
    """
    warehouse = Warehouse(settings.warehouse)
    if not settings.feeding_channels:
        return  # nothing is copied
    if is_this_machine(settings.instance_url or settings.login_url) or not is_first_start(warehouse):
        return
    if not settings.spark_remote:
        check_java()  # no question about a start that would fail
    ask = partial(_cost_by_the_org, settings, warehouse)
    say(_waited_for(ask) if waits else ask(), err=True)
    if not yes and _is_on_a_terminal() and not typer.confirm("Start?", err=True):
        raise FirstStartDeclined


def _waited_for(ask: Callable[[], str]) -> str:
    """Return the answer of an org that may be away. Raises what it fails with else: a wrong setting does not mend
    itself. So does a host that never answered at all, which is more likely one than an outage."""
    pause, answered, said = RetryPause(), set[str](), set[str]()
    while True:
        try:
            return ask()
        except ORG_AWAY as error:
            if isinstance(error, OrgUnavailable):
                answered.add(urlsplit(error.url).netloc)
            if isinstance(error, OrgUnreachable) and urlsplit(error.url).netloc not in answered:
                raise
            pause.failed(error)
            if str(error) not in said:
                say(f"Waits for the org, which is asked what a first start takes: {pause.said(error)}", err=True)
            said.add(str(error))
        clock.sleep(pause.left)


def _cost_by_the_org(settings: Settings, warehouse: Warehouse) -> str:
    with connect(settings) as org:
        check_owner(warehouse, org.session.organization_id)
        check_wanted_entities(warehouse, settings, org)
        return _cost(settings, warehouse, org)


def _cost(settings: Settings, warehouse: Warehouse, org: OrgConnection) -> str:
    listed = {channel: org.members(channel) for channel in settings.feeding_channels}
    entities = entities_to_copy(settings, warehouse, listed)
    if not entities:
        return (
            "First start. What it takes is not known: the org does not list the objects of the channels to this user."
        )
    polled = polled_among(entities, listed)
    start = first_start(org.session, entities, clock.now_ms(), from_earliest=org.from_earliest, polled=polled)
    try:
        left = {name: limit.remaining for name, limit in limits(org.session).items()}
    except RequestRefused:
        left = {}
    return sentence(start, left)


def _is_on_a_terminal() -> bool:
    """Return whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()
