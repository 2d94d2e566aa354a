"""Tokens of `changes_since`: what an entity's tables had when a consumer asked.

The order of tokens is that of batches, which `current_state`'s commits number. A position would not do: a
read of the org puts versions before those that are there, and makes rows suspect or certain without any. Batches are
numbered within tables that were built once, so a token says of which tables it is, too; whoever has one of others
begins again, and hears why.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sfcdc_assets.runtime.errors import SfcdcError


class ChangesExpired(SfcdcError):
    """What has changed since a token cannot be reported: its consumer begins again, with a call without one."""

    def __init__(self, entity: str, reason: str) -> None:
        self.entity, self.reason = entity, reason
        super().__init__(
            f"{entity}: what has changed since this token cannot be told, because {reason}. Begin again: ask for the "
            "changes of the entity without a token, which gives every living record as an insert, and put them in the "
            "place of what you have."
        )


FORM = "sfcdc1"
PARTS = 8
"""Form, entity, when the tables were built, when they were typed again, batch, table, organization, checksum."""
CHECKSUM = 8
"""Hex digits of the SHA-256 of all that is before it."""
NO_ORGANIZATION = "-"

DAMAGED = "it is damaged: it is not as it was given"
OF_ANOTHER_ENTITY = "it is a token of another entity"
OF_ANOTHER_ORGANIZATION = "the warehouse belongs to another organization now"
OF_ANOTHER_TABLE = "it is of another warehouse, or of tables that were removed since"
OF_EARLIER_RELEASE = "an earlier release wrote the tables then, which did not note what is needed for it"
REBUILT = "the entity's tables were rebuilt since, or records were erased from them"
RETYPED = "a field got another type since, and the tables were written again for it"
RESTORED = "the tables are older than it: an earlier copy of the warehouse, such as a backup, was put in their place"
GONE = (
    "a snapshot took the tables back to an earlier position since, and what was there before it is not kept any more "
    "(SFCDC_CUT_RETENTION_DAYS), or another client deleted it"
)


@dataclass(frozen=True)
class Token:
    """Tables of an entity after a batch. Texts of one entity sort by time."""

    entity: str
    built_at: int
    retyped_at: int
    batch: int
    table: str
    """The beginning of the id of `current_state`."""
    organization: str | None

    def __str__(self) -> str:
        named = (self.table, self.organization or NO_ORGANIZATION)
        text = ".".join(
            [FORM, self.entity, f"{self.built_at:013}", f"{self.retyped_at:013}", f"{self.batch:010}", *named]
        )
        return f"{text}.{_checksum(text)}"

    @classmethod
    def parse(cls, text: str, entity: str) -> Token:
        """Read a token that is to be one of the entity. Raises `ChangesExpired`."""
        text = text.strip()
        said, _, checksum = text.rpartition(".")
        parts = said.split(".")
        if len(parts) != PARTS - 1 or parts[0] != FORM or checksum != _checksum(said):
            raise ChangesExpired(entity, DAMAGED)
        _, named, built_at, retyped_at, batch, table, organization = parts
        if named != entity:
            raise ChangesExpired(entity, OF_ANOTHER_ENTITY)
        known = None if organization == NO_ORGANIZATION else organization
        return cls(named, int(built_at), int(retyped_at), int(batch), table, known)

    def check(self, now: Token) -> None:
        """Raise `ChangesExpired` where the tables as they are now are others than those of the token."""
        reason = self.why_not(now)
        if reason is not None:
            raise ChangesExpired(self.entity, reason)

    def why_not(self, now: Token) -> str | None:
        """Return why what has changed since cannot be reported; None where it can."""
        if self.organization != now.organization and self.organization is not None:
            return OF_ANOTHER_ORGANIZATION
        if self.table != now.table:
            return OF_ANOTHER_TABLE
        if self.built_at != now.built_at:
            return OF_EARLIER_RELEASE if not self.built_at else REBUILT
        return RETYPED if self.retyped_at != now.retyped_at else None


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:CHECKSUM]
