"""How one emulated org is set up: who may log in, how long things last, how much a day allows."""

from __future__ import annotations

from dataclasses import dataclass, field

HOUR = 3_600_000
DAY = 24 * HOUR


@dataclass(frozen=True)
class Credentials:
    """The one connected app and the one integration user of the org. Secrets have no readable form in repr."""

    client_id: str = "sfcdc-emulator-client"
    client_secret: str = field(default="sfcdc-emulator-client-secret", repr=False)
    username: str = "integration@emulator.example"
    password: str = field(default="sfcdc-emulator-password", repr=False)
    security_token: str = field(default="sfcdcEmulatorToken", repr=False)
    public_key: str | None = field(default=None, repr=False)
    """PEM of the RSA key (or certificate) whose private half signs JWT bearer assertions; None: that flow is not
    set up."""


@dataclass(frozen=True)
class OrgSettings:
    """Times are in milliseconds."""

    credentials: Credentials = Credentials()
    api_versions: tuple[int, ...] = tuple(range(52, 66))
    token_lifetime: int = 2 * HOUR
    query_locator_lifetime: int = 2 * DAY
    bulk_result_lifetime: int = 7 * DAY
    bulk_step: int = 0
    """How long a bulk job stays in each state, by the clock; 0: each poll of the job moves it one state on."""
    recycle_bin_lifetime: int = 15 * DAY
    replication_window: int = 30 * DAY
    daily_api_requests: int = 100_000
    daily_bulk_query_jobs: int = 10_000
