"""Errors of serving the emulated org."""

from __future__ import annotations

from pathlib import Path

from sfcdc_assets.errors import SfcdcError


class EmulatorDirectoryError(SfcdcError):
    """The emulated org's folder cannot be used."""

    def __init__(self, directory: Path, reason: str) -> None:
        self.directory = directory
        self.reason = reason
        super().__init__(
            f"The folder {directory} cannot hold an emulated org: {reason}. Choose another one with --dir."
        )


class ServerStartError(SfcdcError):
    """A server did not begin to listen in time."""

    def __init__(self, service: str, seconds: float) -> None:
        self.service = service
        self.seconds = seconds
        super().__init__(f"{service} did not start within {seconds:g} seconds. Look at the log above and start again.")
