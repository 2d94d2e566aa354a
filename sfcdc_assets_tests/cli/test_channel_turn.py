"""What becomes of a channel that `sync --watch` reads again and again."""

from sfcdc_assets.cli.local_dagster.channel_turn import LONGEST_PAUSE_SECONDS, PAUSE_SECONDS, ChannelWatch, Turn


def test_a_channel_of_which_nothing_is_found_out_for_days_is_read_after_the_longest_pause_and_ends_nothing() -> None:
    watched = ChannelWatch("/data/ChangeEvents", lambda _: None)
    in_vain = Turn("/data/ChangeEvents", "", (), has_looked=False)
    pauses = [watched.after(in_vain) for _ in range(3 * 24 * 3600 // int(LONGEST_PAUSE_SECONDS))]
    assert pauses[0] == 2 * PAUSE_SECONDS
    assert pauses[-1] == max(pauses) == LONGEST_PAUSE_SECONDS
    assert watched.after(Turn("/data/ChangeEvents", "", ())) == PAUSE_SECONDS
