"""Tokens: what stands for an entity's tables after a batch, and why one is not good any more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.changes import token as reasons
from sfcdc_assets.changes.token import ChangesExpired, Token

GIVEN = Token("Invoice_Statement__c", 1_790_000_000_000, 0, 17, "0a1b2c3d", "00D5g000004XyzAEAS")
TEXT = str(GIVEN)


def refused(text: str, entity: str = GIVEN.entity) -> str:
    with pytest.raises(ChangesExpired, match="ask for the changes of the entity without a token") as error:
        Token.parse(text, entity)
    return error.value.reason


@given(
    st.builds(
        Token,
        st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,40}", fullmatch=True),
        st.integers(0, 10**13 - 1),
        st.integers(0, 10**13 - 1),
        st.integers(0, 10**10 - 1),
        st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
        st.none() | st.from_regex(r"00D[A-Za-z0-9]{15}", fullmatch=True),
    )
)
def test_a_token_is_read_as_it_was_written(token: Token) -> None:
    assert Token.parse(str(token), token.entity) == token
    assert Token.parse(f" {token}\n", token.entity) == token


@given(st.integers(0, len(TEXT) - 1), st.characters(codec="ascii", categories=("L", "N", "P")))
def test_no_character_of_a_token_can_be_another(at: int, character: str) -> None:
    if TEXT[at] != character:
        assert refused(TEXT[:at] + character + TEXT[at + 1 :]) == reasons.DAMAGED


@pytest.mark.parametrize("text", ["", "sfcdc1", TEXT[:-1], TEXT.partition(".")[2], "2026-11-20T12:00:00Z", "17"])
def test_what_is_no_token_is_damaged(text: str) -> None:
    assert refused(text) == reasons.DAMAGED


def test_tokens_of_an_entity_sort_by_time() -> None:
    later = [replace(GIVEN, batch=18), replace(GIVEN, batch=1_000), replace(GIVEN, built_at=1_790_000_000_001, batch=1)]
    texts = [TEXT, *map(str, later)]
    assert texts == sorted(texts)


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (GIVEN, None),
        (replace(GIVEN, batch=99), None),
        (replace(GIVEN, built_at=1_790_000_000_001, batch=3), reasons.REBUILT),
        (replace(GIVEN, retyped_at=1_790_000_000_001), reasons.RETYPED),
        (replace(GIVEN, table="ffffffff"), reasons.OF_ANOTHER_TABLE),
        (replace(GIVEN, organization="00D000000000002EAA"), reasons.OF_ANOTHER_ORGANIZATION),
    ],
)
def test_a_token_says_why_it_is_not_good_any_more(now: Token, reason: str | None) -> None:
    assert GIVEN.why_not(now) == reason
    if reason is not None:
        with pytest.raises(ChangesExpired, match=reason):
            GIVEN.check(now)


def test_a_token_of_another_entity_is_refused() -> None:
    assert refused(TEXT, "Account") == reasons.OF_ANOTHER_ENTITY


def test_tables_that_an_earlier_release_wrote_are_named_so() -> None:
    assert replace(GIVEN, built_at=0).why_not(GIVEN) == reasons.OF_EARLIER_RELEASE
