"""The shape of the JSON that applications push to a generic channel, as a person writes it down: a TOML file a channel.

    channel = "/u/Orders"

    [columns]
    order_id = "string"
    amount = "double"
    city = { type = "string", path = "address.city" }

Types are those of columns: boolean, int, double, date, timestamp, string. Without a path a column is the member of its
own name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.field_types import FieldType
from sfcdc_assets.runtime.errors import SettingsError, SfcdcError
from sfcdc_assets.settings.channel_kinds import ChannelKind, kind_of

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TYPES: Mapping[str, FieldType] = {
    ColumnType.BOOLEAN: FieldType("boolean", ColumnType.BOOLEAN, ("Boolean",)),
    ColumnType.INT: FieldType("int", ColumnType.INT, ("Integer",)),
    ColumnType.DOUBLE: FieldType("double", ColumnType.DOUBLE, ("Double",)),
    ColumnType.DATE: FieldType("date", ColumnType.DATE, ("DateOnly",)),
    ColumnType.TIMESTAMP: FieldType("datetime", ColumnType.TIMESTAMP, ("DateTime",)),
    ColumnType.STRING: FieldType("string"),
}


class PayloadSchemaError(SfcdcError):
    """A file that describes payloads cannot be used."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(
            f'{path}: {problem}. A file has `channel = "/u/..."` and a table [columns] of `name = "type"` or '
            f'`name = {{ type = "type", path = "a.b" }}`; types are {", ".join(_TYPES)}.'
        )


@dataclass(frozen=True)
class PayloadColumn:
    """One column, and the members that lead to its value."""

    name: str
    type: FieldType
    path: tuple[str, ...]


@dataclass(frozen=True)
class PayloadSchema:
    """The columns of one channel's payloads."""

    channel: str
    columns: tuple[PayloadColumn, ...]

    def taken_apart(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values of a payload by column, and the members that no column is made from, by their path."""
        return {each.name: _at(body, each.path) for each in self.columns}, dict(_rest(body, (), self._paths))

    @property
    def _paths(self) -> frozenset[tuple[str, ...]]:
        return frozenset(each.path for each in self.columns)


def payload_schemas(folder: Path | None) -> dict[str, PayloadSchema]:
    """Channel -> its schema, from the `*.toml` files of a folder; none where no folder is set.

    Raises `PayloadSchemaError`, naming the file, and `SettingsError`.
    """
    if folder is None:
        return {}
    if not folder.is_dir():
        raise SettingsError("SFCDC_CHANNEL_SCHEMAS", f"there is no folder {folder}", "Create it, or leave it out")
    found: dict[str, PayloadSchema] = {}
    for path in sorted(folder.glob("*.toml")):
        schema = read_payload_schema(path)
        if schema.channel in found:
            raise PayloadSchemaError(path, f"another file describes {schema.channel} too")
        found[schema.channel] = schema
    return found


def read_payload_schema(path: Path) -> PayloadSchema:
    """One file. Raises `PayloadSchemaError`."""
    try:
        read = tomllib.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:  # `tomllib` has these for endless numbers and lists
        raise PayloadSchemaError(path, f"it cannot be read ({error})") from error
    if unknown := sorted(read.keys() - {"channel", "columns"}):
        raise PayloadSchemaError(path, f"{unknown[0]!r} is unknown")
    channel, columns = read.get("channel"), read.get("columns")
    if not isinstance(channel, str) or _kind(channel) is not ChannelKind.GENERIC:
        raise PayloadSchemaError(path, f"its channel, {channel!r}, is not a generic channel")
    if not isinstance(columns, dict) or not columns:
        raise PayloadSchemaError(path, "it has no columns")
    made = tuple(_column(path, name, said) for name, said in columns.items())
    _check_names(path, made)
    return PayloadSchema(channel, made)


def _column(path: Path, name: str, said: object) -> PayloadColumn:
    of = said if isinstance(said, dict) else {"type": said}
    type_, way = of.get("type"), of.get("path", name)
    if not _NAME.fullmatch(name):
        raise PayloadSchemaError(path, f"{name!r} is no name of a column: letters, digits and underscores")
    if unknown := sorted(of.keys() - {"type", "path"}):
        raise PayloadSchemaError(path, f"{name}: {unknown[0]!r} is unknown")
    if not isinstance(type_, str) or type_ not in _TYPES:
        raise PayloadSchemaError(path, f"{name}: {type_!r} is no type")
    if not isinstance(way, str) or not all(way.split(".")):
        raise PayloadSchemaError(path, f"{name}: {way!r} is no path")
    return PayloadColumn(name, _TYPES[type_], tuple(way.split(".")))


def _check_names(path: Path, columns: tuple[PayloadColumn, ...]) -> None:
    """Names that differ by case are one to Delta; a value belongs to one column."""
    names, paths = set[str](), set[tuple[str, ...]]()
    for column in columns:
        if column.name.lower() in names:
            raise PayloadSchemaError(path, f"two columns are called {column.name}, but for the case")
        if any(column.path[: len(each)] == each or each[: len(column.path)] == column.path for each in paths):
            raise PayloadSchemaError(
                path, f"{column.name}: another column has {'.'.join(column.path)}, or a part of it"
            )
        names.add(column.name.lower())
        paths.add(column.path)


def _kind(channel: str) -> ChannelKind | None:
    try:
        return kind_of(channel)
    except ValueError:
        return None


def _at(body: Any, path: tuple[str, ...]) -> Any:
    for member in path:
        if not isinstance(body, dict) or member not in body:
            return None
        body = body[member]
    return body


def _rest(body: Mapping[str, Any], above: tuple[str, ...], paths: frozenset[tuple[str, ...]]) -> list[tuple[str, Any]]:
    """Members without a column; of one that has columns inside of it, those inside."""
    found: list[tuple[str, Any]] = []
    for name, value in body.items():
        here = (*above, name)
        if here in paths:
            continue
        if isinstance(value, dict) and value and any(path[: len(here)] == here for path in paths):
            found += _rest(value, here, paths)
        else:
            found.append((".".join(here), value))
    return found
