"""Large texts: as differences under the documented conditions, in both hunk conventions, whole otherwise."""

from __future__ import annotations

import hashlib
from random import Random

import pytest

from sfcdc_assets.emulator.traffic.text_edits import edited, long_text
from sfcdc_assets_tests.emulator.decoded_events import WatchedOrg

TEXT = "\r\n".join(f"{number}. the customer asked for an offer" for number in range(1, 61))
EDITED = TEXT.replace("7. the", "7. no", 1)


def updated_event(watched: WatchedOrg, before: str, after: str, entity: str = "Account", field: str = "Description"):
    record_id = watched.create(entity, **{field: before})
    watched.events()
    watched.update(record_id, entity, **{field: after})
    (event,) = watched.events()
    return event


def test_a_small_edit_of_a_large_text_goes_out_as_a_difference() -> None:
    watched = WatchedOrg()
    event = updated_event(watched, TEXT, EDITED)
    sha256 = hashlib.sha256(EDITED.encode()).hexdigest()
    assert event.body["Description"].startswith(f"--- \n+++ {sha256}\n@@ -7,1 +7,1 @@\n-7. the")
    assert event.header["diffFields"] == watched.bitmap("Description")
    assert event.header["changedFields"] == watched.bitmap("Description", "LastModifiedDate")


def test_the_hunk_convention_is_a_setting() -> None:
    inserted = TEXT.replace("8. the", "a new line\r\n8. the", 1)
    java = updated_event(WatchedOrg(diff_convention="java-diff-utils"), TEXT, inserted)
    posix = updated_event(WatchedOrg(diff_convention="posix"), TEXT, inserted)
    assert "@@ -8,0 +8,1 @@" in java.body["Description"]
    assert "@@ -7,0 +8 @@" in posix.body["Description"]


def test_mixed_conventions_are_drawn_by_seed() -> None:
    watched = WatchedOrg(diff_convention="mixed")
    found = {updated_event(watched, TEXT, EDITED).body["Description"].split("\n")[2] for _ in range(20)}
    assert found == {"@@ -7,1 +7,1 @@", "@@ -7 +7 @@"}


@pytest.mark.parametrize(
    ("before", "after"),
    [("short", "short too"), (None, TEXT), (TEXT, TEXT.upper()), (TEXT, "x"), (TEXT, TEXT.replace("\r\n", "\n"))],
    ids=["short", "was null", "all changed", "became short", "only line ends"],
)
def test_where_no_difference_is_sent_the_value_is_whole(before: str, after: str) -> None:
    event = updated_event(WatchedOrg(), before, after)
    assert event.body["Description"] == after
    assert event.header["diffFields"] == []


def test_a_nulled_large_text_is_nulled_and_no_difference() -> None:
    watched = WatchedOrg()
    record_id = watched.create(Description=TEXT)
    watched.events()
    watched.update(record_id, Description=None)
    (event,) = watched.events()
    assert event.header["nulledFields"] == watched.bitmap("Description")
    assert event.header["diffFields"] == []


def test_creates_and_undeletes_carry_the_text_whole() -> None:
    watched = WatchedOrg()
    record_id = watched.create(Description=TEXT)
    watched.commit(lambda work: work.delete("Account", record_id))
    watched.commit(lambda work: work.undelete("Account", record_id))
    created, _, undeleted = watched.events()
    assert created.body["Description"] == undeleted.body["Description"] == TEXT


def test_a_text_area_of_255_characters_and_other_fields_never_come_as_differences() -> None:
    watched = WatchedOrg()
    event = updated_event(watched, TEXT, EDITED, "Invoice_Statement__c", "Description__c")
    assert event.header["diffFields"] == watched.bitmap("Description__c", entity="Invoice_Statement__c")
    record_id = watched.create(BillingStreet="a\nb")
    watched.events()
    watched.update(record_id, BillingStreet="a\nc")
    assert watched.events()[0].header["diffFields"] == []


def test_the_same_edit_of_different_texts_is_not_merged_and_of_equal_texts_is() -> None:
    watched = WatchedOrg()
    ids = [watched.create(Description=text) for text in (TEXT, TEXT, TEXT + "\r\nmore")]
    watched.events()
    watched.commit(
        lambda work: [
            work.update("Account", one, {"Description": text})
            for one, text in zip(ids, (EDITED, EDITED, EDITED + "\r\nmore"), strict=True)
        ]
    )
    assert [event.header["recordIds"] for event in watched.events()] == [ids[:2], ids[2:]]


def test_texts_are_trimmed_and_keep_their_line_ends() -> None:
    watched = WatchedOrg()
    record_id = watched.create(Description=" \r\n a\r\nb\rc\nd \u00a0\u2028\t\n")
    record = watched.org.record("Account", record_id)
    assert record is not None
    assert record["Description"] == "a\r\nb\rc\nd \u00a0\u2028"


def test_edits_are_small_awkward_and_the_same_for_a_seed() -> None:
    for seed in range(200):
        text = long_text(Random(seed), 40)
        assert edited(text, Random(seed)) == edited(text, Random(seed))
    texts = [edited(long_text(Random(seed), 40), Random(seed)) for seed in range(200)]
    together = "\n".join(texts)
    for mark in ("\u2028", "\u0085", "\x0b", "\r\n", "\r", "\n+", "\n-", "\n@@", "\n---", "\n+++", "\n\n", "👩"):
        assert mark in together, mark
