"""The folder SFCDC_POLL_OBJECTS: a TOML file an object, named after it (`Invoice__c.toml`).

It has what is otherwise for this object than for all:

    seconds = 300                       # how often it is asked for what changed
    fields = ["Status__c", "Total__c"]  # these columns alone
    where = "CreatedDate >= 2025-01-01T00:00:00Z"
    reread_minutes = 30                 # how far back each poll begins
    compare_hours = 6                   # how often what changes without a stamp is compared
    count_hours = 48                    # how often records are counted, to find what was deleted for good
    vanish_percent = 100                # so many of its records may vanish at once, and are believed to be deleted
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from sfcdc_assets.runtime.errors import SettingsError, SfcdcError
from sfcdc_assets.salesforce.api_name import is_api_name

SUFFIX = ".toml"
_TIME = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,3})?Z"
_ONE = rf"(Id\s*(=|<|<=|>|>=)\s*'[A-Za-z0-9]{{15,18}}'|CreatedDate\s*(=|<|<=|>|>=)\s*{_TIME})"
_CONDITION = re.compile(rf"{_ONE}(\s+AND\s+{_ONE})*")


class ObjectFileError(SfcdcError):
    """A file that says how one object is polled cannot be used."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        known = ", ".join(ObjectPolling.model_fields)
        super().__init__(f"{path}: {problem}. Its keys may be {known}; docs/polled-objects.md shows a file.")


def _fixed_condition(where: str) -> str:
    if not _CONDITION.fullmatch(where.strip()):
        raise ValueError(
            "compares Id or CreatedDate with fixed values, parts joined by AND: others would let records leave the "
            "table without a change of theirs"
        )
    return where.strip()


def _api_names(fields: tuple[str, ...]) -> tuple[str, ...]:
    for each in fields:
        if not is_api_name(each):
            raise ValueError(f"{each!r} is no API name of a field")
    return fields


class ObjectPolling(BaseModel):
    """What a file says; None: as for all. `fields`: the columns, beside the Id; a file (base64) that is named among
    them is a column with the path that serves it. `where`: which records are in the table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seconds: float | None = Field(default=None, ge=10)
    fields: Annotated[tuple[str, ...], AfterValidator(_api_names)] | None = Field(default=None, min_length=1)
    where: Annotated[str, AfterValidator(_fixed_condition)] | None = None
    reread_minutes: float | None = Field(default=None, ge=1, le=1440)
    compare_hours: float | None = Field(default=None, gt=0, le=720)
    count_hours: float | None = Field(default=None, gt=0, le=720)
    vanish_percent: float | None = Field(default=None, ge=0, le=100)


AS_ALL = ObjectPolling()


def read_object_files(folder: Path, *, is_named: bool = False) -> dict[str, ObjectPolling]:
    """Object, in lower case -> what its file says; nothing where there is no such folder, unless a setting names it:
    objects would be polled as if nothing was said of them. Raises `ObjectFileError`, and `SettingsError`."""
    if not folder.is_dir():
        if is_named:
            raise SettingsError("SFCDC_POLL_OBJECTS", f"there is no folder {folder}", "Create it, or leave it out")
        return {}
    files = sorted(each for each in folder.iterdir() if each.suffix == SUFFIX and not each.name.startswith("."))
    return {file.stem.lower(): read_object_file(file) for file in files}


def read_object_file(file: Path) -> ObjectPolling:
    """Return what one file says. Raises `ObjectFileError`."""
    if not is_api_name(file.stem):
        raise ObjectFileError(file, "its name is not that of an object")
    try:
        values: Mapping[str, object] = tomllib.loads(file.read_text(encoding="utf-8"))
        return ObjectPolling.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        named = ".".join(str(each) for each in first["loc"][:1]) or "it"
        raise ObjectFileError(file, f"{named}: {first['msg'].removeprefix('Value error, ')}") from None
    except (OSError, ValueError, RecursionError) as error:  # `tomllib` has these for endless numbers and lists
        raise ObjectFileError(file, f"it cannot be read ({error})") from error
