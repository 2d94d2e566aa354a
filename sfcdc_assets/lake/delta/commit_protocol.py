"""Committing to a table: once, and only on top of what was read.

Exactly-once rests on one rule (docs/storage-layout.md, "Commit protocol" and "Transaction versions"): delta-rs does not
refuse a transaction version it has seen, so the version is read and the commit is made through the SAME handle; a
second writer that opened the same snapshot is then refused. Every write here goes through the handle that
`transaction_version` was read from.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

import tenacity
from deltalake import CommitProperties, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from sfcdc_assets.lake.delta.table_reads import TableReads
from sfcdc_assets.lake.errors import ConcurrentCommit, TableNotWritten
from sfcdc_assets.lake.store.store_errors import FROM_STORE, is_of_the_store, no_room, reason_of
from sfcdc_assets.settings.channel_kinds import MANAGED

CHECKPOINT_INTERVAL = 100
"""delta-rs writes a checkpoint with every so many commits, unless a table says otherwise."""

RUN_ID = "dagster_run_id"
"""In the metadata of a commit: the run of Dagster that made it."""


LONG_OPEN_SECONDS = 300.0
"""Logs are kept much longer than that."""
LOG = "_delta_log"
_COMMIT = re.compile(r"\d{20}\.json")


class CommitProtocol(TableReads):
    """A snapshot on top of which can be committed: how, and what becomes of a failure."""

    def _write(
        self,
        actions: list[AddAction | RemoveAction],
        properties: CommitProperties,
        mode: str = "append",
        schema: Schema | None = None,
    ) -> None:
        """Commit these actions; the handle goes on to what they make of the table."""
        self._delta.create_write_transaction(
            actions,
            mode,
            schema or self._delta.schema(),
            self.partition_columns() or None,
            commit_properties=properties,
            post_commithook_properties=self._afterwards(),
        )
        self._delta.update_incremental()

    def _afterwards(self) -> PostCommitHookProperties:
        """Return what delta-rs does after the next commit: a checkpoint now and then, and with it, where the table's
        settings say so, the log is cleaned up. By default it looks for old commits after every one, which means to ask
        for the time of each file in the log's folder: 0.4 s of 0.5 after 100,000 commits on a local disk."""
        comes_with_a_checkpoint = (self.version + 1) % CHECKPOINT_INTERVAL == 0
        return PostCommitHookProperties(cleanup_expired_logs=None if comes_with_a_checkpoint else False)

    @staticmethod
    def _properties(
        transactions: Mapping[str, int],
        metadata: Mapping[str, str] = MappingProxyType({}),
        *,
        only_next: bool = False,
    ) -> CommitProperties:
        """`only_next`: the commit is refused unless it is the next one after this handle's version.

        A commit that removes files must be. delta-rs lets one pass that removes a file which an OPTIMIZE has removed
        meanwhile (https://github.com/delta-io/delta-rs/pull/3982): the rows would be in the table twice.
        """
        return CommitProperties(
            custom_metadata=dict(metadata),
            max_commit_retries=0 if only_next else None,
            app_transactions=[Transaction(application, version) for application, version in transactions.items()],
        )

    @contextmanager
    def _committing(self, transactions: Mapping[str, int] = MappingProxyType({})) -> Iterator[None]:
        """Raise what fails to be committed as `ConcurrentCommit`, `TableNotWritten` or `TableDamaged`; what the store
        refuses, as `_asking`."""
        try:
            with self._asking():
                self._refuse_if_left_behind()
                yield
        except CommitFailedError as error:
            raise ConcurrentCommit(self.name, str(error)) from error
        except FROM_STORE as error:
            if not is_of_the_store(error):
                raise
            if no_room(str(error)) is None:
                self._raise_damaged(error)
            channels = {name: version for name, version in transactions.items() if _is_channel(name)}
            raise TableNotWritten(self.name, channels, self._delta.table_uri, reason_of(error)) from error

    def _refuse_if_left_behind(self) -> None:
        """Refuse a handle that has been open for long, if the commit after its version was made and cleaned up since:
        its place in the log is free again, and Delta would take what stands there for the newest state."""
        if time.monotonic() - self._opened < LONG_OPEN_SECONDS:
            return
        found = self._store.get_file_info(fs.FileSelector(LOG))
        commits = {int(info.base_name[:20]) for info in found if _COMMIT.fullmatch(info.base_name)}
        if max(commits, default=self.version) > self.version and self.version + 1 not in commits:
            raise ConcurrentCommit(self.name, "its log was cleaned up since the table was opened")

    def _check_room(self, size: int) -> None:
        """Refuse on a disk that has no room for so many bytes, before a file is begun: of a file that cannot be ended
        delta-rs reports by a panic of one of its threads too, in many lines on standard error."""
        uri = urlsplit(self._delta.table_uri)
        if uri.scheme == "file" and shutil.disk_usage(unquote(uri.path)).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _is_channel(application: str) -> bool:
    return application.startswith(("/", MANAGED)) and "#" not in application


ATTEMPTS = 10

retry_on_conflict = tenacity.retry(
    retry=tenacity.retry_if_exception_type(ConcurrentCommit),
    stop=tenacity.stop_after_attempt(ATTEMPTS),
    wait=tenacity.wait_random_exponential(multiplier=0.05, max=2.0),
    reraise=True,
)
"""Decorates a function that opens tables, decides by what it finds, and commits through the same handles."""
