"""What the text of a formula names: fields, global variables and functions.

Only tokens are read, not the grammar: a text in quotes and a comment name nothing, and a name before a parenthesis is a
function. That finds every name of a formula that Salesforce takes (https://help.salesforce.com/s/articleView?
id=sf.customize_functions.htm); what is no token of the language makes a text unreadable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<blank> [\s\ufeff\xa0]+ | /\*.*?\*/ | "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )
    | (?P<name> [A-Za-z$][A-Za-z0-9_$:.\#]* )
    | (?P<sign> \d+(?:\.\d*)?(?:[eE][+-]?\d+)? | \.\d+ | /(?!\*) | [-+*^&=<>!|(),\[\]{}] )
    """,
    re.VERBOSE | re.DOTALL,
)
_WORDS = frozenset({"true", "false", "null", "not"})
_ANNOTATION = re.compile(r"\s*(?:\[\w+\]\s*)+")
"""`[treatNullAsNull]` before a formula."""


@dataclass(frozen=True)
class FormulaText:
    """The names in a formula, each once, in lower case: names of the language have no case."""

    fields: frozenset[str]
    """Of the record, or of a parent with the relationships before it: `account.owner.name`."""
    variables: frozenset[str]
    """What begins with `$`: `$user.id`, `$setup.limits__c.most__c`."""
    functions: frozenset[str]


def read_formula(text: str) -> FormulaText | None:
    """Return what a formula names; None for a text that is none."""
    position = found.end() if (found := _ANNOTATION.match(text)) else 0
    names: list[tuple[str, int]] = []
    signs: list[str] = []
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return None
        position = token.end()
        if token["name"]:
            names.append((token["name"].lower(), position))
        elif token["sign"]:
            signs.append(token["sign"])
    if signs.count("(") != signs.count(")") or not (names or signs or text.strip()):
        return None
    functions = {name for name, end in names if _is_called(text, end)}
    others = {name for name, end in names if not _is_called(text, end)} - _WORDS
    variables = {name for name in others if name.startswith("$")}
    return FormulaText(frozenset(others - variables), frozenset(variables), frozenset(functions - _WORDS))


def _is_called(text: str, position: int) -> bool:
    """Return whether a parenthesis follows, behind blanks and comments."""
    while (token := _TOKEN.match(text, position)) is not None and token["blank"] and token["blank"][0] not in "\"'":
        position = token.end()
    return text.startswith("(", position)
