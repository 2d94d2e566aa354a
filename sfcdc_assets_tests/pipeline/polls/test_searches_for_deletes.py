"""What the search for records that were deleted for good holds in memory."""

from __future__ import annotations

from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.landing.hard_deletes import HardDeletes
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.polls.polled_org import reading


def test_a_search_is_given_up_for_another_where_both_hold_too_much_and_finds_its_deletes_afterwards(
    org: EmulatedPipeline,
) -> None:
    org.sync()
    gone = {entity: ids(org.org, entity)[0] for entity in ("Case", "Lead")}
    with org.org.transaction() as work:
        for entity, record_id in gone.items():
            work.hard_delete(entity, record_id)
    with reading(org) as (_, connected, warehouse):
        position = RawEvents.open(warehouse).last_position(POLLED)
        searches = HardDeletes(warehouse, connected, most_ids=1)
        assert searches.search("Case", position, 1) == (False, 0)
        of_one = searches.held
        assert of_one
        assert searches.search("Lead", position, 1) == (False, 0)
        assert searches.held <= of_one
        searches.forget_others(["Case"])
        assert searches.held == 0
        for entity in gone:
            assert searches.search(entity, position, 9)[0]
        assert searches.held == 0
    org.sync()
    assert all(org.rows(entity)[record_id]["_is_deleted"] for entity, record_id in gone.items())
