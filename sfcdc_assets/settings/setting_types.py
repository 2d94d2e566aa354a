"""Types of settings: how a text of the environment becomes a value, and what is wrong with one that does not.

The name of the setting stands before each of these messages.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationInfo
from pydantic_settings import NoDecode

from sfcdc_assets.settings.channel_kinds import kind_of, protocol_of, split_channels
from sfcdc_assets.settings.notice_kinds import NoticeKind

KEPT_FIELDS = frozenset({"Id", "IsDeleted", "SystemModstamp", "MasterRecordId"})
"""Fields that the copy itself is kept with: the key of every table, and what became of a record."""
EVERY_FORMULA, ALL_FORMULAS, NO_FORMULA = "*", "all", "none"
"""What `SFCDC_FORMULAS` says where all formula fields are read, in the notation of patterns and in a word, or none."""
NO_CHANNELS = "none"
"""What `SFCDC_CHANNELS` says where all that is copied is polled."""
_FIELD_PATTERN = re.compile(r"[\w*?\[\]!-]+\.([\w*?\[\]!-]+)", re.ASCII)
_OBJECT_PATTERN = re.compile(r"[A-Za-z*?][\w*?]*", re.ASCII)
_OWNER = re.compile(r"team:[A-Za-z0-9_.\- ]+|[^@\s]+@[^@\s]+\.[^@\s]+")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/(/(?=[^/]|/.))?")
"""The beginning of a URI; its second group is there where a store, or a path on this machine, follows."""
_MASTER = re.compile(r"local.*|yarn|(spark|k8s)://.+")
"""What Spark takes for a master (https://spark.apache.org/docs/latest/submitting-applications.html#master-urls)."""
_LAST_PORT = 65_535
_ORGANIZATION_ID = re.compile(r"00D[A-Za-z0-9]{12}([A-Z0-5]{3})?")
WAREHOUSE_SCHEMES = frozenset({"file", "s3", "s3a", "az", "azure", "adl", "abfs", "abfss", "gs", "gcs"})
"""Schemes of URIs that a warehouse can be at."""


class EntityNames(tuple[str, ...]):
    """Names of entities as a person wrote them: one is among them in any case, as names in Salesforce and in SQL have
    none of their own."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in {each.lower() for each in self}


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _channels_apart(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value.strip().lower() == NO_CHANNELS:
        return ()
    names = split_channels(value)
    if not names:
        raise ValueError(
            f"name at least one channel, such as /data/ChangeEvents, or `{NO_CHANNELS}` to poll objects only"
        )
    return names


def _comma_separated(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _lower_once(value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.lower() for name in value))


def _object_patterns(value: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in value:
        if not _OBJECT_PATTERN.fullmatch(pattern):
            raise ValueError(f"{pattern!r} does not name objects; write it as Contract, Invoice__c or Account*")
    return value


def _channel_names(value: tuple[str, ...]) -> tuple[str, ...]:
    written = tuple(dict.fromkeys(value))
    names = [protocol_of(each)[0] for each in written]
    for name in names:
        kind_of(name)
        if names.count(name) > 1:
            raise ValueError(f"names {name} twice, with another protocol; choose one")
    return written


_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def _web_address(value: SecretStr | None) -> SecretStr | None:
    if value is not None:
        address = urlsplit(value.get_secret_value())
        if address.scheme != "https" and not (address.scheme == "http" and address.hostname in _LOOPBACK):
            raise ValueError("is no web address that begins with https://; http:// is for this machine alone")
    return value


def _teams_and_addresses(value: tuple[str, ...]) -> tuple[str, ...]:
    for owner in value:
        if not _OWNER.fullmatch(owner):
            raise ValueError(f"{owner!r} is neither an e-mail address nor written as team:name")
    return value


def _field_patterns(value: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in value:
        match = _FIELD_PATTERN.fullmatch(pattern)
        if match is None:
            raise ValueError(f"{pattern!r} does not name columns; write it as Contact.Email, *.Phone or Lead.*")
        if match[1] in KEPT_FIELDS:
            raise ValueError(
                f"{pattern!r}: {match[1]} is what the copy is kept with and can be neither left out nor hashed"
            )
    return value


def _formula_patterns(value: tuple[str, ...]) -> tuple[str, ...]:
    if [each.lower() for each in value] == [NO_FORMULA]:
        return ()
    named = tuple(EVERY_FORMULA if each.lower() == ALL_FORMULAS else each for each in value)
    _field_patterns(tuple(each for each in named if each != EVERY_FORMULA))
    return named


def _key_of_the_hashes(value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
    if info.data.get("hash") and value is None:
        raise ValueError("is not set, and SFCDC_HASH needs a key; a long random text, and keep it")
    return value


def _as_salesforce_writes_it(value: object) -> object:
    preset = value.strip().upper() if isinstance(value, str) else value
    if preset not in ("EARLIEST", "LATEST"):
        raise ValueError(f"{value!r} is neither EARLIEST nor LATEST")
    return preset


def _host_and_port(value: str) -> str:
    host, _, port = value.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise ValueError(f"{value!r} is not host:port; Salesforce's own is api.pubsub.salesforce.com:7443")
    if not 0 < int(port) <= _LAST_PORT:  # gRPC would ask whoever listens at the remainder
        raise ValueError(f"{value!r} has no port of 1 to {_LAST_PORT}; Salesforce's own is 7443")
    return value


def _https(value: str) -> str:
    if not value.startswith("https://"):
        raise ValueError(f"{value!r} does not start with https://")
    return value.rstrip("/")


def _of_a_host(value: str) -> str:
    address = urlsplit(_https(value))
    if address.hostname is None or address.path.strip("/") or address.query or address.fragment:
        raise ValueError(f"{value!r} is not the address of a host; write it as https://<My Domain>.my.salesforce.com")
    return value.rstrip("/")


def _organization_id(value: str) -> str:
    if not _ORGANIZATION_ID.fullmatch(value):
        raise ValueError(
            f"{value!r} is not an organization's id, 15 or 18 characters that begin with 00D; copy it from Setup, "
            "Company Information"
        )
    return value


def _folder_or_store(value: str) -> str:
    uri = _URI.match(value)
    if uri is None or (uri[1].lower() in WAREHOUSE_SCHEMES and uri[2] is not None):
        return value
    raise ValueError(
        f"{value!r} is neither a folder nor a place in an object store that is known; write it as /data/salesforce, "
        "s3://bucket/prefix, abfss://container@account.dfs.core.windows.net/prefix or gs://bucket/prefix"
    )


def _master(value: str) -> str:
    if not _MASTER.fullmatch(value):
        raise ValueError(f"{value!r} is no master of Spark; write it as local[*], spark://host:7077, k8s://... or yarn")
    return value


def _readable(value: Path) -> Path:
    if not os.access(value, os.R_OK):
        raise ValueError(f"the file {value} cannot be read")
    return value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_comma_separated)]
"""Comma-separated."""
Entities = Annotated[Names, AfterValidator(EntityNames)]
OrgNames = Annotated[Names, AfterValidator(_lower_once)]
Columns = Annotated[Names, AfterValidator(_field_patterns)]
FormulaPatterns = Annotated[Names, AfterValidator(_formula_patterns)]
Owners = Annotated[Names, AfterValidator(_teams_and_addresses)]
Channels = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_channels_apart), AfterValidator(_channel_names)]
ObjectPatterns = Annotated[Names, AfterValidator(_object_patterns)]
NoticeKinds = Annotated[tuple[NoticeKind, ...], NoDecode, BeforeValidator(_comma_separated)]
OrgName = Annotated[str | None, BeforeValidator(_lower)]
WebAddress = Annotated[SecretStr | None, AfterValidator(_web_address)]
HashKey = Annotated[SecretStr | None, AfterValidator(_key_of_the_hashes)]
ReplayPreset = Annotated[Literal["EARLIEST", "LATEST"], BeforeValidator(_as_salesforce_writes_it)]
Endpoint = Annotated[str, AfterValidator(_host_and_port)]
HttpsUrl = Annotated[str, AfterValidator(_https)]
HostUrl = Annotated[str, AfterValidator(_of_a_host)]
OrganizationId = Annotated[str, AfterValidator(_organization_id)]
WarehouseRoot = Annotated[str, AfterValidator(_folder_or_store)]
SparkMaster = Annotated[str, AfterValidator(_master)]
ReadableFile = Annotated[Path, AfterValidator(_readable)]
