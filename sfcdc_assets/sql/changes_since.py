"""`account_changes_since(token)`: what has changed in an entity up to the cut, as SQL over its tables.

The same as `sfcdc_assets.changes_since`, of a token alone, and one row a record; a token that is null gives every
living record as an insert. `sfcdc_tokens` has the token of each entity at the cut, to ask with next time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from sfcdc_assets.changes.entity_changes import IS_VERSION, NOT_FROM_FIELD_HISTORY, Before
from sfcdc_assets.changes.reported_changes import changes_schema, fields_of
from sfcdc_assets.changes.token import (
    CHECKSUM,
    DAMAGED,
    GONE,
    OF_ANOTHER_ENTITY,
    OF_ANOTHER_ORGANIZATION,
    OF_ANOTHER_TABLE,
    OF_EARLIER_RELEASE,
    REBUILT,
    RETYPED,
    ChangesExpired,
    Token,
)
from sfcdc_assets.lake.delta.readable_table import ReadableTable, readable
from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.sql.text import Rows, name, sql_type, value

TOKENS = "sfcdc_tokens"
ORIGIN = "_change_origin"
_ORDER = "_position, _superseded_at, _valid_from, _valid_to, _batch"
_CERTAIN = "NOT coalesce(_in_doubt, false) AND _certain_fields IS NULL"


@dataclass(frozen=True)
class ChangesSource:
    """What changes of an entity are reported from, beside its tables at the cut: the token that stands for these, and
    what was there before each batch that went back to an earlier watermark."""

    token: Token
    before: tuple[Before, ...]


def name_of_changes(rows: str) -> str:
    """Return the name of the macro of an entity whose rows are in this view."""
    return f"{rows}_changes_since"


def tokens_query(tokens: Iterable[Token]) -> str:
    """Return a row for each entity."""
    rows = (f"SELECT {value(each.entity)} AS entity, {value(str(each))} AS token" for each in tokens)
    return " UNION ALL ".join(rows) or "SELECT NULL::VARCHAR AS entity, NULL::VARCHAR AS token WHERE false"


def create_changes_macro(rows: str, tables: Mapping[str, ReadableTable], source: ChangesSource, read: Rows) -> str:
    """Return what creates the macro."""
    return f"CREATE OR REPLACE MACRO {name(name_of_changes(rows))}(token) AS TABLE {_query(tables, source, read)}"


_BATCH = "coalesce(TRY_CAST(split_part(CAST(token AS VARCHAR), '.', 5) AS BIGINT), -1)"
"""Of a token that is null: before all batches."""


def _query(tables: Mapping[str, ReadableTable], source: ChangesSource, read: Rows) -> str:
    rows = tables[current_state.LAYER]
    schema, values = changes_schema(rows.schema), [each for each in fields_of(rows.schema) if each.name != "Id"]
    # The tables of a kept cut may be older than the column, and all views of the cut are created together.
    origin = "" if ORIGIN in rows.schema.names else f", NULL::VARCHAR AS {ORIGIN}"
    now = f"SELECT *, {_CERTAIN} AS _certain{origin} FROM ({read(rows)}) WHERE {IS_VERSION} AND _batch > {_BATCH}"
    chains, thens, vanished = _before(tables, source, read, values)
    before = (
        f"first_of_each AS (SELECT * FROM ({' UNION ALL BY NAME '.join(chains)}) "
        f'QUALIFY row_number() OVER (PARTITION BY "Id" ORDER BY {_ORDER}) = 1), '
        f"then_rows AS ({' UNION ALL BY NAME '.join(thens)}), "
        f"there AS (SELECT * FROM then_rows WHERE coalesce(_first_batch, 0) <= {_BATCH}), "
        'before AS (SELECT f.* FROM first_of_each AS f SEMI JOIN there USING ("Id") UNION ALL BY NAME '
        'SELECT * EXCLUDE (_first_batch) FROM there ANTI JOIN first_of_each USING ("Id"))'
    )
    after = "SELECT * FROM now_rows"
    if vanished:
        after += (
            " UNION ALL BY NAME SELECT * REPLACE (true AS _is_deleted, NULL AS _deleted_reason) "
            f'FROM ({" UNION ALL BY NAME ".join(vanished)}) SEMI JOIN before USING ("Id")'
        )
    selected = ", ".join(_selected(schema, values))
    return (
        f"WITH now_rows AS ({now}), {before}, after AS ({after}) "
        f'SELECT {selected} FROM after AS n LEFT JOIN before AS b ON b."Id" = n."Id" '
        "WHERE token IS NOT NULL OR NOT n._is_deleted "
        f'UNION ALL BY NAME SELECT NULL::VARCHAR AS "Id" WHERE {_refused(source)}'
    )


def _before(
    tables: Mapping[str, ReadableTable], source: ChangesSource, read: Rows, values: list[pa.Field]
) -> tuple[list[str], list[str], list[str]]:
    """Return queries for the superseded versions, for the rows, and for those of records that are gone since: of the
    tables now, and of those before each way back, each for the tokens that it answers."""
    kept = [each for each in source.before if each.pair is not None]
    last = max((each.up_to for each in source.before), default=-1)
    now_answers = f"({_BATCH} < 0 OR {_BATCH} >= {last})"
    chains = [_chain(tables.get(history.LAYER), tables[current_state.LAYER], values, read, now_answers)]
    thens = [_then("now_rows", tables[current_state.LAYER].schema, values, now_answers)]
    vanished = []
    for each in kept:
        assert each.pair is not None
        rows, answers = readable(each.pair.rows), f"({_BATCH} >= {each.since} AND {_BATCH} < {each.up_to})"
        past = each.pair.versions
        condition = each.pair.checkpoint.part(history.ENDS_AT)
        chains.append(_chain(readable(past, condition) if past else None, rows, values, read, answers))
        found = f"({read(rows)})"
        gone = (
            f"SELECT *, {_CERTAIN} AS _certain FROM {found} AS t WHERE {answers} AND {IS_VERSION} "
            f'AND _position > {each.watermark} AND "Id" NOT IN (SELECT "Id" FROM '
            f"({read(tables[current_state.LAYER])}) WHERE {IS_VERSION})"
        )
        vanished.append(gone)
        reported = f'(SELECT "Id" FROM now_rows UNION SELECT "Id" FROM ({gone}))'
        thens.append(_then(found, rows.schema, values, f'{answers} AND {IS_VERSION} AND "Id" IN {reported}'))
    return chains, thens, vanished


def _columns(present: pa.Schema, values: list[pa.Field], system: Iterable[str]) -> str:
    """Name the columns of a row before: a table of then has not those that came since."""
    own = (
        name(each.name) if each.name in present.names else f"CAST(NULL AS {sql_type(each.type)}) AS {name(each.name)}"
        for each in values
    )
    return ", ".join(['"Id"', *own, *system])


def _chain(past: ReadableTable | None, rows: ReadableTable, values: list[pa.Field], read: Rows, answers: str) -> str:
    order = ("_is_deleted", "_position", "_superseded_at", "_valid_from", "_valid_to", "_batch")
    if past is None:
        nothing = ("CAST(NULL AS BIGINT) AS _superseded_at", "CAST(NULL AS TIMESTAMPTZ) AS _valid_to")
        columns = _columns(rows.schema, values, ("_is_deleted", "_position", "_valid_from", "_batch", *nothing))
        return f"SELECT {columns} FROM ({read(rows)}) WHERE false"
    return (
        f"SELECT {_columns(past.schema, values, order)} FROM ({read(past)}) "
        f"WHERE {answers} AND {NOT_FROM_FIELD_HISTORY} AND _batch > {_BATCH}"
    )


def _then(found: str, schema: pa.Schema, values: list[pa.Field], condition: str) -> str:
    return f"SELECT {_columns(schema, values, ('_is_deleted', '_first_batch'))} FROM {found} WHERE {condition}"


def _selected(schema: pa.Schema, values: list[pa.Field]) -> Iterable[str]:
    differs = {each.name: f"n.{name(each.name)} IS DISTINCT FROM b.{name(each.name)}" for each in values}
    members = ", ".join(
        f"{name(each.name)} := CASE WHEN {differs[each.name]} THEN b.{name(each.name)} END" for each in values
    )
    named = ", ".join(f"CASE WHEN {differs[each.name]} THEN {value(each.name)} END" for each in values)
    made = {
        "_op": "CASE WHEN n._is_deleted THEN 'delete' WHEN b.\"Id\" IS NULL THEN 'insert' "
        "WHEN b._is_deleted THEN 'undelete' ELSE 'update' END",
        "_before": f'CASE WHEN b."Id" IS NOT NULL THEN struct_pack({members}) END' if values else "NULL",
        "_changed_fields": f'CASE WHEN b."Id" IS NOT NULL THEN list_filter([{named}], lambda x: x IS NOT NULL) END',
    }
    for each in schema.names:
        yield f"{made.get(each, f'n.{name(each)}')} AS {name(each)}"


def _refused(source: ChangesSource) -> str:
    """Return a condition that is never true, and fails for a token whose consumer has to begin again."""
    now = source.token
    text = "CAST(token AS VARCHAR)"
    said = f"left({text}, -{CHECKSUM + 1})"
    parts = [f"split_part({text}, '.', {number})" for number in range(1, 9)]
    cases = [
        (f"{parts[7]} <> left(sha256({said}), {CHECKSUM})", DAMAGED),
        (f"{parts[1]} <> {value(now.entity)}", OF_ANOTHER_ENTITY),
        (f"{parts[6]} NOT IN ('-', {value(now.organization or '-')})", OF_ANOTHER_ORGANIZATION),
        (f"{parts[5]} <> {value(now.table)}", OF_ANOTHER_TABLE),
        (f"CAST({parts[2]} AS BIGINT) = 0 AND {now.built_at} > 0", OF_EARLIER_RELEASE),
        (f"CAST({parts[2]} AS BIGINT) <> {now.built_at}", REBUILT),
        (f"CAST({parts[3]} AS BIGINT) <> {now.retyped_at}", RETYPED),
    ]
    lost = [each for each in source.before if each.pair is None]
    cases += [(f"{_BATCH} >= {each.since} AND {_BATCH} < {each.up_to}", GONE) for each in lost]
    listed = " ".join(
        f"WHEN {condition} THEN error({value(str(ChangesExpired(now.entity, reason)))})" for condition, reason in cases
    )
    return f"CASE WHEN token IS NULL THEN false {listed} ELSE false END"
