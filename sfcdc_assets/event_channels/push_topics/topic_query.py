"""The query of a PushTopic, and which ones are not supported, in the vendor's words (Streaming API Developer Guide,
"Supported PushTopic Queries" and "Unsupported PushTopic Queries").

Such a query is flat: fields of one object, and conditions without inner queries. So it is gone through token by token;
a parser of whole SOQL, of which no kept one exists for Python, would know much that is refused here. What is neither
known to be supported nor known not to be is left to the org, whose refusal is shown with its own text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sfcdc_assets.event_channels.push_topics.errors import query_not_supported
from sfcdc_assets.event_channels.push_topics.soql_tokens import Token, TokenKind, malformed, tokens

AGGREGATES = frozenset({"AVG", "MAX", "MIN", "SUM", "COUNT", "COUNT_DISTINCT"})
_END = Token(TokenKind.SIGN, "")
_LISTS = frozenset({"IN", "INCLUDES", "EXCLUDES"})
_CLAUSES = {
    "ORDER": ("'ORDER BY' clause is not allowed", "Leave it out: notifications are ordered by createdDate"),
    "LIMIT": ("'LIMIT' is not allowed", "Leave it out"),
    "OFFSET": ("'OFFSET' clause is not allowed", "Leave it out"),
    "GROUP": ("Aggregate queries are not supported", "Select fields of records"),
    "HAVING": ("Aggregate queries are not supported", "Select fields of records"),
}

_WORDS_AFTER_FROM = frozenset({"WHERE", *_CLAUSES, "USING", "WITH", "FOR", "UPDATE", "ALL"})


@dataclass(frozen=True)
class TopicQuery:
    """A query that may be supported: its object, the fields it selects and those it compares, as they are written."""

    entity: str
    selected: tuple[str, ...]
    compared: tuple[str, ...] = ()


def topic_query(soql: str) -> TopicQuery:
    """Go through a query. Raises `TopicNotSupported`, about the field `Query`, for one that is not supported."""
    return _Query(tokens(soql)).parse()


class _Query:
    """Reads the tokens from left to right, once; nothing is nested, so nothing recurses."""

    def __init__(self, found: Sequence[Token]) -> None:
        self._tokens = found
        self._at = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _take(self) -> Token:
        token = self._next
        self._at += 1
        return token

    def parse(self) -> TopicQuery:
        self._expect("SELECT")
        selected = self._selected()
        self._expect("FROM")
        entity = self._name().text
        aliases = {entity.upper(), *self._alias()}
        if self._next.text == ",":
            raise query_not_supported("only one entity per query is supported", "Make a topic of each object")
        compared: tuple[str, ...] = ()
        if self._next.word == "WHERE":
            self._take()
            compared = self._conditions()
        if self._next.word in _CLAUSES:
            raise query_not_supported(*_CLAUSES[self._next.word])
        if self._next.text == ";":
            self._take()
        if self._next is not _END:
            raise malformed(self._next.text)
        query = TopicQuery(entity, _fields(selected, aliases), _fields(compared, aliases))
        if not any(name.upper() == "ID" for name in query.selected):
            raise query_not_supported("the Id field must be in the SELECT clause", "Write SELECT Id, ...")
        return query

    def _alias(self) -> list[str]:
        if self._next.word == "AS":
            self._take()
        elif self._next.word in _WORDS_AFTER_FROM:
            return []
        return [self._take().word] if self._next.kind is TokenKind.NAME else []

    def _selected(self) -> tuple[str, ...]:
        names = [self._selected_name()]
        while self._next.text == ",":
            self._take()
            names.append(self._selected_name())
        return tuple(names)

    def _selected_name(self) -> str:
        if self._next.text == "(":
            raise query_not_supported("relationships are not supported", "Leave the inner query out")
        if self._next.word == "TYPEOF":
            raise query_not_supported("'TYPEOF' clause is not allowed", "Select the reference itself, such as OwnerId")
        token = self._name()
        if self._next.text == "(":
            self._check_function(token)
            raise malformed(f"{token.text}(")
        return token.text

    def _conditions(self) -> tuple[str, ...]:
        """`(`* comparison `)`* joined by AND and OR."""
        names: list[str] = []
        depth = 0
        while True:
            while self._next.text == "(":
                self._take()
                depth += 1
            if self._next.word == "NOT":
                remedy = "Turn the comparison round: Name != 'x' in the place of NOT Name = 'x'; NOT IN is supported"
                raise query_not_supported("'NOT' is not supported", remedy)
            names += self._comparison()
            while depth and self._next.text == ")":
                self._take()
                depth -= 1
            if self._next.word not in ("AND", "OR"):
                break
            self._take()
        if depth:
            raise malformed(self._next.text)
        return tuple(names)

    def _comparison(self) -> list[str]:
        token = self._name()
        names = []
        if self._next.text == "(":
            self._check_function(token)
            self._skip_parentheses()
        else:
            names = [token.text]
        if self._next.kind is TokenKind.OPERATOR or self._next.word == "LIKE":
            self._take()
            self._value()
        elif self._next.word == "NOT" or self._next.word in _LISTS:
            if self._take().word == "NOT" and self._take().word != "IN":
                raise query_not_supported(
                    "'NOT' is not supported", "Write the opposite comparison; NOT IN is supported"
                )
            self._list()
        else:
            raise malformed(self._next.text)
        return names

    def _list(self) -> None:
        if self._next.text != "(":
            raise malformed(self._next.text)
        self._take()
        if self._next.word == "SELECT":
            raise query_not_supported(
                "semi/anti join sub-selects are not supported", "List the values, or compare a field of this object"
            )
        self._value()
        while self._next.text == ",":
            self._take()
            self._value()
        end = self._take()
        if end.text != ")":
            raise malformed(end.text)

    def _value(self) -> None:
        token = self._take()
        if token.kind in (TokenKind.OPERATOR, TokenKind.SIGN):
            raise malformed(token.text)

    def _skip_parentheses(self) -> None:
        depth = 0
        while True:
            token = self._take()
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if token is _END:
                raise malformed("")
            if not depth:
                return

    def _name(self) -> Token:
        token = self._take()
        if token.kind is not TokenKind.NAME:
            raise malformed(token.text)
        return token

    def _expect(self, word: str) -> None:
        token = self._take()
        if token.word != word:
            raise malformed(token.text)

    @staticmethod
    def _check_function(token: Token) -> None:
        if token.word in AGGREGATES:
            raise query_not_supported("Aggregate queries are not supported", "Select fields of records")


def _fields(names: Sequence[str], aliases: Collection[str]) -> tuple[str, ...]:
    """Return the fields' own names, without the alias of the object."""
    return tuple(dict.fromkeys(_field(name, aliases) for name in names))


def _field(name: str, aliases: Collection[str]) -> str:
    owner, _, own = name.partition(".")
    if not own:
        return owner
    if "." in own or owner.upper() not in aliases:
        remedy = "Name the reference itself, such as AccountId, and join the tables in the warehouse"
        raise query_not_supported("relationships are not supported", remedy)
    return own
