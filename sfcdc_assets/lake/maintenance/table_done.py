"""What maintenance did to a table, for people and programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sfcdc_assets.lake.errors import ConcurrentCommit, StoreRefused, StoreUnavailable, TableNotWritten
from sfcdc_assets.runtime.errors import SfcdcError, counted


@dataclass(frozen=True)
class TableDone:
    """What was done to a table: rows pruned, files packed into fewer, files vacuumed; why it was left, if it was."""

    table: str
    pruned: int = 0
    packed: int = 0
    packed_into: int = 0
    vacuumed: int = 0
    separated: int = 0
    """Files with overlapping Ids that were written again."""
    given_up: int = 0
    """Groups of files that others replaced meanwhile: the next maintenance takes them up."""
    lost: int = 0
    """Versions that cuts name and nobody can open any more: another client has cleaned up the log."""
    seconds: float = 0.0
    left: str | None = None
    """Others were at work on it; the next maintenance takes it up."""
    not_written: str | None = None
    """The table is sound, and there was no room, or no right, to write what would keep it small."""
    problem: str | None = None
    """What a person has to mend."""

    @property
    def failure(self) -> str | None:
        """What a person has to look at."""
        return self.problem or self.not_written

    @property
    def is_changed(self) -> bool:
        """Whether there was anything to do."""
        return bool(self.pruned or self.packed or self.vacuumed or self.separated)

    @property
    def is_worth_telling(self) -> bool:
        """Whether it says more than that there was nothing to do."""
        has_remark = bool(self.given_up or self.lost) or self.left is not None
        return self.is_changed or has_remark or self.failure is not None

    def to_json(self) -> dict[str, Any]:
        """Return the outcome for programs."""
        return {**asdict(self), "seconds": round(self.seconds, 3)}

    def __str__(self) -> str:
        if self.problem is not None:
            return f"{self.table}: {self.problem}"
        did = [
            f"{counted(self.pruned, 'row')} pruned" if self.pruned else "",
            f"{counted(self.packed, 'file')} packed into {self.packed_into:,}" if self.packed else "",
            f"{counted(self.separated, 'file')} with overlapping Ids separated" if self.separated else "",
            f"{counted(self.vacuumed, 'unused file')} deleted" if self.vacuumed else "",
            f"replaced meanwhile: {counted(self.given_up, 'group')} of files" if self.given_up else "",
            f"another client cleaned up the log, with {counted(self.lost, 'version')} of kept cuts"
            if self.lost
            else "",
            f"left for the next time ({self.left})" if self.left else "",
        ]
        if self.not_written is not None:
            did.append(self.not_written)
        noted = ", ".join(each for each in did if each) or "nothing to do"
        return f"{self.table}: {noted}, {self.seconds:.1f} s"


def after_step(done: TableDone, step: Callable[[TableDone], TableDone]) -> TableDone:
    """Return what was done with a step, or without it and why if it failed. Raises `StoreRefused` and
    `StoreUnavailable`: it is so for every table."""
    try:
        return step(done)
    except (StoreRefused, StoreUnavailable):
        raise
    except ConcurrentCommit:
        return replace(done, left="other writers were first ten times")
    except TableNotWritten as error:
        return replace(done, not_written=str(error))
    except SfcdcError as error:
        return replace(done, problem=str(error))


def summary_of(done: Sequence[TableDone]) -> str:
    """All tables in one line."""
    return (
        f"{counted(len(done), 'table')} maintained, {sum(each.is_changed for each in done)} changed: "
        f"{counted(sum(each.packed for each in done), 'file')} packed into {sum(each.packed_into for each in done):,}, "
        f"{counted(sum(each.vacuumed for each in done), 'unused file')} deleted, "
        f"{counted(sum(each.pruned for each in done), 'row')} pruned, "
        f"{counted(sum(each.left is not None or each.given_up > 0 for each in done), 'table')} left for the next time, "
        f"{sum(each.not_written is not None for each in done)} not written, "
        f"{sum(each.problem is not None for each in done)} damaged; {sum(each.seconds for each in done):.1f} s."
    )
