"""SOSL searches: `FIND {acme} IN NAME FIELDS RETURNING Account(Id, Name), Contact LIMIT 5`
(https://developer.salesforce.com/docs/atlas.en-us.soql_sosl.meta/soql_sosl/sforce_api_calls_sosl_syntax.htm).

A record is found when its short text fields have every word of the search, whole and whatever its case; `*` and `?`
stand for letters, quotes keep words together, OR separates alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.query import compile_for
from sfcdc_assets.emulator.rest.record_fields import chosen_fields, read_records
from sfcdc_assets.emulator.rest.rest_context import RestContext
from sfcdc_assets.emulator.soql.condition import is_filterable

_SEARCH = re.compile(
    r"\s*FIND\s*\{((?:[^{}\\]|\\.)*)\}(?:\s*IN\s+(ALL|NAME|EMAIL|PHONE|SIDEBAR)\s+FIELDS)?"
    r"(?:\s*RETURNING\s+(.*?))?(?:\s+LIMIT\s+(\d{1,4}))?\s*",
    re.IGNORECASE | re.DOTALL,
)
_RETURNED = re.compile(r"(\w+)\s*(?:\((.*)\))?", re.DOTALL)
_REST = re.compile(r"\b(?:WHERE|ORDER\s+BY|LIMIT)\b", re.IGNORECASE)
_LIMIT = re.compile(r"\bLIMIT\s+(\d{1,4})\s*$", re.IGNORECASE)
_WORD = re.compile(r'"([^"]+)"|(\S+)')
_TEXT = frozenset({"string", "textarea", "picklist", "combobox", "phone", "email", "url"})
_MAX_RECORDS = 2_000


@dataclass(frozen=True)
class _Returned:
    """One object of RETURNING: its fields, the SOQL that follows them, and the most records that are found."""

    definition: ObjectDefinition
    fields: Sequence[str]
    rest: str = ""
    limit: int = _MAX_RECORDS


def add_search(context: RestContext) -> None:
    """`search?q=`."""

    def search(request: ApiRequest) -> Response:
        match = _SEARCH.fullmatch(request.query.get("q", ""))
        if match is None:
            raise ApiError("MALFORMED_SEARCH", "unexpected token: a search is FIND {...} IN ... RETURNING ...")
        text, scope, returning, limit = match.groups()
        alternatives = _alternatives(re.sub(r"\\(.)", r"\1", text))
        left = min(int(limit or _MAX_RECORDS), _MAX_RECORDS)
        found = []
        for returned in _returned(context, returning):
            ids = list(_found(context, returned, (scope or "ALL").upper(), alternatives))[: min(left, returned.limit)]
            records = read_records(context, returned.definition, ids, returned.fields, request.data_path)
            found += [records[record_id] for record_id in ids if record_id in records]
            left -= len(ids)
        return JSONResponse({"searchRecords": found})

    context.add("/search", {"GET": search})


def _alternatives(text: str) -> list[list[re.Pattern[str]]]:
    """Return what each word matches, for each alternative."""
    alternatives: list[list[re.Pattern[str]]] = [[]]
    for quoted, word in _WORD.findall(text):
        if word.upper() == "OR":
            alternatives.append([])
        elif word.upper() != "AND":
            letters = quoted or word
            if len(letters.strip("*?")) < 2:
                raise ApiError("MALFORMED_SEARCH", f"search term must be longer than one character: {letters}")
            pattern = re.escape(letters).replace(r"\*", r"\w*").replace(r"\?", r"\w")
            alternatives[-1].append(re.compile(rf"(?<!\w){pattern}(?!\w)", re.IGNORECASE))
    if not all(alternatives):
        raise ApiError("MALFORMED_SEARCH", "search term is missing")
    return alternatives


def _returned(context: RestContext, returning: str | None) -> Iterator[_Returned]:
    if returning is None:
        for name, definition in context.org.field_security.visible_definitions.items():
            if name not in context.org.hidden_objects | context.org.unreadable_objects:
                yield _Returned(definition, ["Id"])
        return
    for part in _split(returning):
        match = _RETURNED.fullmatch(part.strip())
        if match is None:
            raise ApiError("MALFORMED_SEARCH", f"unexpected token: '{part.strip()}'")
        definition = context.definition(match.group(1), to_read=True)
        inner = match.group(2) or "Id"
        rest = _REST.search(inner)
        names = inner[: rest.start()] if rest else inner
        fields = chosen_fields(definition, names.split(",") if names.strip() else ["Id"])
        soql = inner[rest.start() :] if rest else ""
        limit = _LIMIT.search(soql)  # counts what is found, not what is searched
        most = int(limit.group(1)) if limit else _MAX_RECORDS
        yield _Returned(definition, fields, soql[: limit.start()] if limit else soql, most)


def _split(text: str) -> Iterator[str]:
    """Split at commas that stand in no parentheses."""
    depth = start = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def _found(
    context: RestContext, returned: _Returned, scope: str, alternatives: list[list[re.Pattern[str]]]
) -> Iterator[str]:
    fields = [field for field in returned.definition.fields if _is_searched(returned.definition, field, scope)]
    if not fields:
        return
    names = ", ".join(field.name for field in fields)
    text = f"SELECT {names} FROM {returned.definition.name} {returned.rest}"
    compiled = compile_for(context, text, include_deleted=False)
    for row in context.org.rest_view.rows(compiled.sql, compiled.parameters):
        values = "\n".join(str(row[each.first]) for each in compiled.selected if row[each.first] is not None)
        if any(all(word.search(values) for word in words) for words in alternatives):
            yield str(row[0])


def _is_searched(definition: ObjectDefinition, field: FieldDefinition, scope: str) -> bool:
    if field.type not in _TEXT or not is_filterable(field):
        return False
    if scope == "NAME":
        return field.name == definition.name_field
    return scope in {"ALL", "SIDEBAR"} or field.type == scope.lower()
