"""The settings of a client of the emulated org, and the file that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sfcdc_assets.emulator.serving.certificate import write_private
from sfcdc_assets.runtime.errors import SettingsError


def write_settings_file(path: Path, settings: Mapping[str, str], other_logins: Mapping[str, str] | None = None) -> None:
    """Write `NAME='value'` lines, readable by the owner only: for `set -a; . org.env; set +a` and for dotenv readers.
    `other_logins` are comments of the same form: take the # away to use one.

    Raises SettingsError for a value that the two would read differently; the value is not in the message.
    """
    lines = [f"{name}={_quoted(name, value)}" for name, value in settings.items()]
    lines += [f"# {name}={_quoted(name, value)}" for name, value in (other_logins or {}).items()]
    write_private(path, "".join(f"{line}\n" for line in lines).encode())


def _quoted(name: str, value: str) -> str:
    """Quote in single quotes, or in double ones if the value holds a single quote, as the path of a folder may."""
    if "\\" in value or "\n" in value or "${" in value or ("'" in value and any(mark in value for mark in '"$`')):
        problem = "holds a backslash, a line break, ${ or a mixture of quotes"
        raise SettingsError(name, problem, "Choose a value without them; if it is a path, another --dir.")
    return f'"{value}"' if "'" in value else f"'{value}'"
