"""How long streams of the Pub/Sub API last and when they speak."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StreamTiming:
    """Seconds by the org's clock.

    A stream with requests outstanding hears from the org at least every `keepalive`: Salesforce promises 270, and 60 to
    270 were seen. One with none is closed after `idle_close`, as a normal end or, if `idle_is_error`, with an error
    status. A stream of publish requests ends when none with an event came for `publish_idle`.
    """

    keepalive: float = 270.0
    idle_close: float = 60.0
    publish_idle: float = 70.0
    idle_is_error: bool = False
