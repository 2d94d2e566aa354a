"""How many API requests the org has served in the last 24 hours: what `limits` and `Sforce-Limit-Info` tell."""

from __future__ import annotations

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import DAY, HOUR


class ApiUsage:
    """A rolling count in hourly steps, kept in the org's database."""

    def __init__(self, org: EmulatedOrg) -> None:
        self._org = org
        org.database.execute(
            "CREATE TABLE IF NOT EXISTS _api_usage (hour INTEGER, kind TEXT, count INTEGER, PRIMARY KEY (hour, kind)) "
            "WITHOUT ROWID"
        )

    def add(self, kind: str = "request", count: int = 1) -> None:
        """Count one request; or of another kind, one or several (`bulk_query` jobs, `bulk_batch`es, `bulk_query_byte`s
        of results, and each `bulk_query_page` that was read of them)."""
        hour = self._org.clock() // HOUR
        self._org.database.execute(
            "INSERT INTO _api_usage VALUES (?, ?, ?) ON CONFLICT (hour, kind) DO UPDATE "
            "SET count = count + excluded.count",
            (hour, kind, count),
        )

    def used(self, kind: str = "request") -> int:
        """Return the count of the last 24 hours."""
        since = (self._org.clock() - DAY) // HOUR
        row = self._org.database.row("SELECT SUM(count) FROM _api_usage WHERE kind = ? AND hour > ?", (kind, since))
        return row[0] or 0 if row else 0
