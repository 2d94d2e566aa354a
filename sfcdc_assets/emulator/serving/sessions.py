"""Access tokens the org has issued: whose they are and until when. Both REST and Pub/Sub ask here.

Only hashes are stored, so neither the database nor a listing of it gives a token away.
"""

from __future__ import annotations

import hashlib
import secrets

from sfcdc_assets.emulator.org.ids import to_15
from sfcdc_assets.emulator.org.org import EmulatedOrg


class Sessions:
    """Tokens in the org's database; they live as long as `OrgSettings.token_lifetime` by the org's clock."""

    def __init__(self, org: EmulatedOrg) -> None:
        self._org = org
        self._database = org.database
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _session "
            "(token_hash TEXT PRIMARY KEY, user_id TEXT NOT NULL, expires_at INTEGER NOT NULL) WITHOUT ROWID"
        )

    def issue(self, user_id: str, lifetime: int | None = None) -> str:
        """Return a new token for a user; `lifetime` in ms, by default that of the settings."""
        token = f"{to_15(self._org.organization_id)}!AQ{secrets.token_urlsafe(60)}"
        now = self._org.clock()
        with self._database.transaction():
            self._database.execute("DELETE FROM _session WHERE expires_at <= ?", (now,))
            self._database.execute(
                "INSERT INTO _session VALUES (?, ?, ?)",
                (_hash(token), user_id, now + (self._org.settings.token_lifetime if lifetime is None else lifetime)),
            )
        return token

    def user_of(self, access_token: str) -> str | None:
        """Return the id of the user the token was given to, or None if it is unknown, revoked or expired."""
        row = self._database.row(
            "SELECT user_id, expires_at FROM _session WHERE token_hash = ?", (_hash(access_token),)
        )
        return row[0] if row is not None and row[1] > self._org.clock() else None

    def expiry_of(self, access_token: str) -> int | None:
        """Return when a token ends that is good now, in epoch ms."""
        row = self._database.row("SELECT expires_at FROM _session WHERE token_hash = ?", (_hash(access_token),))
        return row[0] if row is not None and row[0] > self._org.clock() else None

    def revoke(self, access_token: str) -> bool:
        """Make a token worthless; whether it was worth anything."""
        return self._database.execute("DELETE FROM _session WHERE token_hash = ?", (_hash(access_token),)) > 0

    def expire_all(self) -> None:
        """Make all tokens worthless at once, as an administrator or a short session policy does."""
        self._database.execute("DELETE FROM _session")


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
