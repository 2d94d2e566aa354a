"""How the Streaming API of an org is reached: its address, its token, and what a new session needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from requests.adapters import HTTPAdapter

from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.runtime.clock import sleep as pause
from sfcdc_assets.streams.backoff import Backoff
from sfcdc_assets.streams.cometd.client import BayeuxClient
from sfcdc_assets.streams.cometd.http import CometdHttp


class GetToken(Protocol):
    """Whoever knows the current token."""

    def __call__(self, *, refresh: bool) -> str:
        """Return the current token, or a fresh one with `refresh`."""


@dataclass(frozen=True)
class CometdConnection:
    """`address()` is the org's endpoint (`https://.../cometd/64.0`), asked for with each session; `token(refresh)` the
    current token, or a fresh one; `adapter()` makes the TLS side of a session."""

    address: Callable[[], str]
    token: GetToken
    adapter: Callable[[], HTTPAdapter]
    backoff: Backoff = field(default_factory=Backoff)
    sleep: Callable[[float], None] = pause

    def client(self, clock: Clock) -> BayeuxClient:
        """Return a new session with cookies of its own, which has not begun."""
        return BayeuxClient(CometdHttp(self.address(), lambda: self.token(refresh=False), self.adapter()), clock)

    def refresh_credentials(self) -> None:
        """Have a fresh token made for the sessions that follow."""
        self.token(refresh=True)
