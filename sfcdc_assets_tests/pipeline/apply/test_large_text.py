"""Large texts through the whole pipeline: every value in position order, proven, whatever form its event had."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from sfcdc_assets.emulator.events.text_difference import Convention, text_difference
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.traffic.text_edits import edited, long_text
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.story import ledger, story

SEED = 53
FIELDS = ("Description", "Account_Plan__c")
EDITS = 5
"""Of each text in each batch."""

Value = tuple[int, str | None, str]
"""Position, value and origin."""


@dataclass
class Texts:
    """What was written into which record, as the org alone knows it: the emulated org decides for itself what it sends
    as a difference, with code that this package does not use to read it."""

    pipeline: EmulatedPipeline
    dice: Random = field(default_factory=lambda: Random(SEED))
    values: dict[tuple[str, str], list[Value]] = field(default_factory=dict)
    conventions: dict[Convention, int] = field(default_factory=dict)
    unproven: str = ""

    def on_day_zero(self, record_id: str, name: str, text: str) -> None:
        org = self.pipeline.org
        with org.database.transaction():
            org.store.update(org.definitions["Account"], record_id, {name: text})

    def write(self, record_id: str, name: str, text: str | None, origin: str | None = None) -> None:
        """One update of one text; `origin` is worked out when not given."""
        before = str((self.pipeline.org.record("Account", record_id) or {})[name] or "")
        with self.pipeline.org.transaction() as one:
            one.update("Account", record_id, {name: text})
        if before == (text or ""):
            return
        convention = self.pipeline.org.settings.diff_convention
        assert convention != "mixed"
        sent = text_difference(before, text, convention) if before and text else None
        if sent is not None:
            self.conventions[convention] = self.conventions.get(convention, 0) + 1
        made = origin or ("full" if sent is None else "diff")
        self.values.setdefault((record_id, name), []).append((self.pipeline.server.bus.last_number, text, made))

    def edit(self, record_id: str, name: str) -> None:
        text = str((self.pipeline.org.record("Account", record_id) or {})[name])
        new = edited(text, self.dice).strip()
        self.write(record_id, name, new)

    def use(self, convention: Convention) -> None:
        self.pipeline.org.settings = replace(self.pipeline.org.settings, diff_convention=convention)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Texts]:
    print(f"seed {SEED}")
    with story(tmp_path_factory.mktemp("texts"), ["Account"], seed=SEED) as pipeline:
        description = Texts(pipeline)
        from_day_zero, chained, nulled, unproven, *_ = ids(pipeline.org, "Account")
        description.unproven = unproven
        for record_id in (from_day_zero, unproven):
            for name in FIELDS:
                description.on_day_zero(record_id, name, long_text(description.dice, 60))
        day_zero = {
            (str(record["Id"]), name): record[name] for record in pipeline.org.records("Account") for name in FIELDS
        }
        pipeline.sync()
        description.values = {key: [(0, str(text), "snapshot")] for key, text in day_zero.items() if text is not None}

        conventions: tuple[Convention, Convention] = ("java-diff-utils", "posix")
        for convention in conventions:
            description.use(convention)
            description.write(chained, "Description", long_text(description.dice, 70))
            description.write(nulled, "Description", long_text(description.dice, 30))
            for _ in range(EDITS):
                for record_id in (from_day_zero, chained):
                    description.edit(record_id, "Description")
                description.edit(from_day_zero, "Account_Plan__c")
            description.write(nulled, "Description", None)
            description.write(nulled, "Description", long_text(description.dice, 30))
            description.edit(nulled, "Description")
            if convention == "posix":
                _change_unheard(description)
            pipeline.sync()

        description.edit(unproven, "Description")
        pipeline.sync()
        yield description


def _change_unheard(description: Texts) -> None:
    """One event is never sent, so the next two differences have no base they can be proven from."""
    pipeline, record_id = description.pipeline, description.unproven
    text = str((pipeline.org.record("Account", record_id) or {})["Description"])
    pipeline.server.faults.arm(Fault.LOST_EVENT)
    with pipeline.org.transaction() as one:
        one.update("Account", record_id, {"Description": "unheard of\n" + text})
    for more in ("first", "second"):
        with pipeline.org.transaction() as one:
            one.update("Account", record_id, {"Description": f"unheard of\n{text}\n{more}"})
    last = pipeline.server.bus.last_number
    description.values[record_id, "Description"].append((last, f"unheard of\n{text}\nsecond", "refetch"))
    plan = (pipeline.org.record("Account", record_id) or {})["Account_Plan__c"]
    description.values[record_id, "Account_Plan__c"].append((last, str(plan), "refetch"))


def kept(texts: Texts) -> dict[tuple[str, str], list[Value]]:
    found: dict[tuple[str, str], list[Value]] = {}
    for row in sorted(texts.pipeline.scan("text_fields/Account"), key=lambda row: row["position"]):
        value = (row["position"], row["value"], row["origin"])
        found.setdefault((row["record_id"], row["field"]), []).append(value)
    return found


def test_every_value_of_every_text_is_kept_in_position_order_with_its_origin(texts: Texts) -> None:
    found = kept(texts)
    assert found.keys() == texts.values.keys()
    for key, values in texts.values.items():
        assert found[key] == values, key
    origins = {origin for values in texts.values.values() for _, _, origin in values}
    assert origins == {"snapshot", "full", "diff", "refetch"}


def test_differences_of_both_conventions_and_all_line_ends_were_among_them(texts: Texts) -> None:
    print(texts.conventions)
    assert min(texts.conventions["java-diff-utils"], texts.conventions["posix"]) >= EDITS
    rebuilt = [value for values in texts.values.values() for _, value, origin in values if origin == "diff" and value]
    assert any("\r\n" in value for value in rebuilt)
    assert any("\n" in value.replace("\r\n", "") for value in rebuilt)
    assert any("\r" in value.replace("\r\n", "") for value in rebuilt)
    assert any("\u2028" in value or "\u0085" in value for value in rebuilt)


def test_every_value_has_the_hash_of_its_utf_8(texts: Texts) -> None:
    for row in texts.pipeline.scan("text_fields/Account"):
        value = row["value"]
        assert row["sha256"] == (None if value is None else hashlib.sha256(value.encode()).hexdigest())


def test_a_difference_to_a_text_nobody_heard_of_is_healed_by_reading_the_record(texts: Texts) -> None:
    (entry,) = ledger(texts.pipeline)
    assert (entry["record_id"], entry["reason"], entry["status"]) == (texts.unproven, "unproven_diff", "healed")
    assert texts.values[texts.unproven, "Description"][-1][2] in {"diff", "full"}


def test_the_tables_hold_the_last_values(texts: Texts) -> None:
    texts.pipeline.assert_equal_to_the_org()
