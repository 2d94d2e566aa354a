"""Secrets that a file holds: `SFCDC_CLIENT_SECRET_FILE` names the file whose content `SFCDC_CLIENT_SECRET` would be.

So containers, Kubernetes and systemd hand secrets over; a variable of the environment is in every child process and in
what describes the container. A file is read each time that the settings are: one that is replaced counts at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sfcdc_assets.runtime.errors import SettingsError

SUFFIX = "_FILE"
LARGEST_BYTES = 64 * 1024
"""No secret is larger; a file that is was not meant."""


def secret_of(name: str, given: Mapping[str, str]) -> str | None:
    """Return the value of a setting that holds a secret, from its variable or the file that the variable beside it
    names; None where neither is set. Raises `SettingsError` for both at once, and for a file that holds no secret."""
    value, file = given.get(name), given.get(f"{name}{SUFFIX}")
    if file is None:
        return value
    if value is not None:
        raise SettingsError(f"{name}{SUFFIX}", f"is set, and so is {name}", "Keep one of the two")
    return _read(f"{name}{SUFFIX}", Path(file).expanduser())


def _read(name: str, file: Path) -> str:
    """Return the text of a file, without the line break that editors and `echo` put at its end."""
    remedy = "Name a file that holds the secret alone, and that the user who runs this may read"
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise SettingsError(name, f"the file {file} is larger than {LARGEST_BYTES // 1024} KiB", remedy)
        text = content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise SettingsError(name, f"the file {file} cannot be read ({error.strerror})", remedy) from None
    except UnicodeDecodeError:
        raise SettingsError(name, f"the file {file} is no text (UTF-8)", remedy) from None
    if not text:
        raise SettingsError(name, f"the file {file} is empty", remedy)
    return text
