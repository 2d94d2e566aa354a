"""Options of bulk jobs that allow few values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfcdc_assets.emulator.errors import ApiError


def choice(document: Mapping[str, Any], key: str, allowed: Mapping[str, str], default: str) -> str:
    """The value of an option, or the default. Raises ApiError API_ERROR."""
    value = document.get(key) or default
    if not isinstance(value, str) or value not in allowed:
        raise ApiError("API_ERROR", f"{key} must be one of {', '.join(allowed)}")
    return value
