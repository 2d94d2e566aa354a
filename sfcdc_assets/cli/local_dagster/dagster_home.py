"""The folder that Dagster keeps its runs in, as `sfcdc dev` prepares it, in a clone or beside an installed package."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import sfcdc_assets
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.setting_values import ORGS, PREFIX, names_of_orgs
from sfcdc_assets.settings.settings import Settings, is_secret

_PACKAGE = Path(sfcdc_assets.__file__).parent
INSTANCE = _PACKAGE / "dagster.yaml"
"""Settings of the instance, for `DAGSTER_HOME`."""
_LOCATION = """\
  - python_module:
      module_name: {module}
      attribute: {attribute}
      working_directory: {folder}
      location_name: {name}
"""


def prepare(home: Path, orgs: Sequence[str] = ()) -> Path:
    """Make the folder with the settings of its instance; returns the workspace file that names our code: once for each
    of several orgs, by its name."""
    home.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(INSTANCE, home / "dagster.yaml")
    workspace = home / "workspace.yaml"
    # The folder of the package: a clone need not be installed. JSON strings are YAML's too.
    folder = json.dumps(str(_PACKAGE.parent))
    locations = [
        _LOCATION.format(module="sfcdc_assets.orgs", attribute=org, folder=folder, name=org) for org in orgs
    ] or [_LOCATION.format(module="sfcdc_assets.definitions", attribute="defs", folder=folder, name="sfcdc_assets")]
    workspace.write_text("load_from:\n" + "".join(locations))
    return workspace


def write_environment(file: Path, environment: Mapping[str, str], emulated: Mapping[str, str], home: Path) -> None:
    """Write what a shell sources to work with the same org, warehouse and Dagster, and to find the command.

    Of secrets it has those of the `emulated` org alone, which mean nothing elsewhere; yours are where you keep them.
    Options of Spark whose names no shell can export are not there either.
    """
    orgs = names_of_orgs(environment.get(ORGS), Settings.model_fields)
    shared = {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(PREFIX)
        and name.isidentifier()
        and (not is_secret(name, orgs) or emulated.get(name) == value)
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in (*shared.items(), ("DAGSTER_HOME", str(home)))]
    command = Path(sys.executable).with_name("sfcdc")
    if command.exists():
        lines.append(f'export PATH={shlex.quote(str(command.parent))}:"$PATH"')
    part = file.with_name(f"{file.name}.{os.getpid()}")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write("# Written by `sfcdc dev`, for another terminal.\n" + "\n".join(lines) + "\n")
    part.replace(file)


class FolderInUse(SfcdcError):
    """Another process works in the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"Another `sfcdc dev` runs in {folder}. End it, or choose another folder with --dir.")


class FolderNotUsable(SfcdcError):
    """The folder cannot be made or written."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder = folder
        super().__init__(f"The folder {folder} cannot be used: {reason}. Choose another one with --dir.")


@contextmanager
def only_user_of(folder: Path) -> Iterator[None]:
    """Hold the folder, made if it is missing. Given back by the system when the process dies, and not when it becomes
    another program (`KeptDagster.become`).

    Raises `FolderInUse` and `FolderNotUsable`.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "dev.lock").open("w")
        os.set_inheritable(lock.fileno(), True)  # noqa: FBT003 - by the program that takes this one's place
    except OSError as error:
        raise FolderNotUsable(folder, error.strerror or str(error)) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderInUse(folder) from error
        yield
