"""The views as a source of dbt: the text of a `sources.yml`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from sfcdc_assets.sql.catalogue import DescribedView


def sources_yml(views: Iterable[DescribedView], *, source: str, schema: str, database: str | None = None) -> str:
    """YAML. Texts are written as JSON writes them, which YAML reads as they are."""
    return "\n".join(_lines(views, source, schema, database)) + "\n"


def _lines(views: Iterable[DescribedView], source: str, schema: str, database: str | None) -> Iterator[str]:
    yield "version: 2"
    yield "sources:"
    yield f"  - name: {_text(source)}"
    yield f"    description: {_text('A Salesforce org, copied from its change events by sfcdc_assets.')}"
    if database:
        yield f"    database: {_text(database)}"
    yield f"    schema: {_text(schema)}"
    yield "    tables:"
    for view in views:
        yield f"      - name: {_text(view.name)}"
        yield f"        description: {_text(view.description)}"
        yield "        columns:"
        for column in view.columns:
            yield f"          - name: {_text(column.name)}"
            yield f"            data_type: {_text(column.type)}"
            if column.description:
                yield f"            description: {_text(column.description)}"
            if column.name == "Id":
                yield f"            data_tests: [{'unique, ' if view.has_unique_ids else ''}not_null]"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
