"""What `sfcdc doctor` says of polled objects as a whole."""

from __future__ import annotations

from sfcdc_assets.doctor.finding import Outcome
from sfcdc_assets.doctor.polls import selection
from sfcdc_assets.polls.polled_objects import PollSelection


def test_what_a_channel_carries_is_not_called_polled_though_a_pattern_matches_it() -> None:
    found = selection(
        PollSelection(("Account", "Campaign", "Event"), {"SiteDetail": "it is computed"}), {"Campaign", "Event"}
    )
    assert found.found == "2: Campaign, Event. By change events: Account. Left out: SiteDetail (it is computed)."
    assert selection(PollSelection(("Account",), {}), ()).found == "0. By change events: Account"


def test_a_pattern_that_takes_nothing_is_a_failure_that_names_what_it_leaves_out() -> None:
    found = selection(PollSelection((), {"SiteDetail": "it is computed"}), ())
    assert found.outcome is Outcome.FAILED
    assert "SFCDC_POLL takes no object. All that it matches is left out: SiteDetail (it is computed)" in found.found
