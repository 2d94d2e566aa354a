"""The tokens of a SOQL query: texts in quotes, names, numbers and dates, operators, and signs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from sfcdc_assets.event_channels.push_topics.errors import TopicNotSupported


class TokenKind(Enum):
    """What a token is."""

    TEXT = "a text in quotes"
    NAME = "a name or a word of SOQL"
    """Relationships (`Account.Name`) and date literals (`LAST_N_DAYS:30`) included."""
    NUMBER = "a number, a date or a time"
    OPERATOR = "a comparison"
    SIGN = "a parenthesis, a comma or a semicolon"


@dataclass(frozen=True)
class Token:
    """One token as it is written; a name without the blanks that may stand around its dots."""

    kind: TokenKind
    text: str

    @property
    def word(self) -> str:
        """A name in upper case, as words of SOQL are compared; empty for other tokens."""
        return self.text.upper() if self.kind is TokenKind.NAME else ""


_TOKEN = re.compile(
    r"""\s*(?:
    (?P<TEXT>'(?:[^'\\]|\\.)*')
  | (?P<NAME>[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z_]\w*)*(?::\d+)?)
  | (?P<NUMBER>[+-]?(?:\d|\.\d)[\w.:+-]*)
  | (?P<OPERATOR><=|>=|!=|<>|=|<|>)
  | (?P<SIGN>[(),;])
    )""",
    re.VERBOSE | re.DOTALL,
)
_BLANKS = re.compile(r"\s+")
_SPACE = re.compile(r"('(?:[^'\\]|\\.)*')|\s+", re.DOTALL)


def tokens(soql: str) -> tuple[Token, ...]:
    """All tokens of a query. Raises `TopicNotSupported` where there is none."""
    found, at, end = [], 0, len(soql.rstrip())
    while at < end:
        match = _TOKEN.match(soql, at)
        if match is None or match.lastgroup is None:
            raise malformed(soql[at:].strip()[:20])
        kind, text = TokenKind[match.lastgroup], match[match.lastgroup]
        found.append(Token(kind, _BLANKS.sub("", text) if kind is TokenKind.NAME else text))
        at = match.end()
    return tuple(found)


def in_one_line(soql: str) -> str:
    """Return the query with single blanks outside of texts, and none around it: how two are compared and one is
    sent."""
    return _SPACE.sub(lambda found: found[1] or " ", soql).strip().removesuffix(";").rstrip()


def malformed(found: str) -> TopicNotSupported:
    """Return the error that the query is no SOQL at some token; an empty one is its end."""
    what = f"unexpected token: '{found}'" if found else "unexpected end of query"
    remedy = "Write it as SELECT Id, fields FROM object WHERE conditions"
    return TopicNotSupported("Query", "MALFORMED_QUERY", what, remedy)
