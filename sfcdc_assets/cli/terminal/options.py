"""What several commands are given alike: times, and whether views have labels."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from sfcdc_assets.runtime.errors import SettingsError

Labels = Annotated[
    bool,
    typer.Option(
        "--labels",
        help="Put the labels of picklist values beside them (`stage_name_label`), and the names of record types "
        "(`record_type_name`) and of what lookups point to (`account_name`).",
    ),
]
"""The option of the commands about views."""


def moment_of(text: str, option: str) -> datetime:
    """Read the time that an option was given, as ISO 8601 writes it; UTC where no zone is said. Raises
    `SettingsError`."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        problem = f"{text!r} is not a time"
        raise SettingsError(option, problem, "Write it as 2026-11-20, 2026-11-20T12:00 or 2026-11-20T12:00Z") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
