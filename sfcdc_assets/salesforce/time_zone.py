"""The time zone of the user of a login: by it the org decides which day it is."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from sfcdc_assets.salesforce.errors import RequestRefused
from sfcdc_assets.salesforce.session import OrgSession

GMT = "GMT"


def user_time_zone(session: OrgSession) -> str:
    """Return the name of the zone, as `America/Los_Angeles`; `GMT` where the org does not tell it. One request."""
    try:
        user = session.request("GET", "/services/oauth2/userinfo", what="userinfo")
    except RequestRefused:
        return GMT
    named = (user.get("zoneinfo") or user.get("timezone")) if isinstance(user, dict) else None
    return str(named) if named and _zone(str(named)) is not None else GMT


def day_began(zone: str, now: datetime) -> datetime:
    """Return when the day began that it is in a zone, UTC."""
    local = now.astimezone(_zone(zone) or UTC)
    return local.replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        return None
