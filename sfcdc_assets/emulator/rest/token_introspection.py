"""What a token is worth, as the client that owns it may ask (RFC 7662)."""

from __future__ import annotations

from typing import Any

from sfcdc_assets.emulator.rest.authorizations import Authorizations
from sfcdc_assets.emulator.rest.rest_context import RestContext


def introspected(context: RestContext, authorizations: Authorizations, token: str, url: str) -> dict[str, Any]:
    """`active: false` and nothing else for a token that is worth nothing; times are epoch seconds. `url`: the org's."""
    org = context.org
    user_id, expires_at = context.sessions.user_of(token), context.sessions.expiry_of(token)
    facts: dict[str, Any] = {
        "active": True,
        "scope": "api id",
        "client_id": org.settings.credentials.client_id,
        "username": org.settings.credentials.username,
        "sub": f"{url}/id/{org.organization_id}/{user_id or org.users.integration}",
        "token_type": "access_token",
    }
    if user_id is not None and expires_at is not None:
        began = min(org.clock(), expires_at - org.settings.token_lifetime) // 1000
        return facts | {"exp": expires_at // 1000, "iat": began, "nbf": began}
    if authorizations.is_good(token):
        return facts | {"scope": "refresh_token api id", "token_type": "refresh_token"}
    return {"active": False}
