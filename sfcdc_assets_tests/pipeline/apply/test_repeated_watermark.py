"""Snapshots that have one watermark: nothing has landed between them, or the later one was begun before it had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from deltalake import DeltaTable

from sfcdc_assets.org_reads.take_snapshot import ToCopy, take_snapshot
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.removed_layers import remove_layers
from sfcdc_assets_tests.pipeline.stepwise import Copy, connected

TEXT = "a text that is large enough\n" * 50


@pytest.fixture
def copy(make_pipeline: Callable[..., EmulatedPipeline]) -> Iterator[Copy]:
    """Some records with texts and one without, copied once."""
    pipeline = make_pipeline("Account", records=4)
    for record_id in ids(pipeline.org, "Account")[:3]:
        with pipeline.org.transaction() as work:
            work.update("Account", record_id, {"Description": f"{record_id}\n{TEXT}"})
    with connected(pipeline) as copy:
        copy.snapshot()
        copy.catch_up()
        yield copy


def texts(copy: Copy) -> Counter[tuple[Any, ...]]:
    """Rows of the texts, without the batch that wrote them."""
    names = ("record_id", "field", "position", "value", "origin")
    return Counter(tuple(row[name] for name in names) for row in copy.pipeline.scan("text_fields/Account"))


def watermark(copy: Copy) -> int:
    return max(position for _, _, position, _, _ in texts(copy))


def snapshot_at(copy: Copy, position: int) -> None:
    """One whose watermark was noted a while ago."""
    take_snapshot(copy.run, ToCopy("Account", copy.channel), lambda least: max(least, position))


def test_a_second_snapshot_at_the_watermark_of_the_first_leaves_each_text_once(copy: Copy) -> None:
    before, first = texts(copy), watermark(copy)
    copy.snapshot()
    copy.catch_up()
    assert (texts(copy), watermark(copy)) == (before, first)
    assert len(before) >= 3


def test_a_second_snapshot_at_one_watermark_is_applied_to_texts_that_were_written_again(
    copy: Copy,
) -> None:
    """delta-rs has view types in the files of an UPDATE or a DELETE, of ours as of any client's."""
    before = texts(copy)
    DeltaTable(copy.warehouse.uri("text_fields/Account")).update({"record_id": "record_id"})
    copy.snapshot()
    copy.catch_up()
    assert texts(copy) == before


def test_two_snapshots_at_one_watermark_in_one_batch_leave_each_text_once(copy: Copy) -> None:
    before = texts(copy)
    copy.snapshot()
    remove_layers(copy.warehouse, "Account")
    copy.catch_up()
    assert texts(copy) == before


def test_a_snapshot_put_in_at_an_earlier_ones_watermark_under_later_events_leaves_each_text_once(copy: Copy) -> None:
    first, (changed, *_) = watermark(copy), ids(copy.emulated, "Account")
    with copy.emulated.transaction() as work:
        work.update("Account", changed, {"Phone": "1", "Description": "later\n" + TEXT})
    copy.catch_up()
    before = texts(copy)
    assert watermark(copy) > first
    snapshot_at(copy, first)
    copy.catch_up()
    found = texts(copy)
    assert set(found.values()) == {1}
    # REST shows the later text at the earlier watermark: another value, and a row of its own.
    assert {row[0] for row in found - before} <= {changed}
    assert not before - found


def test_another_value_at_the_same_watermark_is_a_row_of_its_own(copy: Copy) -> None:
    before = texts(copy)
    (silent, *_) = ids(copy.emulated, "Account")
    with copy.emulated.database.transaction():
        copy.emulated.store.update(copy.emulated.definitions["Account"], silent, {"Description": "unheard of"})
    copy.snapshot()
    copy.catch_up()
    (new,) = texts(copy) - before
    assert (new[0], new[2], new[3]) == (silent, watermark(copy), "unheard of")
