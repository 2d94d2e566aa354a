"""What a user has approved for the connected app: codes of the web server flow, good once, and refresh tokens.

Only hashes of refresh tokens are stored. That of the settings is approved from the start, so that clients which are
set up with one (Airbyte, Singer taps) need no browser.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading

from sfcdc_assets.emulator.org.org import EmulatedOrg

_CODE_LIFETIME = 15 * 60_000


class Authorizations:
    """Thread-safe."""

    def __init__(self, org: EmulatedOrg) -> None:
        self._org = org
        self._lock = threading.Lock()
        self._codes: dict[str, tuple[str, str | None, int]] = {}
        org.database.execute(
            "CREATE TABLE IF NOT EXISTS _refresh_token "
            "(token_hash TEXT PRIMARY KEY, is_revoked INTEGER NOT NULL) WITHOUT ROWID"
        )

    def new_code(self, redirect_uri: str, challenge: str | None) -> str:
        """Return a code for the redirect; `challenge` is that of PKCE (S256), None without."""
        code = f"aPrx{secrets.token_urlsafe(48)}"
        with self._lock:
            self._codes[code] = (redirect_uri, challenge, self._org.clock() + _CODE_LIFETIME)
        return code

    def redeem(self, code: str, redirect_uri: str, verifier: str | None) -> bool:
        """Return whether the code was good; it is no longer."""
        with self._lock:
            known = self._codes.pop(code, None)
        if known is None or known[0] != redirect_uri or known[2] <= self._org.clock():
            return False
        return known[1] is None or (verifier is not None and hmac.compare_digest(known[1], _challenge(verifier)))

    def new_refresh_token(self) -> str:
        """Return a refresh token for the integration user, good until it is revoked."""
        token = f"5Aep861{secrets.token_urlsafe(60)}"
        self._org.database.execute("INSERT INTO _refresh_token VALUES (?, 0)", (_hash(token),))
        return token

    def is_good(self, refresh_token: str) -> bool:
        """Return whether the token was given out, or is that of the settings, and was not revoked."""
        row = self._org.database.row(
            "SELECT is_revoked FROM _refresh_token WHERE token_hash = ?", (_hash(refresh_token),)
        )
        return not row[0] if row is not None else self._is_that_of_the_settings(refresh_token)

    def revoke(self, refresh_token: str) -> bool:
        """Make a token worthless; whether it was worth anything."""
        if not self.is_good(refresh_token):
            return False
        self._org.database.execute(
            "INSERT INTO _refresh_token VALUES (?, 1) ON CONFLICT (token_hash) DO UPDATE SET is_revoked = 1",
            (_hash(refresh_token),),
        )
        return True

    def _is_that_of_the_settings(self, refresh_token: str) -> bool:
        return hmac.compare_digest(
            refresh_token.encode("utf-8", "surrogatepass"), self._org.settings.credentials.refresh_token.encode()
        )


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
