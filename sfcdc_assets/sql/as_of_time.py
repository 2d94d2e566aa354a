"""The time that a question is about."""

from __future__ import annotations

from datetime import UTC, datetime

from sfcdc_assets.runtime.errors import SettingsError


def moment_of(text: str) -> datetime:
    """Read a time as ISO 8601 writes it; UTC where no zone is given. Raises `SettingsError`."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        problem = f"{text!r} is not a time"
        raise SettingsError("--at", problem, "Write it as 2026-11-20, 2026-11-20T12:00 or 2026-11-20T12:00Z") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
