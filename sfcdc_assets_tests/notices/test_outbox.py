"""What is new since the last look, and to whom it was sent: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.notices import outbox as module
from sfcdc_assets.notices.kept_outbox import PATH, keep_outbox, kept_outbox
from sfcdc_assets.notices.notice import Notice
from sfcdc_assets.notices.outbox import Found, Outbox, Queue, of_kinds, sent, with_looks
from sfcdc_assets.settings.notice_kinds import NoticeKind

LATE, LOST, SUSPECTS = NoticeKind.LATE, NoticeKind.LOST_CHECKPOINTS, NoticeKind.SUSPECTS
MINUTE = 60_000


def notice(key: str, kind: NoticeKind = LATE) -> Notice:
    return Notice(kind, key, f"{key} is so.", entity=key)


def looked(outbox: Outbox, kind: NoticeKind, *keys: str, subscribers: Sequence[str] = ("a",)) -> Outbox:
    return with_looks(outbox, {kind: Found(tuple(notice(key, kind) for key in keys))}, subscribers, 1)


def waiting(outbox: Outbox, subscriber: str = "a") -> list[str]:
    queues = outbox.queues.get(subscriber, {})
    return [f"{'-' if each.is_end else '+'}{each.key}" for kind in sorted(queues) for each in queues[kind].notices]


class Reader:
    """A subscriber that refuses while it is `down`."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.calls = 0
        self.down = False

    def __call__(self, notices: Sequence[Notice]) -> None:
        self.calls += 1
        if self.down:
            raise OSError("it is down")
        self.read += [each.key for each in notices]


def test_what_stands_is_reported_once_and_its_end_once() -> None:
    outbox = looked(looked(Outbox(), LATE, "Account"), LATE, "Account", "Contact")
    assert waiting(outbox) == ["+Account", "+Contact"]
    assert waiting(looked(outbox, LATE, "Contact")) == ["+Account", "+Contact", "-Account"]
    again = looked(looked(outbox, LATE), LATE, "Account")
    assert waiting(again) == ["+Account", "+Contact", "-Account", "-Contact", "+Account"]


def test_a_kind_that_has_no_end_is_forgotten_in_silence() -> None:
    assert waiting(looked(looked(Outbox(), LOST, "x"), LOST)) == ["+x"]


def test_a_kind_that_could_not_be_looked_at_stays_as_it_was() -> None:
    outbox = looked(Outbox(), LATE, "Account")
    assert looked(outbox, LOST).seen[LATE] == outbox.seen[LATE]
    assert waiting(looked(looked(outbox, LOST), LATE, "Account")) == ["+Account"]


def test_a_kind_that_nobody_wants_any_more_is_dropped_with_what_waits_of_it() -> None:
    outbox = looked(looked(Outbox(), LATE, "Account"), LOST, "x")
    assert waiting(of_kinds(outbox, [LOST])) == ["+x"]
    assert waiting(looked(of_kinds(of_kinds(outbox, [LOST]), [LATE]), LATE, "Account")) == ["+Account"]


def test_each_subscriber_has_what_waits_for_it() -> None:
    outbox = looked(Outbox(), LATE, "Account", subscribers=("a", "b"))
    up, down = Reader(), Reader()
    down.down = True
    after, failed = sent(outbox, {"a": down, "b": up}, 1, lambda _: None)
    assert (up.read, waiting(after, "a"), waiting(after, "b")) == (["Account"], ["+Account"], [])
    assert str(failed["a"]) == "it is down"


def test_one_kind_that_is_refused_does_not_keep_the_others() -> None:
    outbox = looked(looked(Outbox(), LATE, "Account"), SUSPECTS, "Contact")
    read: list[str] = []

    def picky(notices: Sequence[Notice]) -> None:
        if notices[0].kind is LATE:
            raise ValueError("not this one")
        read.extend(each.key for each in notices)

    after, failed = sent(outbox, {"a": picky}, 1, lambda _: None)
    assert (read, waiting(after), list(failed)) == (["Contact"], ["+Account"], ["a"])


def test_a_subscriber_that_is_down_is_called_after_pauses_that_double_to_an_hour_and_loses_nothing() -> None:
    outbox, reader = looked(Outbox(), LATE, "Account"), Reader()
    reader.down = True
    called: list[int] = []
    for minute in range(6 * 60):
        before = reader.calls
        outbox, _ = sent(outbox, {"a": reader}, minute * MINUTE, lambda _: None)
        called += [minute] if reader.calls > before else []
    assert called == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303]
    reader.down = False
    outbox, _ = sent(looked(outbox, LATE, "Account", "Contact"), {"a": reader}, 363 * MINUTE, lambda _: None)
    assert (reader.read, waiting(outbox)) == (["Account", "Contact"], [])
    assert outbox.queues["a"][LATE] == Queue()


def test_after_a_week_without_a_subscriber_it_is_told_how_many_more_there_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    outbox = looked(Outbox(), LOST, *"abcde")
    read: list[Notice] = []
    after, _ = sent(outbox, {"a": read.extend}, 1, lambda _: None)
    assert [each.key for each in read] == ["a", "b", "c", "left out"]
    assert read[-1].text.startswith("2 more notices of this kind")
    assert sent(after, {"a": read.extend}, 1, lambda _: None) == (after, {})


def test_nothing_is_begun_once_the_time_is_up_and_what_was_sent_is_kept_first() -> None:
    outbox = looked(Outbox(), LATE, *map(str, range(250)))
    kept: list[Outbox] = []
    reader = Reader()
    after, _ = sent(outbox, {"a": reader}, 1, kept.append, lambda: reader.calls < 2)
    assert (reader.calls, len(waiting(after)), [len(waiting(each)) for each in kept]) == (2, 50, [150, 50])


@settings(deadline=None, max_examples=60)
@given(
    looks=st.lists(st.frozensets(st.sampled_from("abcd")), max_size=12),
    downs=st.lists(st.booleans(), min_size=12, max_size=12),
    restarts=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_who_reads_all_notices_knows_what_stands_whenever_it_was_down_and_whatever_was_restarted(
    looks: list[frozenset[str]], downs: list[bool], restarts: list[bool], tmp_path_factory: pytest.TempPathFactory
) -> None:
    warehouse = Warehouse(str(tmp_path_factory.mktemp("warehouse")))
    stands: set[str] = set()
    down = False

    def read(notices: Sequence[Notice]) -> None:
        if down:
            raise OSError
        for each in notices:
            assert each.is_end == (each.key in stands)  # none twice
            stands.symmetric_difference_update({each.key})

    outbox = Outbox()
    for turn, standing in enumerate([*looks, *looks[-1:]]):
        down = downs[turn % 12] and turn < len(looks)
        outbox = looked(outbox, LATE, *sorted(standing))
        outbox, _ = sent(outbox, {"a": read}, turn * 2 * 3_600_000, lambda _: None)
        if restarts[turn % 12]:
            keep_outbox(warehouse, outbox)
            assert kept_outbox(warehouse) == outbox
            outbox = kept_outbox(warehouse)
    assert stands == (looks[-1] if looks else frozenset())


def test_a_note_that_cannot_be_read_is_as_none(tmp_path_factory: pytest.TempPathFactory) -> None:
    warehouse = Warehouse(str(tmp_path_factory.mktemp("warehouse")))
    assert kept_outbox(warehouse) == Outbox()
    keep_outbox(warehouse, replace(Outbox(), marks={SUSPECTS: {"Account": 1}}))
    note = warehouse.folder / PATH
    for broken in (b"{", b"[]", b'{"seen": {"x": {}}, "marks": {}, "queues": {}}'):
        note.write_bytes(broken)
        assert kept_outbox(warehouse) == Outbox()
