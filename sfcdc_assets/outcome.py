"""The outcome of work that must not stop other work: what it returns, or the exception that it raises, as a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def outcome_of(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T | Exception:
    """Do it. The end of the process (`KeyboardInterrupt`, `SystemExit`) is raised all the same."""
    try:
        return work(*arguments, **options)
    except Exception as error:  # noqa: BLE001 - the caller tells whose it is, and raises it when all others are done
        return error
