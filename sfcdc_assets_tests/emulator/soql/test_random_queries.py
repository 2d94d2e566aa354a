"""Random well-formed queries have the answers that a plain evaluation over the records gives."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sfcdc_assets.emulator.rest.query import add_children
from sfcdc_assets.emulator.rest.record_json import record_json
from sfcdc_assets.emulator.soql.compiler import compile_query
from sfcdc_assets_tests.emulator.soql.evaluation import Evaluation
from sfcdc_assets_tests.emulator.soql.generation import Generator
from sfcdc_assets_tests.emulator.soql.org_facts import Facts, org_facts
from sfcdc_assets_tests.emulator.soql.queries import Query
from sfcdc_assets_tests.emulator.soql.writing import Writer

QUERIES = 400


def answer(facts: Facts, soql: str, *, include_deleted: bool) -> Any:
    """What REST answers, without attributes."""
    org = facts.org
    compiled = compile_query(soql, org.definitions, now=org.clock(), include_deleted=include_deleted)
    rows = org.database.rows(compiled.sql, compiled.parameters)
    if compiled.query.is_count:
        return rows[0][0]
    records = [record_json(compiled, row, "") for row in rows]
    add_children(org, compiled, rows, records, "")
    return [plain(record) for record in records]


def plain(value: Any) -> Any:
    """Without attributes; the records of an inner query as a list."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "records" in value:
        return plain(value["records"])
    return {name: plain(each) for name, each in value.items() if name != "attributes"}


def comparable(query: Query, found: Any) -> Any:
    """An answer without what SOQL leaves open: the order where none is asked for, and which of the texts that differ
    in case stands for a group."""
    if query.is_count:
        return found
    for child in query.children:
        for record in found:
            if record[str(child.relationship)]:
                record[str(child.relationship)] = comparable(child, record[str(child.relationship)])
    texts = [repr(sorted(record.items())) for record in found]
    texts = [text.lower() for text in texts] if query.is_aggregate else texts
    return texts if query.is_total else sorted(texts)


def check(facts: Facts, seed: int) -> None:
    dice = random.Random(seed)
    query = Generator(dice, facts).query()
    soql = Writer(dice).query(query)
    include_deleted = query.entity != "User" and dice.random() < 0.1
    expected = Evaluation(facts, include_deleted=include_deleted).answer(query)
    try:
        found = answer(facts, soql, include_deleted=include_deleted)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {soql}: {error}") from error
    assert comparable(query, found) == comparable(query, expected), f"seed {seed}: {soql}"


def test_random_queries_have_the_answers_of_plain_python() -> None:
    facts = org_facts()
    for seed in range(QUERIES):
        check(facts, seed)


@pytest.mark.soak
def test_ten_thousand_random_queries_have_the_answers_of_plain_python(pytestconfig: pytest.Config) -> None:
    facts = org_facts()
    for seed in range(pytestconfig.getoption("--queries")):
        check(facts, seed)
