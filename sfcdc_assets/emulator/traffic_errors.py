"""Errors of generating traffic."""

from __future__ import annotations

from sfcdc_assets.errors import SfcdcError


class TrafficRefusedError(SfcdcError):
    """The org refused so many generated transactions in a row that none will ever pass."""

    def __init__(self, refused: int, last: str) -> None:
        self.refused = refused
        self.last = last
        super().__init__(
            f"The org refused {refused} generated transactions in a row, the last one with: {last}. "
            "Relax the object definition that this names."
        )
