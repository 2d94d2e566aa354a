"""One playing of a scenario: its named records, and the org in which it happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.runtime.times import utc

ME = "me"
"""The name of the integration user, which every scenario has."""


@dataclass(frozen=True)
class NamedRecord:
    """A record of the scenario."""

    entity: str
    id: str


@dataclass
class Play:
    """What steps work with. `traffic`: make one transaction of a kind of the org's own traffic."""

    org: EmulatedOrg
    traffic: Callable[[str], object]
    names: dict[str, list[NamedRecord]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names[ME] = [NamedRecord("User", self.org.users.integration)]

    def records(self, names: str | Sequence[str]) -> list[NamedRecord]:
        """Return the records of a name, or of several. Raises RecordError for a name that no step has given."""
        found = []
        for name in [names] if isinstance(names, str) else names:
            if name not in self.names:
                raise RecordError("NOT_FOUND", f"no step before it has named a record {name}", (name,))
            found += self.names[name]
        return found

    def record(self, name: str) -> NamedRecord:
        """Return the one record of a name, or the first."""
        return self.records(name)[0]

    def add(self, name: str, entity: str, record_id: str) -> None:
        """Let a record be known by a name, beside others."""
        self.names.setdefault(name, []).append(NamedRecord(entity, record_id))

    def values(self, given: Mapping[str, Any]) -> dict[str, object]:
        """Return the values of a step as the org takes them. Beside plain ones there are these.

        * `{record: acme}`, the id of a record,
        * `{day: 7}`, the date in a week, and `{day: 7, at: "19:00"}`, a moment of that day,
        * `{lines: 40, but: {3: text}}`, a text of so many lines, some of them others,
        * `{unique: "jane{}@example.com"}`, a text with a number that no playing before it had.
        """
        return {name: self._value(value) for name, value in given.items()}

    def _value(self, value: Any) -> object:
        if not isinstance(value, Mapping):
            return value
        if "record" in value:
            return self.record(value["record"]).id
        if "day" in value:
            day = utc(self.org.clock()).date() + timedelta(days=value["day"])
            return f"{day}T{value['at']}:00Z" if "at" in value else day.isoformat()
        if "lines" in value:
            other = value.get("but", {})
            lines = (other.get(number, _line(number)) for number in range(1, value["lines"] + 1))
            return "\n".join(lines)
        return str(value["unique"]).format(self.org.last_commit_number % 1_000_000)


def _line(number: int) -> str:
    return f"{number}. Both parties keep what they agreed on under this heading, and say so in writing."


VALUE_FORMS: Mapping[str, frozenset[str]] = {
    "record": frozenset(),
    "day": frozenset({"at"}),
    "lines": frozenset({"but"}),
    "unique": frozenset(),
}
"""The forms of values that are no plain ones: their key, with the keys that may stand beside it."""
