"""Which records a change of a parent is felt by, against looking at every record and every value on its paths."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.formulas.affected_records import ChangedFields, affected_records
from sfcdc_assets.formulas.dependencies import FormulaDependencies, Lookup, ParentFields

TO_ACCOUNT, TO_PARENT = Lookup("AccountId", "Account"), Lookup("ParentId", "Account")
TO_OWNER = Lookup("OwnerId", "User")
FORMULAS = FormulaDependencies(
    frozenset({"AccountId", "OwnerId"}),
    (
        ParentFields((TO_OWNER,), frozenset({"Name"})),
        ParentFields((TO_ACCOUNT,), frozenset({"Name", "ParentId", "OwnerId"})),
        ParentFields((TO_ACCOUNT, TO_PARENT), frozenset({"OwnerId", "Rating"})),
        ParentFields((TO_ACCOUNT, TO_OWNER), frozenset({"Email"})),
        ParentFields((TO_ACCOUNT, TO_PARENT, TO_OWNER), frozenset({"Email"})),
    ),
)
Rows = dict[str, dict[str, dict[str, str | None]]]
"""Object -> id -> lookup -> id."""


def _ids(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(count)]


@st.composite
def orgs(draw: st.DrawFn) -> Rows:
    deals, accounts, users = _ids("d", 6), _ids("a", 4), _ids("u", 3)

    def one_of(ids: list[str]) -> str | None:
        return draw(st.sampled_from([None, *ids]))

    return {
        "Deal": {each: {"AccountId": one_of(accounts), "OwnerId": one_of(users)} for each in deals},
        "Account": {each: {"ParentId": one_of(accounts), "OwnerId": one_of(users)} for each in accounts},
    }


FIELDS = st.none() | st.frozensets(st.sampled_from(["Name", "Email", "Rating", "OwnerId", "ParentId", "Phone"]))
CHANGED = st.fixed_dictionaries(
    {},
    optional={
        "User": st.dictionaries(st.sampled_from(_ids("u", 3)), FIELDS),
        "Account": st.dictionaries(st.sampled_from(_ids("a", 4)), FIELDS),
    },
)


def felt_by_walking(rows: Rows, changed: dict[str, dict[str, ChangedFields]]) -> set[str]:
    found = set()
    for deal in rows["Deal"]:
        for each in FORMULAS.parents:
            entity, here = "Deal", deal
            for step in each.path:
                here = rows[entity][here][step.field] if here is not None else None
                entity = step.entity
            fields = changed.get(entity, {}).get(here, frozenset()) if here is not None else frozenset()
            if fields is None or fields & each.fields:
                found.add(deal)
    return found


@given(orgs(), CHANGED)
def test_those_are_found_that_refer_to_a_changed_record_of_which_a_changed_field_is_read(rows, changed):
    asked: list[tuple[str, str]] = []

    def referring(entity: str, lookup: str, ids: Collection[str]) -> list[str]:
        assert ids
        asked.append((entity, lookup))
        return [each for each, lookups in rows[entity].items() if lookups[lookup] in ids]

    assert affected_records("Deal", FORMULAS, changed, referring) == felt_by_walking(rows, changed)
    assert len(asked) <= len(FORMULAS.parents)


def test_nobody_is_asked_where_nothing_that_is_read_has_changed():
    def referring(entity: str, lookup: str, ids: Collection[str]) -> list[str]:
        raise AssertionError

    changed = {"Account": {"a1": frozenset({"Phone"})}, "Contact": {"c1": None}}
    assert affected_records("Deal", FORMULAS, changed, referring) == set()
