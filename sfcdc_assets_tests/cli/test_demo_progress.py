"""What a person sees of the demo's steps."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from sfcdc_assets.cli.demo_parts.demo_progress import Steps
from sfcdc_assets.runtime.clock import using
from sfcdc_assets.runtime.progress import BatchApplied
from sfcdc_assets_tests.simulated_clock import SimulatedClock


def reported(*, terminal: bool) -> str:
    output = StringIO()
    with Steps(Console(file=output, force_terminal=terminal, width=100), 2) as steps:
        steps.begin("one thing is done")
        steps.tell("[a line] of its own")
        steps.begin("another is")
    return output.getvalue()


def test_away_from_a_terminal_each_step_is_a_line() -> None:
    assert reported(terminal=False).splitlines() == [
        "Step 1 of 2: one thing is done",
        "[a line] of its own",
        "Step 2 of 2: another is",
    ]


def test_on_a_terminal_a_bar_says_how_far_it_is() -> None:
    shown = reported(terminal=True)
    assert "1/2" in shown
    assert "Step 2 of 2: another is" in shown


def test_the_first_table_is_said_once_with_the_time_since_the_org_was_up() -> None:
    output, simulated = StringIO(), SimulatedClock()
    with using(simulated), Steps(Console(file=output, width=100), 1) as steps:
        steps.org_is_up("https://localhost:1")
        simulated.sleep(7)
        steps.observe(BatchApplied("Account", 6500, 0, 0, None))
        steps.observe(BatchApplied("Case", 6500, 0, 0, None))
    assert output.getvalue().splitlines() == [
        "The org is at https://localhost:1.",
        "First table: Account, 7 s after the org was up.",
    ]
