"""Events that come twice count once; events that share a replay id are none the less all there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.story import land_a_piece, ledger, story

SEED = 71


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    print(f"seed {SEED}")
    with story(tmp_path_factory.mktemp("duplicates"), ["Account"], seed=SEED) as pipeline:
        pipeline.sync()
        yield pipeline


def update(org: EmulatedPipeline, *record_ids: str, **values: object) -> None:
    with org.org.transaction() as one:
        for record_id in record_ids:
            one.update("Account", record_id, values)


def copies(org: EmulatedPipeline) -> dict[str, list[int]]:
    """Event uuid -> the positions of the events that have it and name the same records, where there are several."""
    found: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for event in org.scan("raw_events"):
        found.setdefault((event["event_id"], tuple(event["record_ids"])), []).append(event["position"])
    return {event_id: sorted(positions) for (event_id, _), positions in found.items() if len(positions) > 1}


def texts(org: EmulatedPipeline, record_id: str) -> list[str]:
    """The values of its Description that events brought."""
    rows = sorted(org.scan("text_fields/Account"), key=lambda row: row["position"])
    wanted = (record_id, "Description")
    return [row["value"] for row in rows if (row["record_id"], row["field"]) == wanted and row["position"] > 0]


def test_an_event_published_twice_counts_once_at_once_and_much_later(org: EmulatedPipeline) -> None:
    """The late copies come after newer changes of the same records, in the same batch and in another: they must not
    undo them, nor bring a deleted record back, nor add a text a second time."""
    at_once, later, in_another_batch, deleted = ids(org.org, "Account")[:4]
    faults = org.server.faults
    faults.arm(Fault.DUPLICATE, after=0)
    update(org, at_once, Description="once")
    faults.arm(Fault.DUPLICATE, after=3)
    update(org, later, Description="first", Site="first")
    update(org, later, Description="second", Site="second")
    faults.arm(Fault.DUPLICATE, after=4)
    update(org, in_another_batch, Description="first", Site="first")
    update(org, in_another_batch, Description="second", Site="second")
    faults.arm(Fault.DUPLICATE, after=2)
    with org.org.transaction() as one:
        created = one.create("Account", {"Name": "here and gone", "Description": "here"})
    org.sync()
    assert len(copies(org)) == 2
    with org.org.transaction() as one:
        one.delete("Account", created)
        one.delete("Account", deleted)
    update(org, at_once, Site="the end")
    org.sync()
    assert len(copies(org)) == 4
    assert org.rows("Account")[created]["_is_deleted"]
    assert texts(org, at_once) == ["once"]
    assert texts(org, later) == texts(org, in_another_batch) == ["first", "second"]
    assert texts(org, created) == ["here"]
    org.assert_equal_to_the_org()


def test_enriched_events_that_share_a_replay_id_are_all_applied(org: EmulatedPipeline) -> None:
    several = ids(org.org, "Account")[4:8]
    update(org, *several, Site="0")  # the next change is by the same user, so one event
    org.server.faults.arm(Fault.ENRICHED, fields="Name,Industry")
    update(org, *several, Site="said of all four")
    org.sync()
    last = sorted(org.scan("raw_events"), key=lambda event: event["position"])[-4:]
    assert len({event["replay_id"] for event in last}) == len({event["event_id"] for event in last}) == 1
    assert sorted(record_id for event in last for record_id in event["record_ids"]) == sorted(several)
    assert {org.rows("Account")[record_id]["Site"] for record_id in several} == {"said of all four"}
    assert ledger(org) == []
    org.assert_equal_to_the_org()


def siblings(org: EmulatedPipeline, record_ids: Sequence[str], site: str) -> None:
    org.server.faults.arm(Fault.ENRICHED, fields="Name")
    update(org, *record_ids, Site=site)


@pytest.mark.parametrize("piece", [4, 5, 7])
def test_a_stop_between_two_siblings_loses_and_doubles_none(org: EmulatedPipeline, piece: int) -> None:
    """Groups of three are read in pieces of another size, each piece from the durable place of the one before: that is
    before the last replay id it had a part of."""
    records = ids(org.org, "Account")[2:11]
    update(org, records[0], Site="alone")
    org.sync()
    before = len(org.scan("raw_events"))
    for first in (0, 3, 6):
        siblings(org, records[first : first + 3], f"in pieces of {piece}")
    update(org, records[0], Phone=str(piece))
    published = org.server.bus.last_number
    pieces = []
    while len(org.scan("raw_events")) < published:
        pieces.append(land_a_piece(org, piece).count)
        assert len(pieces) < 20, pieces
    assert len(pieces) > 1
    assert min(pieces) > 0
    events = sorted(org.scan("raw_events"), key=lambda event: event["position"])
    assert [event["position"] for event in events] == list(range(1, published + 1))
    assert len(events) - before == 10
    named = Counter((event["event_id"], *event["record_ids"]) for event in events[before:])
    assert set(named.values()) == {1}
    org.sync()
    org.assert_equal_to_the_org()
