"""Keeping a table small: files and commits that nobody needs any more."""

from __future__ import annotations

from collections.abc import Sequence

from sfcdc_assets.lake.table_commits import TableCommits

KEPT_HOURS = 168
"""How long a file stays after a commit took it out of the table: no reader of an older version takes longer."""


class TableUpkeep(TableCommits):
    """A snapshot of a table that can be maintained."""

    def forget_older_versions(self) -> None:
        """Delete the files that only older versions need, at once: what may not be kept may not be read there either.
        Readers of older versions fail."""
        with self._asking():
            self._delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def vacuum(self, hours: int = KEPT_HOURS, *, orphans: bool = False, versions: Sequence[int] = ()) -> int:
        """Delete files that no version of the last hours needs; returns how many there were.

        `orphans`: also those that no commit names, if they are as old: a task that was killed wrote them. `versions`:
        older ones that stay readable.
        """
        kept = list(versions) or None
        with self._asking():
            if not self._delta.vacuum(retention_hours=hours, dry_run=True, full=orphans, keep_versions=kept):
                return 0  # it would note in the log that it found none
            return len(self._delta.vacuum(retention_hours=hours, dry_run=False, full=orphans, keep_versions=kept))

    def keep(self, *, files_hours: int | None = None, log_hours: int | None = None) -> bool:
        """How long files that were replaced, and the log, are kept at least; whether that is new to the table.

        Checkpoints forget sooner that a file was replaced, and vacuum takes it for an orphan then. Raises
        `ConcurrentCommit`, as does every writer that opened the table before.
        """
        wanted = {
            name: f"interval {hours} hours"
            for name, hours in (
                ("delta.deletedFileRetentionDuration", files_hours),
                ("delta.logRetentionDuration", log_hours),
            )
            if hours is not None
        }
        if wanted.items() <= self._delta.metadata().configuration.items():
            return False
        with self._committing():
            self._delta.alter.set_table_properties(wanted)
        return True

    def checkpoint(self) -> None:
        """Write the state of this version beside the log, so that opening reads no commit before it."""
        with self._asking():
            self._delta.create_checkpoint()

    def clean_log(self) -> None:
        """Delete commits and checkpoints that are older than the log is kept and that no younger version needs."""
        with self._asking():
            self._delta.cleanup_metadata()
