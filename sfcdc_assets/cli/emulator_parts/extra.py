"""The extra `emulator`: what only an emulated org needs, so that a production host need not install it."""

from __future__ import annotations

import importlib.util

from sfcdc_assets.runtime.errors import SfcdcError

PACKAGES = {
    "lark": "lark",
    "starlette": "starlette",
    "uvicorn": "uvicorn",
    "trustme": "trustme",
    "yaml": "PyYAML",
    "dateutil": "python-dateutil",
    "cryptography": "cryptography",
    "jinja2": "Jinja2",
}
"""Module -> package of the extra in pyproject.toml. Only the emulator imports these, but for `starlette`."""


class EmulatorNotInstalled(SfcdcError):
    """An emulated org is wanted, and packages it needs are not installed."""

    def __init__(self, wanted: str, missing: list[str]) -> None:
        self.missing = missing
        super().__init__(
            f"{wanted} needs packages that are not installed ({', '.join(missing)}). "
            "Install them with: pip install 'sfcdc_assets[emulator]'"
        )


def require_emulator(wanted: str = "An emulated org") -> None:
    """Raise `EmulatorNotInstalled` where the extra is missing. Comes before any import of the emulator, which imports
    these packages."""
    missing = [package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise EmulatorNotInstalled(wanted, missing)
