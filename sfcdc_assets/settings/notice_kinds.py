"""The kinds of notices, by the names that SFCDC_NOTICES has them by."""

from __future__ import annotations

from enum import StrEnum


class NoticeKind(StrEnum):
    """What a notice is about; docs/notices.md has this list for readers, and a test holds the two together."""

    FAILED_RUNS = "failed_runs"
    """A run failed."""
    LATE = "late"
    """An entity's table is behind what has landed, or a channel or an object is not read, for too long; and the end of
    that."""
    SUSPECTS = "suspects"
    """Records, or an entity, became suspect. Most are read back within seconds."""
    OLD_SUSPECTS = "old_suspects"
    """Records, or an entity, have been suspect for more than an hour; and the end of that."""
    REFUSED_READS = "refused_reads"
    """A read of the org was refused or is not believed; and the end of that."""
    LOST_CHECKPOINTS = "lost_checkpoints"
    """A channel lost its place in the stream."""
    SCHEMA_CHANGES = "schema_changes"
    """Columns of a table were added, retired or retyped."""


BY_DEFAULT = tuple(kind for kind in NoticeKind if kind is not NoticeKind.SUSPECTS)
"""Those that a person may have to do something about."""
