"""Which way to log in the settings mean. Exactly one must be complete."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import SecretStr

from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.salesforce.grants import AccessToken, ClientCredentials, JwtBearer, Password, SoapLogin
from sfcdc_assets.salesforce.login import Grant, is_sendable
from sfcdc_assets.settings.settings import Settings

_WAYS: dict[str, tuple[str, ...]] = {
    "an access token": ("access_token",),
    "username and password": ("username", "password", "security_token"),
    "JWT bearer": ("client_id", "username", "private_key_file"),
    "client credentials": ("client_id", "client_secret"),
}


def chosen_grant(settings: Settings, now_s: Callable[[], float]) -> Grant:
    """Return the grant of the one complete way to log in. `now_s`: epoch seconds, for the expiry of a JWT.

    Raises `SettingsError` naming the settings that are missing, or the two ways that are complete at once.
    """
    way = _chosen_way(settings)
    login_url = settings.login_url
    if way == "an access token" and settings.access_token:
        return _handed_over(settings.access_token, settings.instance_url)
    if way == "client credentials" and settings.client_id and settings.client_secret:
        if settings.instance_url and "login_url" not in settings.model_fields_set:
            login_url = settings.instance_url  # the general login host never takes this grant
        return ClientCredentials(login_url, settings.client_id, settings.client_secret)
    if way == "JWT bearer" and settings.client_id and settings.username and settings.private_key_file:
        return JwtBearer(login_url, settings.client_id, settings.username, settings.private_key_file, now_s)
    if settings.username and settings.password and settings.security_token:
        user = (settings.username, settings.password, settings.security_token)
        if settings.client_id and settings.client_secret:
            return Password(login_url, settings.client_id, settings.client_secret, *user)
        return SoapLogin(login_url, *user)
    raise SettingsError(" / ".join(map(_variable, _WAYS[way])), "one of them is empty", "Give each a value")


def _handed_over(token: SecretStr, instance_url: str | None) -> AccessToken:
    if instance_url is None:
        raise SettingsError(
            "SFCDC_INSTANCE_URL",
            "needed with SFCDC_ACCESS_TOKEN, and not set",
            "Set it to the org's address, such as https://example.my.salesforce.com",
        )
    if not is_sendable(token.get_secret_value()):
        problem = "holds a space, a line break or a character outside ASCII"
        raise SettingsError("SFCDC_ACCESS_TOKEN", problem, "Copy the token again, without anything around it")
    return AccessToken(token, instance_url)


def _chosen_way(settings: Settings) -> str:
    given = {name for names in _WAYS.values() for name in names if getattr(settings, name) is not None}
    complete = [way for way, needed in _WAYS.items() if given.issuperset(needed)]
    if "username and password" in complete and "client credentials" in complete:
        # With a connected app's id and secret, username and password are OAuth's password grant: one way, not two.
        complete.remove("client credentials")
    if len(complete) == 1:
        return complete[0]
    if complete:
        settings_of = [" + ".join(map(_variable, _WAYS[way])) for way in complete]
        raise SettingsError(
            " / ".join(_variable(_WAYS[way][-1]) for way in complete),
            f"{len(complete)} ways to log in are set at once ({'; '.join(complete)})",
            f"Keep one of: {'; '.join(settings_of)}",
        )
    begun = [way for way, needed in _WAYS.items() if given.intersection(needed)]
    if not begun:
        best, *others = reversed([" + ".join(map(_variable, needed)) for needed in _WAYS.values()])
        raise SettingsError(
            "SFCDC_CLIENT_ID",
            "no login to the org is set",
            f"Set {best} and SFCDC_INSTANCE_URL (docs/real-org.md has every step, the README the other ways: "
            f"{'; '.join(others)}). Without an org, begin with `sfcdc demo`, or `sfcdc emulator --dir org` and the "
            "settings that it writes to org/org.env",
        )
    # The way meant is the one that lacks least and, of two such, has most.
    meant = min(begun, key=lambda way: (len(set(_WAYS[way]) - given), -len(_WAYS[way])))
    missing = " and ".join(_variable(name) for name in _WAYS[meant] if name not in given)
    raise SettingsError(missing, f"needed to log in by {meant}, and not set", "Set it in the environment or in .env")


def _variable(field_name: str) -> str:
    """Return the environment variable of a field of `Settings`."""
    return "SFCDC_" + field_name.upper()
