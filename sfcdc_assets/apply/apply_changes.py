"""Bring entities' tables up to the last complete transaction.

What is new of each entity is found, Spark's tasks write the files of all of them in one job, and each entity is
committed on its own (`Attempt`). An entity that fails, at any of these, keeps no other from being brought up to date:
its error is its result.

`Applier` has the two halves apart: what entities share, and the commit of each. `apply_entities` does both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from sfcdc_assets.apply.attempt import Attempt, Prepared, ToApply, at_once
from sfcdc_assets.apply.batch_commit import ApplyReport
from sfcdc_assets.apply.entity_tables import EntityTables
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.org_connection.run_context import RunContext
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of, side_by_side

_SUMMED = (
    "events",
    "deliveries",
    "duplicates",
    "inserted",
    "updated",
    "deleted",
    "read_back",
    "texts",
    "versions",
    "suspects_healed",
    "key_ranges_written",
    "bytes_written",
    "seconds",
)


def merged_report(first: ApplyReport, second: ApplyReport) -> ApplyReport:
    """Return one report of two applications, from where the first began to where the second ended."""
    sums = {name: getattr(first, name) + getattr(second, name) for name in _SUMMED}
    committed = [*(first.committed or ()), *(second.committed or ())]
    opened = dict(first.suspects_opened)
    for reason, count in second.suspects_opened.items():
        opened[reason] = opened.get(reason, 0) + count
    return replace(
        second,
        from_position=first.from_position,
        committed=(min(committed), max(committed)) if committed else None,
        suspects_opened=opened,
        schema_before=first.schema_before,
        **sums,
    )


__all__ = [
    "Applier",
    "ApplyReport",
    "Applying",
    "Committed",
    "Prepared",
    "Ready",
    "ToApply",
    "apply_entities",
    "apply_entity",
]

Applying = ApplyReport | Exception
"""What became of an entity."""


def apply_entity(run: RunContext, wanted: ToApply) -> ApplyReport:
    """Apply all that one entity has, batch after batch. Raises `SnapshotMissing`, `OtherChannel`, `PrivacyChanged`,
    `TableDamaged`, `TableNotWritten` and what else stops it."""
    done: ApplyReport | None = None
    while done is None or done.has_more:
        found = apply_entities(run, [wanted])[wanted.entity]
        if isinstance(found, Exception):
            raise found
        done = found if done is None else merged_report(done, found)
    return done


def apply_entities(run: RunContext, wanted: Sequence[ToApply]) -> Mapping[str, Applying]:
    """Apply the complete events, new snapshots and new read-backs of each entity, if any, to its tables: one batch.

    Running it again changes nothing (guarantee 2): how far an entity came is read from, and moved by, the very commit
    that swaps its files. For those of which another writer was first, everything is retried.
    """
    outcomes: dict[str, Applying] = {}

    @retry_on_conflict
    def apply_the_rest() -> None:
        rest = [each for each in wanted if isinstance(outcomes.get(each.entity), ConcurrentCommit | None)]
        for entity, found in Attempt(run).of(rest):
            outcomes[entity] = found
        for found in outcomes.values():
            if isinstance(found, ConcurrentCommit):
                raise found

    with suppress(ConcurrentCommit):
        apply_the_rest()
    return outcomes


@dataclass(frozen=True)
class Committed:
    """An entity whose batch is in its tables since a time (epoch ms)."""

    report: ApplyReport
    at_ms: int


Ready = Committed | Prepared | Exception
"""How far an entity is when what it shares with others is done."""


class Applier:
    """Applies events in two halves: `prepare` what entities share, then `commit` each of them.

    After the run's Spark was lost, what had been committed before is seen to be, and the rest is done again with
    another one (guarantee 2). `on_commit` is called after an entity's commit, in the thread that
    made it, beside the commits of others: what it reads of the tables through their handles costs nobody time.
    """

    def __init__(
        self, run: RunContext, on_commit: Callable[[ApplyReport, EntityTables], None] = lambda _report, _tables: None
    ) -> None:
        self._run = run
        self._on_commit = on_commit

    def prepare(self, wanted: Sequence[ToApply]) -> Mapping[str, Prepared | Exception]:
        """Plan all of them and have the files of all but the large ones written, in few jobs of Spark. Commits nothing
        but columns; an entity that fails has its error instead. In the order in which to commit them: large ones, whose
        tasks are still to run, come last."""
        if not wanted:
            return {}
        found = outcome_of(self._prepared, wanted)
        if self._run.spark_is_lost():
            found = outcome_of(self._prepared, wanted)
        if isinstance(found, Exception):
            raise found
        return found

    def commit_written(self, prepared: Mapping[str, Prepared | Exception]) -> dict[str, Ready]:
        """Commit those whose files are written, some at a time: in an object store most of that is waiting. The large
        ones stay prepared; one that fails has its error instead."""
        attempt = self._attempt()
        ready = {
            entity: found
            for entity, found in prepared.items()
            if isinstance(found, Prepared) and found.outcome is not None
        }

        def committed(each: Prepared) -> Committed:
            done = Committed(attempt.commit(each), clock.now_ms())
            self._on_commit(done.report, each.tables)
            return done

        done = side_by_side(committed, list(ready.values()), at_once(self._run.warehouse))
        return {**prepared, **dict(zip(ready, done, strict=True))}

    def commit(self, wanted: ToApply, prepared: Prepared | Exception) -> ApplyReport:
        """Commit what is prepared, and what is too much for one batch; retried from the beginning, alone, when another
        writer was first. Raises what `apply_entity` raises."""
        try:
            if isinstance(prepared, Exception):
                raise prepared
            done = self._attempt().commit(prepared)
            self._on_commit(done, prepared.tables)
        except Exception as error:
            if isinstance(error, ConcurrentCommit) or self._run.spark_is_lost():
                return self.apply(wanted)
            raise
        return merged_report(done, self.apply(wanted)) if done.has_more else done

    def apply(self, wanted: ToApply) -> ApplyReport:
        """Apply both halves for one entity."""
        return apply_entity(self._run, wanted)

    def _prepared(self, wanted: Sequence[ToApply]) -> dict[str, Prepared | Exception]:
        return {entity: found for job in self._attempt().jobs(wanted) for entity, found in job}

    def _attempt(self) -> Attempt:
        return Attempt(self._run)
