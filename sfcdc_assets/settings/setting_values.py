"""The values of settings: which variables of the environment and of `.env` count for the org that a process serves.

A process serves one org. Where one machine copies several, `SFCDC_ORGS` lists their names, `SFCDC_ORG` says which of
them a process serves, and what begins with an org's name is that org's alone: `SFCDC_EMEA_WAREHOUSE`. All other
settings hold for every org, but for those that lead to one org or to its tables: a login, say, that was meant for one
org is never sent to another.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

from dotenv import dotenv_values

from sfcdc_assets.runtime.errors import SettingsError, name_settings_by
from sfcdc_assets.settings.secrets_in_files import SUFFIX, secret_of

if TYPE_CHECKING:
    from pydantic import ValidationError

PREFIX = "SFCDC_"


def first_problem(error: ValidationError) -> tuple[str | None, str]:
    """Return the field of the first wrong value, None for one of no field, and what is wrong with it."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    problem = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    return str(first["loc"][0]) if first["loc"] else None, problem


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like a wrong one, whatever its case; None when none is."""
    by_lower = {each.lower(): each for each in sorted(known)}
    found = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None


def check_names(names: Iterable[str], known: Iterable[str], families: Iterable[str]) -> None:
    """Raise `SettingsError` for the first name with our prefix that is neither known nor begins as a family does.

    Case does not matter, as the settings are read without regard to it.
    """
    right = set(known)
    for name in sorted(names):
        given = name.upper()
        if not given.startswith(PREFIX) or given in right:
            continue
        if any(given.startswith(family) and given != family for family in families):
            continue
        near = nearest(given.removeprefix(PREFIX), (each.removeprefix(PREFIX) for each in right))
        remedy = f"Did you mean {PREFIX}{near}?" if near else "The README lists them all."
        raise SettingsError(name, "is not a setting", f"{remedy} Correct it in the environment or in .env")


DOTENV = ".env"
ORG, ORGS = f"{PREFIX}ORG", f"{PREFIX}ORGS"
LOGIN = (
    "instance_url",
    "login_url",
    "org_id",
    "access_token",
    "client_id",
    "client_secret",
    "username",
    "password",
    "security_token",
    "private_key_file",
)
"""Fields of the settings that say who logs in, where."""
OF_ONE_ORG = frozenset({"warehouse", *LOGIN})
"""Fields of the settings that no org takes from those of all orgs."""
_SAME_STORE = {"s3a": "s3", "gcs": "gs", "abfss": "abfs"}
"""Schemes of URIs that lead to the same place as another one."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def dotenv_settings() -> dict[str, str]:
    """Return what `.env` in the working folder says; nothing when there is none."""
    return {name: value or "" for name, value in dotenv_values(DOTENV).items()}


def environment(file: object = DOTENV) -> dict[str, str]:
    """Return the settings of the environment, then those of the file (None: no file), under their names in upper case;
    what is empty is not set. Names of Spark's options keep the case of the option."""
    of_file = dotenv_values(str(file)) if file is not None else {}
    found = {name: value for name, value in {**of_file, **os.environ}.items() if value}
    return {_upper(name): value for name, value in found.items() if name.upper().startswith(PREFIX)}


def _upper(name: str) -> str:
    first, dot, rest = name.partition(".")
    if not dot:
        return name.upper()
    start, _, option = first.rpartition("_")
    return f"{start.upper()}_{option}.{rest}"


def this_org() -> str | None:
    """Return the name of the org that this process serves, in lower case; None where there is only one."""
    return environment().get(ORG, "").lower() or None


def prefix_of(org: str | None) -> str:
    """Return how the settings of one org begin: `SFCDC_EMEA_`; `SFCDC_` where there is only one."""
    return PREFIX if org is None else f"{PREFIX}{org.upper()}_"


def name_for(org: str | None, field: str, given: Mapping[str, str]) -> str:
    """Return the variable that counts for an org: its own where it has to have one, or has one; otherwise that of all
    orgs."""
    own = f"{prefix_of(org)}{field.upper()}"
    needs_its_own = {field.lower(), field.lower().removesuffix(SUFFIX.lower())} & OF_ONE_ORG
    return own if needs_its_own or own in given else f"{PREFIX}{field.upper()}"


def as_set_here(text: str) -> str:
    """Return a text with the settings that it mentions named as they have to be set for the org that this process
    serves.

    Every message, description and help is written with the names of the settings of the only org there is; what is
    shown of it goes through here (an `SfcdcError` does by itself). Names that have an org in them stay. Nothing is read
    for it where settings were loaded before: their names were noted then.
    """
    if PREFIX not in text:
        return text
    given = _Noted.names if _Noted.names is not None else environment()
    org = given.get(ORG, "").lower() or None
    return text if org is None else _MENTION.sub(lambda found: _as_set(org, found[1], given), text)


class _Noted:
    names: Mapping[str, str] | None = None


def note_names(given: Mapping[str, str] | None) -> None:
    """Name settings by these variables (`environment`) from now on; None: by those that are found each time."""
    _Noted.names = None if given is None else {name: value if name == ORG else "" for name, value in given.items()}


_MENTION = re.compile(rf"\b{PREFIX}([A-Z][A-Z0-9_]*|\*)")


def _as_set(org: str, mentioned: str, given: Mapping[str, str]) -> str:
    if mentioned == "*":
        return f"{prefix_of(org)}*"
    return f"{PREFIX}{mentioned}" if PREFIX + mentioned in (ORG, ORGS) else name_for(org, mentioned, given)


name_settings_by(as_set_here)


def names_of_orgs(given: str | None, fields: Iterable[str]) -> tuple[str, ...]:
    """Return the names that `SFCDC_ORGS` lists. `fields`: of the settings. Raises `SettingsError`."""
    names = tuple(dict.fromkeys(part.strip().lower() for part in (given or "").split(",") if part.strip()))
    for name in names:
        if not _NAME.fullmatch(name):
            raise SettingsError(ORGS, f"{name!r} is not a name of letters, digits and _", "Name each org as emea")
        alike = next((field for field in fields if field.startswith(f"{name}_")), None)
        if alike is not None:
            problem = f"{name!r} is how other settings begin ({PREFIX}{alike.upper()})"
            raise SettingsError(ORGS, problem, "Choose another name for the org")
    known = frozenset(fields)
    for name, other in permutations(names, 2):
        if not other.startswith(f"{name}_"):
            continue
        more = other.removeprefix(f"{name}_")
        both = next((each for each in sorted(known) if each.removeprefix(f"{more}_") in known - {each}), None)
        if both is not None:
            problem = f"{prefix_of(name)}{both.upper()} would be a setting of {name!r} and of {other!r}"
            raise SettingsError(ORGS, problem, "Choose another name for one of the orgs")
    return names


def values_of(
    org: str | None, given: Mapping[str, str], fields: Iterable[str], secrets: Collection[str] = ()
) -> dict[str, str]:
    """Field -> its value for an org, of the given variables (`environment`): the org's own, or that of all orgs.

    `secrets`: fields whose value a file may hold. Only files of this org are read. Raises `SettingsError`.
    """
    found: dict[str, str] = {}
    for field in fields:
        starts = [prefix_of(org)] if org is not None and field in OF_ONE_ORG else [prefix_of(org), PREFIX]
        for start in dict.fromkeys(starts):
            name = f"{start}{field.upper()}"
            value = secret_of(name, given) if field in secrets else given.get(name)
            if value is not None:
                found[field] = value
                break
    return found


def check_apart(org: str, orgs: Iterable[str], given: Mapping[str, str]) -> None:
    """Raise `SettingsError` unless the org has a warehouse that is no other org's."""
    name = f"{prefix_of(org)}WAREHOUSE"
    if name not in given:
        problem = "is not set, and each of several orgs has a warehouse of its own"
        raise SettingsError(name, problem, "Set it to a folder or a URI that no other org has")
    for other in (None, *orgs):
        others = f"{prefix_of(other)}WAREHOUSE"
        if other != org and others in given and _place(given[others]) == _place(given[name]):
            whose = "the settings without the name of an org" if other is None else others
            raise SettingsError(name, f"is the warehouse of {whose} too", "Give each org one of its own")


def check_orgs_of(names: Iterable[str], known: Iterable[str], fields: Iterable[str], orgs: Iterable[str]) -> None:
    """Raise `SettingsError` for the first name that has the form of an org's setting, where there are orgs, and none of
    that name: it was renamed, or is not copied any more. No other setting is suggested: a login would go elsewhere."""
    right, endings, orgs = set(known), tuple(f"_{field.upper()}" for field in fields), tuple(orgs)
    for name in sorted(names) if orgs else ():
        given = name.upper()
        if not given.startswith(PREFIX) or given in right:
            continue
        ending = max((each for each in endings if given.endswith(each)), key=len, default="")
        of = given.removeprefix(PREFIX).removesuffix(ending).lower()
        if ending and _NAME.fullmatch(of):
            problem = f"belongs to no org of {ORGS} ({', '.join(orgs)})"
            raise SettingsError(name, problem, f"Add {of} there, or remove or rename what begins with {prefix_of(of)}")


def _place(warehouse: str) -> str:
    """Return where the folder is, whatever way it is written."""
    scheme, is_uri, path = warehouse.partition("://")
    if is_uri and scheme.lower() != "file":
        return f"{_SAME_STORE.get(scheme.lower(), scheme.lower())}://{path.rstrip('/')}"
    return str(Path(path if is_uri else warehouse).expanduser().resolve())
