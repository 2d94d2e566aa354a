"""The filter of a subscription to a PushTopic: `/topic/X?Industry='Energy'&City='Y'`, in which & means OR (Streaming
API Developer Guide, "Filtered Subscriptions")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CONDITION = re.compile(r"\s*(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|([^'&\s]+))\s*(?:&|$)")


class MalformedFilterError(ValueError):
    """The expression is no list of `field=value`, joined by &."""


@dataclass(frozen=True)
class SubscriptionFilter:
    """Conditions, of which one has to be fulfilled; none at all: everything is let through."""

    conditions: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, expression: str) -> SubscriptionFilter:
        """Return the filter in what follows the question mark. Raises MalformedFilterError."""
        found, at = [], 0
        while at < len(expression):
            match = _CONDITION.match(expression, at)
            if match is None:
                raise MalformedFilterError(expression[at:])
            quoted, plain = match[2], match[3]
            found.append((match[1], plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)))
            at = match.end()
        if not found:
            raise MalformedFilterError(expression)
        return cls(tuple(found))

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that it compares."""
        return tuple(name for name, _ in self.conditions)

    def lets_through(self, values: Mapping[str, Any]) -> bool:
        """Return whether a notification with these values is sent. Ids are compared as they are written: 18
        characters."""
        if not self.conditions:
            return True
        by_name = {name.lower(): value for name, value in values.items()}
        return any(_text(by_name.get(name.lower())) == wanted for name, wanted in self.conditions)


EVERYTHING = SubscriptionFilter()
"""No filter."""


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return None if value is None else str(value)
