"""The way into the org: TLS, the login, My Domain, the clocks, and whose copy the warehouse is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from sfcdc_assets.doctor.finding import Finding, failed, of_error, ok, warning
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import CLOCKS_DIFFER_MS
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.same_organization import check_owner
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.host_check import is_this_machine, reach
from sfcdc_assets.salesforce.login import Grant
from sfcdc_assets.settings.settings import Settings

TLS, CLOCK, LOGIN, MY_DOMAIN, ORGANIZATION = "TLS", "clock", "login", "My Domain", "organization"
_HALF_A_SECOND_MS = 500
_MY_DOMAIN = re.compile(
    r"[\w-]+(?:--[\w-]+)?(?:\.sandbox|\.develop|\.scratch|\.demo|\.trailblaze|\.patch|\.free)?\.my\."
)


def hosts(settings: Settings, grant: Grant) -> dict[str, str]:
    """URL -> the setting that named it, of the hosts that a run would ask."""
    found = {settings.instance_url: "SFCDC_INSTANCE_URL"} if settings.instance_url else {}
    login = getattr(grant, "login_url", None)
    return {**found, **({login: "SFCDC_LOGIN_URL"} if login and login not in found else {})}


def way_in(settings: Settings, grant: Grant, now_ms: Callable[[], int]) -> Iterator[Finding]:
    """Each host over TLS, then the clock, by the first that gives the time."""
    skew: int | None = None
    for url, setting in hosts(settings, grant).items():
        asked_at = now_ms()
        try:
            answered = reach(url, setting, settings.ca_file)
        except SfcdcError as error:
            yield of_error(TLS, error)
            continue
        yield ok(TLS, f"{url} answers, and its certificate is trusted")
        if skew is None and answered.date_ms is not None:
            skew = (asked_at + now_ms()) // 2 - answered.date_ms - _HALF_A_SECOND_MS
    if skew is not None:
        yield clock_skew(skew)


def clock_skew(skew_ms: int) -> Finding:
    """`skew_ms`: how far the clock here is before the org's. Landing allows for so much and no more; a JWT that seems
    to be of another time is refused."""
    seconds = abs(skew_ms) / 1000
    found = f"the clock here is {seconds:.0f} s {'ahead of' if skew_ms > 0 else 'behind'} the org's"
    if seconds * 1000 > CLOCKS_DIFFER_MS:
        return failed(CLOCK, f"T{found[1:]}.", "Synchronize it: timedatectl set-ntp true, or the host's time service.")
    return ok(CLOCK, found)


def login(org: OrgConnection, grant: Grant) -> Finding:
    """Get a token by the way that the settings choose."""
    try:
        org.session.token()
    except SfcdcError as error:
        return of_error(LOGIN, error)
    return ok(LOGIN, f"by {grant.name}")


def my_domain(configured: str | None, login_says: str | None) -> Finding:
    """Check that the address is the org's own and not an instance's, which ends with the instance.

    `configured`: SFCDC_INSTANCE_URL; `login_says`: the address that the login gives."""
    url = configured or login_says or ""
    host = urlsplit(url).hostname or ""
    if configured and login_says and urlsplit(login_says).hostname != host:
        return warning(
            MY_DOMAIN,
            f"SFCDC_INSTANCE_URL is {configured}, and the login says that the org is at {login_says}.",
            f"Set SFCDC_INSTANCE_URL={login_says}, or leave it out.",
        )
    if is_this_machine(url):
        return ok(MY_DOMAIN, f"{host} is on this machine")
    if not _MY_DOMAIN.match(host):
        return warning(
            MY_DOMAIN,
            f"{url} is not a My Domain address: it changes when the org moves to another instance.",
            "Use the address in Setup, My Domain, such as https://mycompany.my.salesforce.com.",
        )
    return ok(MY_DOMAIN, url)


def organization(warehouse: Warehouse, org: OrgConnection) -> Finding:
    """Check that the warehouse belongs to the org of the settings, or to nobody yet. Writes nothing."""
    try:
        owner = check_owner(warehouse, org.session.organization_id)
    except SfcdcError as error:
        return of_error(ORGANIZATION, error)
    if owner is None:
        return ok(ORGANIZATION, f"{org.session.organization_id}; the warehouse belongs to nobody yet")
    return ok(ORGANIZATION, f"the warehouse is a copy of {owner}, and the settings lead to it")
