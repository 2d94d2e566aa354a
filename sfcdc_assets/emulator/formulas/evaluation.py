"""A formula's value for one record.

Blanks are treated as its field says: a blank number is zero, or makes what is computed from it blank. A formula without
a value (`#Error!`: a division by zero, a text that is no number) is null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, DecimalException
from functools import lru_cache

from sfcdc_assets.emulator.formulas.date_functions import DATE_FUNCTIONS
from sfcdc_assets.emulator.formulas.number_functions import NUMBER_FUNCTIONS
from sfcdc_assets.emulator.formulas.operators import OPERATORS, equal
from sfcdc_assets.emulator.formulas.parser import FormulaSyntaxError, parse_formula
from sfcdc_assets.emulator.formulas.syntax import Call, Chain, Constant, Node, Prefixed, Reference, nodes_of
from sfcdc_assets.emulator.formulas.text_functions import TEXT_FUNCTIONS
from sfcdc_assets.emulator.formulas.value import ARITHMETIC, FormulaError, Value, from_stored, of_type, to_stored
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.runtime.times import utc

_STRICT: Mapping[str, tuple[int, int, Callable[..., Value]]] = {
    **NUMBER_FUNCTIONS,
    **TEXT_FUNCTIONS,
    **DATE_FUNCTIONS,
    # A text is never null (https://help.salesforce.com/s/articleView?id=sf.customize_functions_isnull.htm).
    "ISNULL": (1, 1, lambda value: value is None),
    "ISBLANK": (1, 1, lambda value: value is None or value == ""),
    "NULLVALUE": (2, 2, lambda value, other: other if value is None else value),
    "BLANKVALUE": (2, 2, lambda value, other: other if value is None or value == "" else value),
}
_OF_NOW = frozenset({"TODAY", "NOW"})
_ARGUMENTS: Mapping[str, tuple[int, int]] = {
    **{name: (least, most) for name, (least, most, _) in _STRICT.items()},
    **dict.fromkeys(_OF_NOW, (0, 0)),
    "IF": (3, 3),
    "CASE": (4, 99),
    "AND": (1, 99),
    "OR": (1, 99),
    "NOT": (1, 1),
}


@dataclass(frozen=True)
class Record:
    """What a formula is computed from: its fields' values by their names in lower case, and the time."""

    values: Mapping[str, Value]
    now: datetime


Compute = Callable[[Record], Value]


def check_functions(root: Node) -> None:
    """Raise FormulaSyntaxError for a function that there is not, or that does not take so many arguments."""
    for node in nodes_of(root):
        if not isinstance(node, Call):
            continue
        if node.function not in _ARGUMENTS:
            raise FormulaSyntaxError(f"Unknown function {node.function}. Check spelling.")
        least, most = _ARGUMENTS[node.function]
        if not least <= len(node.arguments) <= most or (node.function == "CASE" and len(node.arguments) % 2):
            raise FormulaSyntaxError(
                f"Incorrect number of parameters for function '{node.function}()'. Received {len(node.arguments)}"
            )


def names_the_time(root: Node) -> bool:
    """Return whether the value changes with the time alone."""
    return any(isinstance(node, Call) and node.function in _OF_NOW for node in nodes_of(root))


def evaluate(root: Node, record: Record) -> Value:
    """Return a formula's value. Raises FormulaError where it has none."""
    try:
        return compiled(root)(record)
    except (DecimalException, OverflowError, RecursionError) as error:
        raise FormulaError(str(error) or type(error).__name__) from error


def compiled(node: Node) -> Compute:
    """Return what computes a node."""
    match node:
        case Constant(value):
            return lambda _record: value
        case Reference():
            key = node.key
            return lambda record: record.values[key]
        case Call(function, arguments):
            return _call(function, [compiled(argument) for argument in arguments])
        case Prefixed(prefixes, operand):
            return _prefixed(prefixes, compiled(operand))
        case Chain(first, rest):
            return _chain(compiled(first), [(sign, compiled(operand)) for sign, operand in rest])


def _chain(first: Compute, rest: Sequence[tuple[str, Compute]]) -> Compute:
    sign = rest[0][0]
    if sign in {"&&", "||"}:
        return _call("AND" if sign == "&&" else "OR", [first, *(operand for _, operand in rest)])

    def computed(record: Record) -> Value:
        value = first(record)
        for each, operand in rest:
            value = OPERATORS[each](value, operand(record))
        return value

    return computed


def _prefixed(prefixes: Sequence[str], operand: Compute) -> Compute:
    def computed(record: Record) -> Value:
        value = operand(record)
        for prefix in reversed(prefixes):
            if value is None:
                return None
            if prefix == "!":
                value = not of_type(bool, value)
            else:
                number = of_type(Decimal, value)
                value = ARITHMETIC.minus(number) if prefix == "-" else number
        return value

    return computed


def _call(function: str, arguments: Sequence[Compute]) -> Compute:
    match function:
        case "IF":
            condition, then, otherwise = arguments
            return lambda record: (then if of_type(bool, condition(record)) else otherwise)(record)
        case "AND":
            return lambda record: all(of_type(bool, argument(record)) for argument in arguments)
        case "OR":
            return lambda record: any(of_type(bool, argument(record)) for argument in arguments)
        case "NOT":
            return _prefixed("!", arguments[0])
        case "CASE":
            return _case(arguments)
        case "TODAY":
            return lambda record: record.now.date()
        case "NOW":
            return lambda record: record.now.replace(microsecond=0)
    compute = _STRICT[function][2]
    return lambda record: compute(*(argument(record) for argument in arguments))


def _case(arguments: Sequence[Compute]) -> Compute:
    first, *pairs, otherwise = arguments

    def computed(record: Record) -> Value:
        value = first(record)
        for wanted, result in zip(pairs[::2], pairs[1::2], strict=True):
            if equal(value, wanted(record)):
                return result(record)
        return otherwise(record)

    return computed


@dataclass(frozen=True)
class FieldFormula:
    """The formula of a field as SQL carries it: `to_json` is the first argument of the function `sf_formula`, the time
    (epoch ms; null where it is not named) the second, the stored values of `fields` the others."""

    text: str
    type: str
    scale: int
    blank_is_zero: bool
    fields: tuple[tuple[str, str], ...]
    """Names in lower case, as they are in the text, with describe's types."""

    def to_json(self) -> str:
        """Return what `formula_value` takes."""
        return json.dumps([self.text, self.type, self.scale, self.blank_is_zero, self.fields])


@lru_cache(maxsize=1_000)
def _from_json(document: str) -> tuple[FieldFormula, Compute]:
    text, kind, scale, blank_is_zero, fields = json.loads(document)
    formula = FieldFormula(text, kind, scale, blank_is_zero, tuple((name, type_) for name, type_ in fields))
    return formula, compiled(parse_formula(text))


def formula_value(document: str, now: int | None, *stored: StoredValue) -> StoredValue:
    """Return the stored form of a formula's value, None for `#Error!` (a checkbox: 0). `document` is
    `FieldFormula.to_json`."""
    formula, compute = _from_json(document)
    try:
        values = {
            name: from_stored(kind, value, blank_is_zero=formula.blank_is_zero)
            for (name, kind), value in zip(formula.fields, stored, strict=True)
        }
        result = compute(Record(values, utc(now or 0)))
        return to_stored(formula.type, formula.scale, result)
    except (FormulaError, DecimalException, OverflowError, RecursionError, ValueError):
        return 0 if formula.type == "boolean" else None
