"""Asking an emulated org that is being served: its control resource, found by the `org.env` in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import requests
import typer
from dotenv import dotenv_values

from sfcdc_assets.runtime.errors import SfcdcError

DEFAULT_FOLDER = ".sfcdc/emulator"
_SECONDS = 60.0

Folder = Annotated[
    Path | None, typer.Option("--dir", metavar="D", help=f"Folder of the org that is served ({DEFAULT_FOLDER}).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a line of JSON for each.")]


class NoServedOrgError(SfcdcError):
    """No org is served from a folder, or it does not answer."""

    def __init__(self, folder: Path, problem: str) -> None:
        self.folder = folder
        super().__init__(
            f"No emulated org is served from {folder}: {problem}. Start it with `sfcdc emulator --dir {folder}`, "
            "or name the folder of another one with --dir."
        )


class EmulatorRefusedError(SfcdcError):
    """The org does not do what was asked for; the sentence is its own."""


class EmulatorControl:
    """Requests to the control resource of a served org; a context manager. Needs no token, and uses up no allowance."""

    def __init__(self, folder: Path) -> None:
        """Read the org's settings. Raise NoServedOrgError if the folder has no settings of an org."""
        self._folder = folder
        settings = dotenv_values(folder / "org.env")
        url, authority = settings.get("SFCDC_INSTANCE_URL"), settings.get("SFCDC_CA_FILE")
        if not url or not authority:
            raise NoServedOrgError(folder, "it has no org.env")
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy leads to this machine, and no other authority signed for it
        self._session.verify = authority

    def __enter__(self) -> EmulatorControl:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._session.close()

    def get(self, path: str, **parameters: str | int) -> dict[str, Any]:
        """GET `/emulator` + path. Raises NoServedOrgError, EmulatorRefusedError."""
        return self._send("GET", path, parameters)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST a body to `/emulator` + path."""
        return self._send("POST", path, {}, body)

    def delete(self, path: str) -> dict[str, Any]:
        """DELETE `/emulator` + path."""
        return self._send("DELETE", path, {})

    def _send(
        self, method: str, path: str, parameters: Mapping[str, str | int], body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        try:
            answer = self._session.request(
                method, f"{self.url}/emulator{path}", params=parameters, json=body, timeout=_SECONDS
            )
            document: dict[str, Any] = answer.json()
        except (requests.ConnectionError, requests.Timeout):
            raise NoServedOrgError(self._folder, f"{self.url} does not answer") from None
        except requests.JSONDecodeError:
            raise NoServedOrgError(self._folder, f"what answers at {self.url} is another program") from None
        except OSError as error:
            raise NoServedOrgError(self._folder, f"its certificate cannot be read ({error.strerror})") from None
        if answer.status_code != 200:
            raise EmulatorRefusedError(f"The org refuses: {document.get('error', answer.reason)}")
        return document


def served_org(context: typer.Context, folder: Path | None) -> EmulatorControl:
    """Return the control of the org of `--dir`, which may come before or after the subcommand."""
    above = context.parent.params.get("directory") if context.parent else None
    return EmulatorControl(folder or above or Path(DEFAULT_FOLDER))


def printable(value: object) -> str:
    """Return a value of a record in one line of a terminal, which it cannot command: control characters are shown as
    �."""
    return "".join(each if each.isprintable() else "�" for each in str(value))
