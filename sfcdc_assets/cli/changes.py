"""`sfcdc changes`: what has changed in an entity, for a pipe."""

from __future__ import annotations

import json
import os
import tempfile
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from sfcdc_assets.cli.terminal.options import moment_of
from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.cli.terminal.stopping import stops_at_once
from sfcdc_assets.consistent_cut import changes_since
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.runtime.foreign_text import json_text
from sfcdc_assets.settings.settings import load_settings

ROWS_AT_ONCE = 1_000
_TOKEN_FILE = "--token-file"


@stops_at_once
def changes(
    *,
    entity: Annotated[str, typer.Argument(help="The object's API name, in any case.")],
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN|POSITION|TIME",
            help="Begin after this token, position of the channel, or time (ISO 8601; UTC without a zone). Left out, "
            "every living record is an insert.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Begin after the token in this file, and put the next one there at the end."),
    ] = None,
    versions: Annotated[
        bool, typer.Option("--versions", help="Print each version on the way, not one row a record.")
    ] = (False),
) -> None:
    """Print what has changed in an entity since a token, one JSON object a line, up to the newest cut.

    `_op` is insert, update, delete or undelete; the fields are those after, `_before` has those that changed as they
    were. The token to ask with next time is the last line of standard error. Makes no API calls. Exit code 1 when the
    consumer has to begin again, with the reason.
    """
    if since is not None and token_file is not None:
        raise SettingsError("--since", "--token-file says where to begin, too", "Leave one of them out")
    if token_file is not None:
        _check_folder(token_file)
        since = _token_in(token_file)
    reported, token = changes_since(
        load_settings().warehouse,
        entity,
        _place(since, "--since" if token_file is None else f"{_TOKEN_FILE} {token_file}"),
        versions=versions,
    )
    for start in range(0, reported.num_rows, ROWS_AT_ONCE):
        for row in reported.slice(start, ROWS_AT_ONCE).to_pylist():
            say(json_text(json.dumps(row, default=_json, ensure_ascii=False)))
    if token_file is not None:
        _put(token_file, token)
    say(token, err=True)


def _place(text: str | None, given_by: str) -> str | int | datetime | None:
    if text is None or text.startswith("sfcdc"):
        return text
    return int(text) if text.isdecimal() else moment_of(text, given_by)


def _token_in(file: Path) -> str | None:
    """Return what the file has; None where there is no file yet."""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise SettingsError(_TOKEN_FILE, f"{file} cannot be read: {why}", "Name a file for the token") from None
    return text


def _check_folder(file: Path) -> None:
    """Raise `SettingsError` where no token could be put, before anything is printed: a consumer that has the rows and
    not the token would take them again."""
    if not os.access(file.parent, os.W_OK | os.X_OK):
        why = "cannot be written" if file.parent.is_dir() else "is not there"
        raise SettingsError(_TOKEN_FILE, f"the folder {file.parent} {why}", "Name a file in another folder, or mend it")


def _json(value: Any) -> str:
    assert isinstance(value, date), value
    return value.isoformat()


def _put(file: Path, token: str) -> None:
    """Write the token in the place of the last one, in one step."""
    handle, made = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as target:
        target.write(f"{token}\n")
    Path(made).replace(file)
