"""Errors of reading the event bus."""

from __future__ import annotations

from sfcdc_assets.errors import SfcdcError


class ReplayIdCorruptedError(SfcdcError):
    """A replay id is not one of this stream: malformed, older than retention, or from before the org was moved.

    The bus does not tell these apart, and neither does Salesforce (docs/salesforce-streams.md, "Replay ids").
    """

    def __init__(self, replay: bytes) -> None:
        self.replay = replay
        super().__init__(
            f"The replay id {replay.hex()} is corrupted or outside the retention window. "
            "Subscribe from EARLIEST or LATEST, or from an id of the last 72 hours."
        )


class ReplayIdMissingError(SfcdcError):
    """A subscription from CUSTOM came without a replay id."""

    def __init__(self) -> None:
        super().__init__("The replay preset CUSTOM needs a replay id. Send the id of the last processed event.")


class UnknownReplayPresetError(SfcdcError):
    """A subscription's replay preset is a number that the protocol has no name for."""

    def __init__(self, preset: int) -> None:
        self.preset = preset
        super().__init__(f"There is no replay preset {preset}. Send LATEST (0), EARLIEST (1) or CUSTOM (2).")
