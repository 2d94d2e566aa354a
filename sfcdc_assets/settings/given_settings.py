"""Settings that a program gives, where several orgs may be served by one process: nothing is read from the environment,
so that a login that was meant for one org is never sent to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.settings.setting_values import first_problem, nearest
from sfcdc_assets.settings.settings import SPARK_CONF, Settings


class GivenSettings(Settings):
    """Has what it was given, and defaults."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - its form
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the only source: what the caller gives."""
        return (init_settings,)


def settings_of(given: Mapping[str, Any], spark_conf: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of these values, by the names of the fields of `Settings` (`client_id`); what is None or
    empty is not set. `spark_conf`: options of Spark, by their own names. Raises `SettingsError` naming the first wrong
    one; values of secrets never appear in it."""
    values = {name: value for name, value in given.items() if value not in (None, "")}
    for name in values:
        if name not in Settings.model_fields or name in ("org", "orgs"):
            near = nearest(name, Settings.model_fields)
            raise SettingsError(
                name, "is not a setting", f"Did you mean {near}?" if near else "docs/settings.md has all"
            )
    try:
        settings = GivenSettings(**{name: _listed(value) for name, value in values.items()})
    except ValidationError as error:
        field, problem = first_problem(error)
        raise SettingsError(
            field or "settings", problem, "Correct it where the definitions are built, or in defs.yaml"
        ) from None
    settings._given = {f"{SPARK_CONF}{name}": value for name, value in (spark_conf or {}).items()}
    return settings


def _listed(value: object) -> Any:
    """Return a list as the environment writes it, so that it is read by the same rules."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value
