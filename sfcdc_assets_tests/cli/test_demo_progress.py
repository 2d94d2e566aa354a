"""What a person sees of the demo's steps."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from sfcdc_assets.cli.demo_progress import Steps


def told(*, terminal: bool) -> str:
    output = StringIO()
    with Steps(Console(file=output, force_terminal=terminal, width=100), 2) as steps:
        steps.begin("one thing is done")
        steps.tell("[a line] of its own")
        steps.begin("another is")
    return output.getvalue()


def test_away_from_a_terminal_each_step_is_a_line() -> None:
    assert told(terminal=False).splitlines() == [
        "Step 1 of 2: one thing is done",
        "[a line] of its own",
        "Step 2 of 2: another is",
    ]


def test_on_a_terminal_a_bar_says_how_far_it_is() -> None:
    shown = told(terminal=True)
    assert "1/2" in shown
    assert "Step 2 of 2: another is" in shown
