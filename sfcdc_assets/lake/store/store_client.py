"""A client of the object store that a warehouse lies in: one request an object, and many at once.

deltalake's own file systems list and then ask in order to know of one object, ask and then read, write in three steps,
open connections of their own, and let no other thread of Python go on meanwhile. This client is kept for each bucket
and process, with its connections.

Logins are deltalake's business, which knows more ways: where it might log in as somebody else than this client, there
is no client, and its user goes through deltalake (`store_files`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from obstore.exceptions import BaseError, UnknownConfigurationKeyError
from obstore.store import ObjectStore, from_url

from sfcdc_assets.lake.store.object_stores import PREFIXES, scheme_of

REFUSED = (BaseError, OSError, ValueError)
"""What a client raises; `FileNotFoundError` where there is no such object."""

OF_CONNECTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "read_timeout",
        "timeout",
        "user_agent",
    }
)
"""Settings that are about connections; the others are about the store."""

_FLAGS = frozenset({"allow_http", "allow_invalid_certificates", "http1_only", "http2_only"})
_SETTING = re.compile(r"Configuration key: '([^']*)'")
_PROFILES = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
_KNOWN: dict[tuple[int, str, int], ObjectStore | None] = {}
"""Process, bucket and the hash of the settings -> the client."""


def client_of(uri: str, options: Mapping[str, str]) -> ObjectStore | None:
    """Return the client of the URI's bucket, with the settings and the login of `storage_options`; None where there is
    none, or it was given up."""
    key = _key(uri, options)
    if key not in _KNOWN:
        _KNOWN[key] = None if _has_another_login(uri, options) else _client(key[1], options)
    return _KNOWN[key]


def give_up(uri: str, options: Mapping[str, str]) -> None:
    """Use no client for this store in this process from now on: deltalake is answered where this client is not."""
    _KNOWN[_key(uri, options)] = None


def path_in_bucket(uri: str) -> str:
    """Return the path of a table, without slashes at its ends."""
    return unquote(urlsplit(uri).path).strip("/")


def _key(uri: str, options: Mapping[str, str]) -> tuple[int, str, int]:
    parts = urlsplit(uri)
    return os.getpid(), f"{parts.scheme}://{parts.netloc}", hash(frozenset(options.items()))


def _client(bucket: str, options: Mapping[str, str]) -> ObjectStore | None:
    prefix = PREFIXES.get(scheme_of(bucket), "")
    config = {name.removeprefix(prefix).removeprefix("STORAGE_").lower(): value for name, value in options.items()}
    connections: dict[str, Any] = {name: config.pop(name) for name in OF_CONNECTIONS & config.keys()}
    connections |= {name: connections[name].lower() in ("1", "true") for name in _FLAGS & connections.keys()}
    login = _login(prefix, config)
    build: Any = from_url  # its types are those of each store's own settings
    while True:
        try:
            client: ObjectStore = build(bucket, config=config, client_options=connections, credential_provider=login)
        except UnknownConfigurationKeyError as error:  # a setting of deltalake's, or of somebody else's
            unknown = _SETTING.search(str(error))
            if unknown is None or config.pop(unknown[1].removeprefix(prefix.lower()), None) is None:
                return None
        except REFUSED:
            return None
        else:
            return client


def _login(prefix: str, config: Mapping[str, str]) -> Callable[[], Any] | None:
    """Return the keys that the settings have. Otherwise the client would add to them what this process's environment
    has."""
    if prefix == "AWS_" and "access_key_id" in config:
        keys = {
            "access_key_id": config["access_key_id"],
            "secret_access_key": config.get("secret_access_key", ""),
            "token": config.get("session_token"),
            "expires_at": None,
        }
        return lambda: keys
    if prefix == "AZURE_" and "account_key" in config:
        key = {"access_key": config["account_key"], "expires_at": None}
        return lambda: key
    return None


def _has_another_login(uri: str, options: Mapping[str, str]) -> bool:
    """Return whether an AWS profile may log in, which deltalake takes and this client does not know."""
    if PREFIXES.get(scheme_of(uri)) != "AWS_" or "AWS_ACCESS_KEY_ID" in options:
        return False
    files = [*(options[name] for name in _PROFILES if name in options), "~/.aws/config", "~/.aws/credentials"]
    return "AWS_PROFILE" in options or any(Path(file).expanduser().exists() for file in files)
