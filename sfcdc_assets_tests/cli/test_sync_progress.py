"""What a sync and a comparison report while they go on, and what comes of it at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sfcdc_assets.cli.syncing.sync_progress import ENTITIES_SHOWN, SyncProgress
from sfcdc_assets.cli.syncing.sync_summary import summary_of
from sfcdc_assets.cli.syncing.verify_progress import VerifyProgress
from sfcdc_assets.cli.terminal.progress_display import LINE_SECONDS, ProgressDisplay
from sfcdc_assets.cli.verify import verdict
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_reads.compare import MISSING, one_sided
from sfcdc_assets.reconciliation.verify import VerifyReport
from sfcdc_assets.runtime.clock import Clock, using
from sfcdc_assets.runtime.progress import (
    BatchApplied,
    ComparisonsLeft,
    EventsDelivered,
    EventsLanded,
    Fact,
    PageCompared,
    PageStored,
    RequestSent,
    SnapshotBegun,
    SnapshotsWanted,
    StreamAwaited,
    WorkFound,
    notify,
    observing,
)
from sfcdc_assets.timeline.suspect import NewSuspect, Reason

CHANNEL = "/data/ChangeEvents"


class Time(Clock):
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        """Return the moment at which it stands."""
        return self.now


@pytest.fixture
def time() -> Iterator[Time]:
    """The clock in use."""
    with using(moment := Time()):
        yield moment


def report(progress: Callable[[Fact], None], time: Time, *facts: Fact | float) -> None:
    """Facts in their order; a number lets so many seconds pass."""
    for each in facts:
        if isinstance(each, float):
            time.now += each
        else:
            progress(each)


def test_the_rate_of_landing_and_each_entitys_state_are_shown(time: Time) -> None:
    progress = SyncProgress()
    report(
        progress,
        time,
        RequestSent(),
        SnapshotsWanted(("Account", "Contact", "Lead")),
        SnapshotBegun("Account"),
        10.0,
        EventsDelivered(CHANNEL, 3_000),
        EventsLanded(CHANNEL, 2_999),
        BatchApplied("Contact", 3, 2, 1, 4.0),
    )
    assert progress.lines() == [
        "2,999 events landed (300 a second), 1 API request, 10 s",
        "  Account  the org prepares the snapshot",
        "  Lead     waits",
        "  Contact  up to date, 6 records changed",
    ]


def test_a_snapshot_shows_its_rows_of_those_expected_and_the_time_left(time: Time) -> None:
    progress = SyncProgress()
    report(progress, time, SnapshotBegun("Account"), 7.0, PageStored("Account", 25_000, 125_000, False))
    assert progress.lines()[1] == "  Account  snapshot: 25,000 of 125,000 rows read"
    report(progress, time, 5.0, PageStored("Account", 50_000, 125_000, False))
    assert progress.lines()[1] == "  Account  snapshot: 50,000 of 125,000 rows read, 15 s left"
    assert progress.line().endswith("0 of 1 entity done; Account: snapshot: 50,000 of 125,000 rows read, 15 s left")
    report(progress, time, 15.0, PageStored("Account", 125_000, 125_000, True))
    assert progress.lines()[1] == "  Account  snapshot: 125,000 rows read"


def test_a_snapshot_that_goes_on_counts_the_time_from_where_it_does(time: Time) -> None:
    progress = SyncProgress()
    report(progress, time, SnapshotBegun("Account"), PageStored("Account", 90_000, 100_000, False))
    report(progress, time, 1.0, PageStored("Account", 91_000, 100_000, False))
    assert progress.lines()[1].endswith("9 s left")


def test_of_many_entities_those_at_work_are_shown() -> None:
    progress = SyncProgress()
    names = tuple(f"Object_{number:02}__c" for number in range(40))
    progress(WorkFound(names))
    for name in names[:30]:
        progress(BatchApplied(name, 1, 0, 0, None))
    lines = progress.lines()
    assert len(lines) == 1 + ENTITIES_SHOWN + 1
    assert [line.split()[0] for line in lines[1:11]] == list(names[30:])
    assert lines[-1] == "  and 28 more, 28 of them done"


@given(st.lists(st.tuples(st.sampled_from("AB"), *[st.integers(0, 9)] * 3), max_size=8), st.randoms())
def test_what_a_sync_changed_is_the_sum_of_its_batches_in_any_order(batches: list[tuple], random: object) -> None:
    shuffled = list(batches)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    sums = []
    for each in (batches, shuffled):
        progress = SyncProgress()
        report(progress, Time(), *(BatchApplied(*batch, None) for batch in each))
        sums.append({name: (e.inserted, e.updated, e.deleted) for name, e in progress.entities.items()})
    assert sums[0] == sums[1]
    assert sum(map(sum, sums[0].values())) == sum(sum(batch[1:]) for batch in batches)


def test_the_summary_has_what_was_done_and_what_is_left(tmp_path: Path, time: Time) -> None:
    warehouse = Warehouse(str(tmp_path))
    suspect = NewSuspect("001000000000001AAA", Reason.DRIFT, 3, "")
    Ledger.open_or_create(warehouse, "Contact").note([suspect], CHANNEL, 3, 1_700_000_000_000)
    progress = SyncProgress()
    report(
        progress,
        time,
        *[RequestSent()] * 12,
        SnapshotBegun("Account"),
        PageStored("Account", 500, 500, True),
        EventsDelivered(CHANNEL, 31, 1),
        EventsLanded(CHANNEL, 30),
        BatchApplied("Account", 520, 4, 0, None),
        BatchApplied("Account", 0, 5, 1, 8.4),
        BatchApplied("Contact", 0, 1, 0, 3.0, healed=2),
        42.0,
    )
    summary = summary_of(progress, warehouse)
    assert list(summary.lines()) == [
        "events landed:   30 (31 deliveries charged, 1 of them for events that had come before)",
        "snapshots:       1 (500 rows)",
        "records changed: 531 (520 inserted, 10 updated, 1 deleted)",
        "suspect records: 1 (2 healed)",
        "API requests:    12",
        "lag:             8 s",
        "time:            42 s",
    ]
    described = summary.to_json()
    assert (described["events_landed"], described["records_changed"], described["lag_seconds"]) == (30, 531, 8.4)
    assert not summary.is_empty


def test_suspect_records_of_entities_that_are_not_wanted_are_not_counted_as_nobody_reads_them(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    for entity in ("Account", "Contact", "Lead"):
        suspect = NewSuspect("001000000000001AAA", Reason.DRIFT, 3, "")
        Ledger.open_or_create(warehouse, entity).note([suspect], CHANNEL, 3, 1_700_000_000_000)
    progress = SyncProgress()
    assert summary_of(progress, warehouse).suspect_records == 3
    assert summary_of(progress, warehouse, ["Account", "Case"]).suspect_records == 1
    assert summary_of(progress, warehouse, ["Case"]).suspect_records == 0


def test_a_sync_without_anything_to_do_says_so(tmp_path: Path) -> None:
    progress = SyncProgress()
    summary = summary_of(progress, Warehouse(str(tmp_path)))
    assert summary.is_empty
    assert {"lag:             no event was applied", "suspect records: 0"} < set(summary.lines())
    progress(BatchApplied("Account", 0, 0, 0, None, healed=1))
    assert not summary_of(progress, Warehouse(str(tmp_path))).is_empty, "records that were read back are work"


def displayed(*, terminal: bool, time: Time, facts: Sequence[Fact | float]) -> str:
    output = StringIO()
    console = Console(file=output, force_terminal=terminal, width=80, legacy_windows=False)
    with using(time), ProgressDisplay(SyncProgress(), console) as display:
        report(notify, time, *facts)
        display.tell("[a line] of its own")
    return output.getvalue()


def test_away_from_a_terminal_there_is_a_plain_line_now_and_then() -> None:
    landed = EventsLanded(CHANNEL, 10)
    lines = displayed(terminal=False, time=Time(), facts=[landed, LINE_SECONDS, landed, landed, 1.0, landed])
    assert lines.splitlines() == ["20 events landed, 0 API requests, 10 s", "[a line] of its own"]


def test_on_a_terminal_progress_is_redrawn_and_gone_at_the_end_and_lines_stay() -> None:
    shown = displayed(terminal=True, time=Time(), facts=[SnapshotsWanted(("Account",))])
    assert "[a line] of its own\n" in shown
    assert "Account  waits" in shown
    assert shown.endswith("\x1b[2K"), "the drawing was erased"
    assert "\x1b[?25h" in shown, "the cursor is seen again"


AWAITED = StreamAwaited("/topic/Quiet", "the stream's first answer", 1_000_000)


@pytest.mark.parametrize("progress", [SyncProgress, VerifyProgress])
def test_what_is_waited_for_and_until_when_is_drawn_as_long_as_it_is(
    progress: type[SyncProgress | VerifyProgress], time: Time
) -> None:
    drawn = progress()
    report(drawn, time, AWAITED)
    (line,) = [line for line in drawn.lines() if "/topic/Quiet" in line]
    until = datetime.fromtimestamp(1_000).astimezone()
    assert line.strip() == f"/topic/Quiet: waits for the stream's first answer, until {until:%H:%M:%S} at the latest."
    report(drawn, time, replace(AWAITED, what=None))
    assert not [line for line in drawn.lines() if "/topic/Quiet" in line]


def test_away_from_a_terminal_a_wait_has_a_line_of_its_own() -> None:
    said = displayed(terminal=False, time=Time(), facts=[AWAITED, replace(AWAITED, what=None)])
    assert said.count("/topic/Quiet: waits for the stream's first answer") == 1


def test_nobody_observes_after_the_end() -> None:
    seen: list[Fact] = []
    with observing(seen.append), observing(seen.append):
        notify(RequestSent())
    notify(RequestSent())
    assert len(seen) == 2


def test_a_comparison_shows_how_far_it_is(time: Time) -> None:
    progress = VerifyProgress()
    report(
        progress, time, RequestSent(), PageCompared("Account", 1_000, 5_000), 2.0, PageCompared("Account", 2_000, 5_000)
    )
    assert progress.lines() == ["2,000 records compared, 1 API request; Account: 2,000 of about 5,000, 6 s left; 2 s"]
    report(progress, time, PageCompared("Contact", 100, 80))
    assert "2,100 records compared" in progress.line()
    assert "Contact: 100 of about 100" in progress.line()
    report(progress, time, ComparisonsLeft(7))
    assert "the tables are brought up to date, to compare 7 records again" in progress.line()


def test_the_verdict_is_one_sentence_with_what_to_do() -> None:
    equal = VerifyReport("Account", CHANNEL, 7, compared=1_000, values_compared=20_000)
    other = VerifyReport("Contact", CHANNEL, 7, compared=10, values_compared=100)
    assert verdict([equal, other]) == "Equal: all 1,010 records (20,100 values) of 2 entities equal the org."

    other.skipped = 3
    assert verdict([equal, other]).startswith("Equal, as far as the budget went: 1,010 records")

    other.left = frozenset({"003000000000001AAA"})
    found = verdict([equal, other], ["Lead"])
    assert found.startswith("Not everything could be compared: tables of Lead are damaged; 1 record of Contact.")

    other.differences = one_sided("Contact", ["003000000000001AAA"], MISSING)
    assert verdict([equal, other]) == (
        "Different: 1 record differs from the org, in Contact. `sfcdc verify --repair` reads them back."
    )


def test_the_display_is_on_standard_error_where_no_file_is(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressDisplay(SyncProgress()) as display:
        display.tell("here")
    assert capsys.readouterr() == ("", "here\n")
