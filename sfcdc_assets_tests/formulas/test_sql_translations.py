"""Formulas that are read, beside formulas that were translated to SQL, as fivetran/dbt_salesforce_formula_utils has
them: its connector writes an expression for each formula (numbers in COALESCE, parents by LEFT JOIN, functions by those
of the warehouse), and the package puts it into a view. The package holds no translator; these are written by the rules
that its seeds and its issues show (59, 102), over the same records that the emulated org evaluates.
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
TEXT, NUMBER, CHECKBOX = {"type": "string"}, {"type": "double", "scale": 2}, {"type": "boolean"}
MONEY, DAY = {"type": "currency"}, {"type": "date"}
FORMULAS: Mapping[str, tuple[Mapping[str, Any], str, str]] = {
    "Twice__c": (MONEY, "Amount * 2", "COALESCE(o.Amount, 0) * 2"),
    "Twice_Or_Blank__c": (MONEY | {"blanks": "BlankAsBlank"}, "Amount * 2", "COALESCE(o.Amount, 0) * 2"),
    "Weighted__c": (MONEY, "Amount * Probability", "COALESCE(o.Amount, 0) * COALESCE(o.Probability, 0)"),
    "Is_Likely__c": (CHECKBOX, "Probability > 0.5", "COALESCE(o.Probability, 0) > 0.5"),
    "Is_Large__c": (CHECKBOX, "Amount > 500", "COALESCE(o.Amount, 0) > 500"),
    "Has_No_Amount__c": (CHECKBOX, "ISBLANK(Amount)", "o.Amount IS NULL"),
    "At_Least__c": (MONEY, "MAX(Amount, 500)", "GREATEST(COALESCE(o.Amount, 0), 500)"),
    "Third__c": (NUMBER, "ROUND(Amount / 3, 2)", "ROUND(COALESCE(o.Amount, 0) / 3, 2)"),
    "Rest__c": (NUMBER, "MOD(Amount, 300)", "MOD(COALESCE(o.Amount, 0), 300)"),
    "Per_Amount__c": (NUMBER, "100 / Amount", "100 / NULLIF(COALESCE(o.Amount, 0), 0)"),
    "Of_Twice__c": (MONEY, "Twice__c + 1", "COALESCE(COALESCE(o.Amount, 0) * 2, 0) + 1"),
    "Of_Blank__c": (MONEY, "Twice_Or_Blank__c + 1", "COALESCE(COALESCE(o.Amount, 0) * 2, 0) + 1"),
    "Of_Weighted__c": (
        MONEY,
        "IF(Is_Likely__c, Weighted__c, 0)",
        "CASE WHEN COALESCE(o.Probability, 0) > 0.5 THEN COALESCE(o.Amount, 0) * COALESCE(o.Probability, 0) ELSE 0 END",
    ),
    "Of_Account__c": (TEXT, "Name & ' / ' & Account.Site", "CONCAT(o.Name, ' / ', a.Site)"),
    "Is_Of_A__c": (CHECKBOX, "Account.Name = 'A'", "a.Name = 'A'"),
    "Account_Id__c": (TEXT, "AccountId", "o.AccountId"),
    "Account_Id_18__c": (TEXT, "CASESAFEID(AccountId)", "o.AccountId"),
    "Days_Left__c": (NUMBER, "CloseDate - TODAY()", "DATE_DIFF('day', DATE '2025-02-03', CAST(o.CloseDate AS DATE))"),
    "Days_To_Ship__c": (
        NUMBER,
        "Shipped__c - CloseDate",
        "DATE_DIFF('day', CAST(o.CloseDate AS DATE), CAST(o.Shipped__c AS DATE))",
    ),
    "Is_Late__c": (CHECKBOX, "Shipped__c > CloseDate", "CAST(o.Shipped__c AS DATE) > CAST(o.CloseDate AS DATE)"),
    "Month__c": (NUMBER, "MONTH(Shipped__c)", "EXTRACT('month' FROM CAST(o.Shipped__c AS DATE))"),
    "Weekday__c": (NUMBER, "WEEKDAY(CloseDate)", "DAYOFWEEK(CAST(o.CloseDate AS DATE)) + 1"),
    "Week_Later__c": (DAY, "Shipped__c + 7", "CAST(CAST(o.Shipped__c AS DATE) + 7 AS VARCHAR)"),
    "Month_Later__c": (
        DAY,
        "ADDMONTHS(Shipped__c, 1)",
        "CAST(CAST(CAST(o.Shipped__c AS DATE) + INTERVAL 1 MONTH AS DATE) AS VARCHAR)",
    ),
    "Shipped_Or_Closed__c": (DAY, "BLANKVALUE(Shipped__c, CloseDate)", "COALESCE(o.Shipped__c, o.CloseDate)"),
    "Size__c": (
        TEXT,
        "IF(ISBLANK(NextStep), 'none', NextStep)",
        "CASE WHEN o.NextStep IS NULL THEN 'none' ELSE o.NextStep END",
    ),
    "Step__c": (TEXT, "BLANKVALUE(NextStep, 'none')", "COALESCE(o.NextStep, 'none')"),
    "Has_No_Step__c": (CHECKBOX, "NextStep = ''", "o.NextStep = ''"),
    "Length__c": (NUMBER, "LEN(NextStep)", "LENGTH(o.NextStep)"),
    "By_Step__c": (
        TEXT,
        "CASE(NextStep, '', 'none', 'call', 'phone', 'other')",
        "CASE o.NextStep WHEN '' THEN 'none' WHEN 'call' THEN 'phone' ELSE 'other' END",
    ),
    "By_Stage__c": (
        NUMBER,
        "CASE(StageName, 'Prospecting', 1, 'Closed Won', 2, 0)",
        "CASE o.StageName WHEN 'Prospecting' THEN 1 WHEN 'Closed Won' THEN 2 ELSE 0 END",
    ),
    "Stage__c": (TEXT, "TEXT(StageName)", "CAST(o.StageName AS VARCHAR)"),
    "Source__c": (TEXT, "TEXT(LeadSource)", "CAST(o.LeadSource AS VARCHAR)"),
    "Is_Web__c": (CHECKBOX, "ISPICKVAL(LeadSource, 'Web')", "o.LeadSource = 'Web'"),
    "Amount_Text__c": (TEXT, "TEXT(Amount)", "CAST(COALESCE(o.Amount, 0) AS VARCHAR)"),
    "Is_Open__c": (
        CHECKBOX,
        "AND(ISBLANK(NextStep), Amount > 500)",
        "o.NextStep IS NULL AND COALESCE(o.Amount, 0) > 500",
    ),
    "Digits__c": (TEXT, "SUBSTITUTE(UPPER(Name), 'DEAL ', '')", "REPLACE(UPPER(o.Name), 'DEAL ', '')"),
    "Where__c": (NUMBER, "FIND('1', Name)", "STRPOS(o.Name, '1')"),
}
"""Field -> how it is, its formula, and the expression."""
_PERCENT = "a percentage is a hundredth in a formula, and its number in a column"
_NEVER_BLANK = "a checkbox is never blank: what is not true is false, where SQL has null"
_EMPTY_TEXT = "a blank text is the empty one, and no null"
DIFFERENT = {
    "Weighted__c": _PERCENT,
    "Is_Likely__c": _PERCENT,
    "Of_Weighted__c": _PERCENT,
    "Twice_Or_Blank__c": "a blank number is zero in SQL also where the field says that it stays blank",
    "Has_No_Amount__c": "a blank number that counts as zero is not blank",
    "Is_Of_A__c": _NEVER_BLANK,
    "Is_Late__c": _NEVER_BLANK,
    "Is_Web__c": _NEVER_BLANK,
    "Has_No_Step__c": _EMPTY_TEXT,
    "Length__c": _EMPTY_TEXT,
    "By_Step__c": _EMPTY_TEXT,
    "Account_Id__c": "an id has 15 characters in a formula",
    "Month_Later__c": "a month after the last day of one comes the last day of the next",
    "Amount_Text__c": "the text of a number has no zeros at its end",
}
"""Field -> why its expression gives other values."""


@pytest.fixture
def org() -> Iterator[EmulatedOrg]:
    """Opportunities with blank fields and without, with accounts and without."""
    org = EmulatedOrg(clock=ManualClock(NOW))
    org.setup.add_field("Opportunity", "Shipped__c", {"type": "date"})
    for field, (options, formula, _) in FORMULAS.items():
        org.setup.add_field("Opportunity", field, {**options, "formula": formula})
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
                    "LeadSource": None if number % 5 == 0 else "Web",
                    "Shipped__c": None if number % 4 == 1 else f"2025-02-{number + 5:02}",
                    "AccountId": accounts[number % 3],
                },
            )
    yield org
    org.close()


def translated(org: EmulatedOrg, expressions: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Record -> field -> what its expression gives."""
    stored = ["Id", "Name", "Amount", "Probability", "NextStep", "StageName", "LeadSource", "CloseDate", "Shipped__c"]
    o = pl.DataFrame([{name: each[name] for name in (*stored, "AccountId")} for each in org.records("Opportunity")])
    a = pl.DataFrame([{name: each[name] for name in ("Id", "Name", "Site")} for each in org.records("Account")])
    columns = ", ".join(f"{sql} AS {field}" for field, sql in expressions.items())
    with duckdb.connect() as connection:
        connection.register("opportunity", o.to_arrow())
        connection.register("account", a.to_arrow())
        found = connection.execute(
            f"SELECT o.Id, {columns} FROM opportunity AS o LEFT JOIN account AS a ON o.AccountId = a.Id"
        ).fetchall()
    return {row[0]: dict(zip(expressions, row[1:], strict=True)) for row in found}


def test_translated_formulas_differ_from_those_that_the_org_computes_where_types_or_blanks_mean_something_else(
    org: EmulatedOrg,
) -> None:
    found = translated(org, {field: sql for field, (_, _, sql) in FORMULAS.items()})
    wrong = {
        field: (each[field], found[str(each["Id"])][field])
        for each in org.records("Opportunity")
        for field in FORMULAS
        if not is_same(each[field], found[str(each["Id"])][field])
    }
    assert wrong.keys() == DIFFERENT.keys(), wrong


def test_one_record_without_a_value_fails_the_whole_translated_view_and_not_the_orgs_field(org: EmulatedOrg) -> None:
    """Issue 102 (Invalid NUMERIC value): what the warehouse refuses for one value ends the query."""
    org.setup.add_field("Opportunity", "Number__c", {**NUMBER, "formula": "VALUE(BLANKVALUE(NextStep, '7'))"})
    assert {(each["NextStep"], each["Number__c"]) for each in org.records("Opportunity")} == {(None, 7), ("call", None)}
    with pytest.raises(duckdb.ConversionException):
        translated(org, {"Number__c": "CAST(COALESCE(o.NextStep, '7') AS DECIMAL)"})


def is_same(ours: object, theirs: object) -> bool:
    """Return whether they are one value, numbers to a hundredth."""
    if isinstance(ours, int | float) and isinstance(theirs, int | float):
        return abs(ours - theirs) < 0.006
    return ours == theirs
