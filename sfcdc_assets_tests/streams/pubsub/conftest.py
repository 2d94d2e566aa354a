"""Connections to a scripted service, with pauses that are recorded and not waited."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sfcdc_assets.streams.backoff import Backoff
from sfcdc_assets.streams.pubsub.channel import PubSubConnection
from sfcdc_assets.streams.pubsub.credentials import Credentials
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.streams.pubsub.scripted_service import ScriptedServer, ScriptedService, Step

TENANT = "00Dxx0000001gEREAY"


@dataclass
class Client:
    """A connection, the service it talks to, and what it did."""

    service: ScriptedService
    connection: PubSubConnection
    pauses: list[float]
    tokens: list[str] = field(default_factory=list)


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """`connect(script, script, ..., accepted=...)`: the client's tokens are token-1, and one more for each refresh."""
    with ExitStack() as stack:

        def start(*scripts: Sequence[Step], accepted: set[str] | None = None, attempts: int = 4) -> Client:
            service = ScriptedService(*scripts, tokens=accepted)
            server = stack.enter_context(ScriptedServer(service, tmp_path))
            pauses: list[float] = []
            tokens = ["token-1"]

            def credentials(*, refresh: bool) -> Credentials:
                if refresh:
                    tokens.append(f"token-{len(tokens) + 1}")
                return Credentials(tokens[-1], "https://example.my.salesforce.com/", TENANT)

            connection = stack.enter_context(
                PubSubConnection(
                    server.endpoint,
                    credentials,
                    server.ca_file,
                    backoff=Backoff(attempts, random=lambda: 1.0),
                    deadline=BOUND_SECONDS,
                    sleep=pauses.append,
                )
            )
            return Client(service, connection, pauses, tokens)

        yield start
