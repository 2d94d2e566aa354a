"""Formulas and their values: a table by the vendor's documentation, and arithmetic and texts against Python's own."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.emulator.formulas.evaluation import FieldFormula, Record, check_functions, evaluate, formula_value
from sfcdc_assets.emulator.formulas.parser import FormulaSyntaxError, parse_formula
from sfcdc_assets.emulator.formulas.syntax import references_of
from sfcdc_assets.emulator.formulas.value import FormulaError, Value

NOW = datetime(2025, 2, 3, 12, 0, 5, tzinfo=UTC)
FIELDS: dict[str, Value] = {
    "number__c": Decimal("12.5"),
    "none__c": None,
    "text__c": "Hello World",
    "blank__c": "",
    "day__c": date(2024, 2, 29),
    "moment__c": datetime(2024, 2, 29, 23, 30, tzinfo=UTC),
    "yes__c": True,
    "status__c": "Closed",
    "regions__c": "North;East",
    "account.owner.name": "Ada",
}


def value_of(text: str) -> Value:
    root = parse_formula(text)
    check_functions(root)
    return evaluate(root, Record(FIELDS, NOW))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", Decimal(7)),
        ("(1 + 2) * 3", Decimal(9)),
        ("2 - 3 - 4", Decimal(-5)),
        ("12 / 4 / 3", Decimal(1)),
        ("2 ^ 3", Decimal(8)),
        ("2 * 3 ^ 2", Decimal(36)),  # by the vendor's grammar
        ("-2 ^ 2", Decimal(4)),
        ("0 ^ 0", Decimal(1)),
        ("--2", Decimal(2)),
        ("1 / 3 * 3 = 1", False),
        ("ROUND(1 / 3 * 3, 10) = 1", True),
        ("Number__c * 2", Decimal(25)),
        ("NUMBER__C + none__c", None),
        ("none__c > 1", None),
        ("NOT(none__c > 1)", None),
        ('IF(none__c > 1, "more", "else")', "else"),
        ('IF(NOT(none__c > 1), "more", "else")', "else"),
        ('IF(Number__c > 10 && Yes__c, "a", "b")', "a"),
        ('IF(OR(Number__c < 10, Yes__c = FALSE), "a", "b")', "b"),
        ('IF(!Yes__c || Number__c <> 12.5, "a", "b")', "b"),
        ("IF(Yes__c, 1, 1 / 0)", Decimal(1)),
        ('CASE(Status__c, "Open", 1, "Closed", 2, 3)', Decimal(2)),
        ('CASE(Blank__c, "Open", 1, 3)', Decimal(3)),
        ('CASE(MONTH(Day__c), 1, "Jan", 2, "Feb", "other")', "Feb"),
        ("AND(Yes__c, Number__c = 12.50)", True),
        ("ISBLANK(Blank__c)", True),
        ("ISBLANK(None__c)", True),
        ("ISBLANK(Text__c)", False),
        ("ISNULL(None__c)", True),
        ("ISNULL(Blank__c)", False),
        ("BLANKVALUE(Blank__c, 'x')", "x"),
        ("NULLVALUE(Blank__c, 'x')", ""),
        ("NULLVALUE(None__c, 5)", Decimal(5)),
        ('Blank__c = ""', True),
        ("Blank__c = NULL", True),
        ('Text__c & " " & Status__c', "Hello World Closed"),
        ('"a" + Blank__c + "b"', "ab"),
        ('"it\'s \\"so\\"\\n"', 'it\'s "so"\n'),
        ("'a' = 'A'", False),
        ("TEXT(12.50)", "12.5"),
        ("TEXT(1000000 * 1000000)", "1000000000000"),
        ("TEXT(0.0)", "0"),
        ("TEXT(Day__c)", "2024-02-29"),
        ("TEXT(Moment__c)", "2024-02-29 23:30:00Z"),
        ("TEXT(Status__c)", "Closed"),
        ("VALUE('-1.5e2')", Decimal(-150)),
        ("VALUE(Blank__c)", None),
        ("LEN(Text__c)", Decimal(11)),
        ("LEN(Blank__c)", Decimal(0)),
        ("LEFT(Text__c, 5)", "Hello"),
        ("LEFT(Text__c, -1)", ""),
        ("RIGHT(Text__c, 5)", "World"),
        ("RIGHT(Text__c, 0)", ""),
        ("MID(Text__c, 4, 3)", "lo "),
        ("MID(Text__c, 0, 2)", "He"),
        ("CONTAINS(Text__c, 'lo W')", True),
        ("CONTAINS(Text__c, 'hello')", False),
        ("CONTAINS(Blank__c, 'x')", None),
        ("BEGINS(Text__c, 'Hello')", True),
        ("FIND('o', Text__c)", Decimal(5)),
        ("FIND('o', Text__c, 6)", Decimal(8)),
        ("FIND('z', Text__c)", Decimal(0)),
        ("SUBSTITUTE(Text__c, 'o', '0')", "Hell0 W0rld"),
        ("TRIM('  a b ')", "a b"),
        ("UPPER(Text__c) & LOWER(Text__c)", "HELLO WORLDhello world"),
        ("LPAD('7', 3, '0') & RPAD('a', 2, '-')", "007a-"),
        ("LPAD(Blank__c, 3)", ""),
        ("ISPICKVAL(Status__c, 'Closed')", True),
        ("ISPICKVAL(Blank__c, '')", True),
        ("INCLUDES(Regions__c, 'East')", True),
        ("INCLUDES(Regions__c, 'Eas')", False),
        ("TODAY()", date(2025, 2, 3)),
        ("NOW()", NOW),
        ("TODAY() - Day__c", Decimal(340)),
        ("Day__c + 1.9", date(2024, 3, 1)),
        ("Moment__c + 0.5", datetime(2024, 3, 1, 11, 30, tzinfo=UTC)),
        ("Moment__c + 0.166666", datetime(2024, 3, 1, 3, 30, tzinfo=UTC)),
        ("NOW() - Moment__c > 339", True),
        ("DATE(2024, 2, 30 - 1)", date(2024, 2, 29)),
        ("DATEVALUE(Moment__c)", date(2024, 2, 29)),
        ("DATEVALUE('2024-02-29')", date(2024, 2, 29)),
        ("DATETIMEVALUE('2024-02-29 23:30:00') = Moment__c", True),
        ("YEAR(Day__c) * 10000 + MONTH(Day__c) * 100 + DAY(Day__c)", Decimal(20240229)),
        ("WEEKDAY(DATE(2025, 2, 2))", Decimal(1)),
        ("ADDMONTHS(Day__c, 12)", date(2025, 2, 28)),
        ("ADDMONTHS(DATE(2025, 2, 28), 1)", date(2025, 3, 31)),
        ("ADDMONTHS(DATE(2025, 1, 30), 1)", date(2025, 2, 28)),
        ("ADDMONTHS(DATE(2025, 1, 15), -13)", date(2023, 12, 15)),
        ("ROUND(2.345, 2)", Decimal("2.35")),
        ("ROUND(-2.345, 2)", Decimal("-2.35")),
        ("ROUND(1250, -2)", Decimal(1300)),
        ("FLOOR(-2.5)", Decimal(-2)),
        ("CEILING(-2.5)", Decimal(-3)),
        ("FLOOR(2.5)", Decimal(2)),
        ("CEILING(2.5)", Decimal(3)),
        ("MFLOOR(-2.5)", Decimal(-3)),
        ("MCEILING(-2.5)", Decimal(-2)),
        ("CEILING(5 / 11 * 11)", Decimal(5)),
        ("ROUND(2, -200)", Decimal(0)),
        ("ROUND(10 ^ 38, 5) = 10 ^ 38", True),
        ("ABS(-2)", Decimal(2)),
        ("MIN(3, 1, 2)", Decimal(1)),
        ("MAX(3, None__c)", None),
        ("MOD(7, 3)", Decimal(1)),
        ("MOD(-7, 3)", Decimal(-1)),
        ("SQRT(16)", Decimal(4)),
        ("Account.Owner.Name & '!'", "Ada!"),
        ('/* Account.Name */ 1 /* " */ + 1', Decimal(2)),
        ("true && not FALSE", True),
    ],
)
def test_a_formula_has_this_value(text, expected):
    value = value_of(text)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    "text",
    [
        "1 / 0",
        "0 / 0",
        "MOD(1, 0)",
        "VALUE('x')",
        "DATE(2025, 2, 30)",
        "DATEVALUE('soon')",
        "1 + Yes__c",
        "Text__c * 2",
        "Text__c = 1",
        "Day__c > Moment__c",
        "10 ^ 1000",
        "4 ^ 0.5",
        "SQRT(0 - 1)",
        "ADDMONTHS(Day__c, 120000)",
        "DATE(9999, 12, 31) + 1",
    ],
)
def test_what_cannot_be_computed_has_no_value_and_reads_as_null(text):
    with pytest.raises(FormulaError):
        value_of(text)
    assert value_as("double", text, {"yes__c": ("boolean", 1), "text__c": ("string", "a")}) is None


def value_as(kind: str, text: str, fields: dict[str, tuple[str, object]], *, zero: bool = True, scale: int = 2):
    named = [reference.key for reference in references_of(parse_formula(text))]
    known = {name: fields.get(name, ("date", "2024-02-29")) for name in named}
    document = FieldFormula(text, kind, scale, zero, tuple((name, known[name][0]) for name in named)).to_json()
    return formula_value(document, int(NOW.timestamp() * 1000), *(known[name][1] for name in named))


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("currency", "Amount__c / 3", 33.33),
        ("double", "0 - 12.345", -12.35),
        ("int", "Amount__c / 3", 33),
        ("percent", "Share__c * 2", 25.0),
        ("percent", "1 / 3", 33.33),
        ("currency", "Amount__c * Share__c", 12.5),
        ("string", "LEFT(Id, 18)", "001Aa000000CaR6"),
        ("string", "CASESAFEID(Id)", "001Aa000000CaR6IAK"),
        ("string", "''", None),
        ("string", "RPAD('x', 2000, 'x')", "x" * 1300),
        ("boolean", "Amount__c > 1", 1),
        ("boolean", "1 / 0 > 1", 0),
        ("boolean", "Empty__c", 0),
        ("date", "Day__c + 1", "2025-01-01"),
        ("datetime", "Moment__c + 1", 1_738_670_400_000),
        ("time", "Opens__c", "09:00:00.000"),
        ("double", "'text'", None),
        ("date", "NOW()", None),
    ],
)
def test_a_result_has_the_form_of_its_field(kind, text, expected):
    fields = {
        "amount__c": ("currency", 100),
        "share__c": ("percent", 12.5),
        "id": ("id", "001Aa000000CaR6IAK"),
        "empty__c": ("boolean", None),
        "day__c": ("date", "2024-12-31"),
        "moment__c": ("datetime", 1_738_584_000_000),
        "opens__c": ("time", "09:00:00.000"),
    }
    value = value_as(kind, text, fields)
    assert value == expected
    assert not isinstance(expected, int) or int(value) == value


def test_blank_numbers_are_zero_or_blank_as_the_field_says():
    fields = {"a__c": ("double", None), "b__c": ("currency", 5), "c__c": ("string", None)}
    assert value_as("double", "A__c + B__c", fields) == 5
    assert value_as("double", "A__c + B__c", fields, zero=False) is None
    assert value_as("boolean", "ISBLANK(A__c)", fields) == 0
    assert value_as("boolean", "ISBLANK(A__c)", fields, zero=False) == 1
    assert value_as("double", "BLANKVALUE(A__c, 7)", fields, zero=False) == 7
    assert value_as("boolean", "ISBLANK(C__c)", fields) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Found the end"),
        ("1 +", "Found the end"),
        ("1 + )", "Found '\\)' at character 5"),
        ("IF(TRUE, 1", "Found the end"),
        ("'open", "Syntax error"),
        ("1 /* open", "Syntax error"),
        ("FOO(1)", "Unknown function FOO"),
        ("IF(TRUE, 1)", "Incorrect number of parameters for function 'IF\\(\\)'"),
        ("CASE(1, 2, 3, 4, 5)", "Incorrect number of parameters"),
        ("(" * 61 + "1" + ")" * 61, "nests at most"),
        ("1" * 3901, "too long"),
    ],
)
def test_a_text_that_is_no_formula_is_refused(text, reason):
    with pytest.raises(FormulaSyntaxError, match=reason):
        check_functions(parse_formula(text))


def test_a_long_chain_of_operators_needs_no_deep_stack():
    assert value_of("+".join(["1"] * 1900)) == 1900
    assert value_of("-" * 1900 + "1") == 1


def test_references_are_found_outside_of_texts_and_comments_each_once_whatever_its_case():
    found = references_of(parse_formula("IF(A__c = 'B__c', /* C__c */ Account.Owner.Name, \"D\") & a__C & $User.Id"))
    assert [reference.path for reference in found] == ["A__c", "Account.Owner.Name", "$User.Id"]


NUMBERS = st.integers(-(10**6), 10**6).map(lambda number: Fraction(number, 100))


@st.composite
def sums(draw: st.DrawFn, depth: int = 3) -> tuple[str, Fraction]:
    """A formula of + - * and parentheses, and its value by Python."""
    if depth == 0 or draw(st.booleans()):
        number = draw(NUMBERS)
        text = f"{abs(number.numerator / number.denominator):.2f}"
        return (f"(-{text})" if number < 0 else text), number
    sign = draw(st.sampled_from("+-*"))
    (left, one), (right, other) = draw(sums(depth - 1)), draw(sums(depth - 1))
    value = one + other if sign == "+" else one - other if sign == "-" else one * other
    return f"({left}{draw(st.sampled_from(['', ' ', chr(10)]))}{sign} {right})", value


@given(sums())
def test_sums_and_products_are_exact(formula):
    text, expected = formula
    value = value_of(text)
    assert isinstance(value, Decimal)
    assert abs(Fraction(value) - expected) <= abs(expected) * Fraction(1, 10**35)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters='\r\n"\\'), max_size=12)


@given(TEXTS, TEXTS, TEXTS.filter(bool), st.integers(-3, 15), st.integers(-3, 15))
def test_functions_of_texts_are_pythons(one, other, part, start, count):
    record = Record({"one": one, "other": other, "start": Decimal(start), "count": Decimal(count)}, NOW)

    def value(text: str) -> Value:
        return evaluate(parse_formula(text), record)

    assert value("One & Other") == one + other
    assert value(f'SUBSTITUTE(One & Other, "{part}", "-")') == (one + other).replace(part, "-")
    assert value(f'FIND("{part}", One & Other)') == (one + other).find(part) + 1
    assert value(f'CONTAINS(One, "{part}")') == (part in one if one else None)
    assert value("LEFT(One, Count) = One") == (len(one) <= max(count, 0))
    assert value("LEFT(One, Count) & MID(One, Count + 1, 99)") == one
    assert value("LEN(RIGHT(One, Count))") == min(len(one), max(count, 0))
    assert value("MID(One, Start, Count)") == one[max(start, 1) - 1 :][: max(count, 0)]
    assert value("REVERSE(REVERSE(One))") == one


@given(st.dates(date(1800, 1, 1), date(3900, 1, 1)), st.integers(-500, 500))
def test_days_are_pythons(day, count):
    record = Record({"day": day, "count": Decimal(count)}, NOW)
    assert evaluate(parse_formula("Day + Count - Day"), record) == count
    moved = evaluate(parse_formula("ADDMONTHS(Day, Count)"), record)
    assert isinstance(moved, date)
    assert (moved.year - day.year) * 12 + moved.month - day.month == count
    assert evaluate(parse_formula("DATE(YEAR(Day), MONTH(Day), DAY(Day)) = Day"), record) is True
