"""Formulas that are read, beside formulas that were translated to SQL, as fivetran/dbt_salesforce_formula_utils has
them: its connector writes an expression for each formula (numbers in COALESCE, parents by LEFT JOIN, functions by those
of the warehouse), and the package puts it into a view. The package holds no translator; these are written by the rules
that its seeds and its issues show (59, 102, 110), over the same records that the emulated org evaluates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import polars as pl
import pytest

from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg

NOW = 1_738_584_000_000  # Monday 2025-02-03T12:00:00Z
FORMULAS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "Twice__c": ({"type": "currency", "formula": "Amount * 2"}, "COALESCE(o.Amount, 0) * 2"),
    "Weighted__c": (
        {"type": "currency", "formula": "Amount * Probability"},
        "COALESCE(o.Amount, 0) * COALESCE(o.Probability, 0)",
    ),
    "Is_Large__c": ({"type": "boolean", "formula": "Amount > 500"}, "COALESCE(o.Amount, 0) > 500"),
    "Of_Account__c": (
        {"type": "string", "formula": "Name & ' / ' & Account.Site"},
        "CONCAT(o.Name, ' / ', a.Site)",
    ),
    "Days_Left__c": (
        {"type": "double", "scale": 0, "formula": "CloseDate - TODAY()"},
        "DATE_DIFF('day', DATE '2025-02-03', CAST(o.CloseDate AS DATE))",
    ),
    "Size__c": (
        {"type": "string", "formula": "IF(ISBLANK(NextStep), 'none', NextStep)"},
        "CASE WHEN o.NextStep IS NULL THEN 'none' ELSE o.NextStep END",
    ),
}
DIFFERENT = {"Weighted__c"}
"""A percentage is a hundredth in a formula, and its number in a column."""


@pytest.fixture
def org() -> Iterator[EmulatedOrg]:
    """Opportunities with blank fields and without, with accounts and without."""
    org = EmulatedOrg(clock=ManualClock(NOW))
    for field, (options, _) in FORMULAS.items():
        org.setup.add_field("Opportunity", field, dict(options))
    with org.transaction() as work:
        accounts = [None, *(work.create("Account", {"Name": "A", "Site": site}) for site in ("Berlin", None))]
        for number in range(24):
            work.create(
                "Opportunity",
                {
                    "Name": f"Deal {number}",
                    "StageName": "Prospecting",
                    "CloseDate": f"2025-02-{number % 20 + 1:02}",
                    "Amount": None if number % 4 == 0 else 100 * number,
                    "NextStep": None if number % 3 == 0 else "call",
                    "AccountId": accounts[number % 3],
                },
            )
    yield org
    org.close()


def test_translated_formulas_differ_from_those_that_the_org_computes_where_types_mean_something_else(
    org: EmulatedOrg,
) -> None:
    deals, accounts = list(org.records("Opportunity")), list(org.records("Account"))
    stored = ["Id", "Name", "Amount", "Probability", "NextStep", "CloseDate", "AccountId"]
    o = pl.DataFrame([{name: each[name] for name in stored} for each in deals])
    a = pl.DataFrame([{name: each[name] for name in ("Id", "Site")} for each in accounts])
    columns = ", ".join(f"{sql} AS {field}" for field, (_, sql) in FORMULAS.items())
    with duckdb.connect() as connection:
        connection.register("opportunity", o.to_arrow())
        connection.register("account", a.to_arrow())
        found = connection.execute(
            f"SELECT o.Id, {columns} FROM opportunity AS o LEFT JOIN account AS a ON o.AccountId = a.Id"
        ).fetchall()
    translated = {row[0]: dict(zip(FORMULAS, row[1:], strict=True)) for row in found}
    wrong = {
        field
        for field in FORMULAS
        for each in deals
        if (translated[str(each["Id"])][field] or 0) != (each[field] or 0)  # nothing is 0 in a number, for both
    }
    assert wrong == DIFFERENT
