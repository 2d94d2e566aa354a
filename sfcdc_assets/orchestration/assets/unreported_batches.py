"""Batches of an entity that wait to be reported as one: sums of what they did, where they began and ended."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sfcdc_assets.apply.apply_changes import merged_report
from sfcdc_assets.apply.catch_up import Applied
from sfcdc_assets.orchestration.table_metadata import lag_seconds
from sfcdc_assets.org_reads.read_back import ReadBackReport


@dataclass(frozen=True)
class HeldBatches:
    """`lag`: seconds that the change that waited longest took until it was visible; `newest_lag`: the same of the
    newest change of the last batch that had any."""

    applied: Applied
    lag: float | None
    newest_lag: float | None

    @classmethod
    def of(cls, applied: Applied) -> HeldBatches:
        """One batch."""
        oldest, newest = applied.report.committed or (None, None)
        at = applied.applied_at
        return cls(applied, lag_seconds(oldest, at).get("lag_seconds"), lag_seconds(newest, at).get("lag_seconds"))

    def and_then(self, later: HeldBatches) -> HeldBatches:
        """Return both as one."""
        first, second = self.applied, later.applied
        healed = [each for each in (first.healed_after, second.healed_after) if each is not None]
        lags = [each for each in (self.lag, later.lag) if each is not None]
        summed = replace(
            second,
            report=merged_report(first.report, second.report),
            read=_read_as_one(first.read, second.read),
            healed_after=max(healed, default=None),
            api_requests=first.api_requests + second.api_requests,
        )
        newest = self.newest_lag if later.newest_lag is None else later.newest_lag
        return HeldBatches(summed, max(lags, default=None), newest)


def _read_as_one(first: ReadBackReport | None, second: ReadBackReport | None) -> ReadBackReport | None:
    if first is None or second is None:
        return second or first
    summed = ("asked", "found", "gone", "stale", "refused", "not_believed", "calls")
    opened = [each.oldest_opened_at for each in (first, second) if each.oldest_opened_at is not None]
    return replace(
        second,
        not_believed_why=second.not_believed_why or first.not_believed_why,
        oldest_opened_at=min(opened, default=None),
        error=second.error or first.error,
        **{name: getattr(first, name) + getattr(second, name) for name in summed},
    )
