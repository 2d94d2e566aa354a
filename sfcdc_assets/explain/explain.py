"""Who set this value, from the tables alone."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sfcdc_assets.explain.explanation import NotExplained
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.tables.all_versions import all_versions
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.wanted_entities import NoSuchEntity, entity_named
from sfcdc_assets.salesforce.record_id import to_18_characters
from sfcdc_assets.sql.users import USER, columns_of_name
from sfcdc_assets.timeline.value_chain import value_chain

_QUOTE = "'"
_USER_ID = "^005[A-Za-z0-9]{15}$"
_NO_HISTORY = "it has no history"


def explain_record(warehouse: Warehouse, entity: str, record_id: str, field: str | None = None) -> pl.DataFrame:
    """Return the chain of one field's values in a record, or of all fields', as `CHAIN`; beside it `commit_user_name`,
    and `value_name` of a value that is a user's id: what they are called now, null where the copy has no such user.

    `record_id` may have 15 characters. The entity may be written in any case. Raises `NoSuchEntity`, and `NotExplained`
    for a record or field that the tables lack.
    """
    entity = entity_named(entity, warehouse.entities(history.LAYER), _NO_HISTORY)
    table = _history(warehouse, entity)
    fields = _fields(table, entity, field)
    found = all_versions(warehouse, entity, f"Id = '{to_18_characters(record_id).replace(_QUOTE, 2 * _QUOTE)}'")
    rows = arrow_frame(found) if found is not None else pl.DataFrame()
    if rows.is_empty():
        raise NotExplained.no_version(entity, record_id)
    return _with_names(warehouse, value_chain(rows, fields))


def _with_names(warehouse: Warehouse, chain: pl.DataFrame) -> pl.DataFrame:
    ids = pl.concat([chain["commit_user"], chain["value"]]).drop_nulls().unique()
    names = _names_of_users(warehouse, ids.filter(ids.str.contains(_USER_ID)).sort().to_list())
    return chain.with_columns(
        pl.col(ids).replace_strict(names, default=None, return_dtype=pl.String).alias(name)
        for ids, name in (("commit_user", "commit_user_name"), ("value", "value_name"))
    )


def _names_of_users(warehouse: Warehouse, user_ids: Sequence[str]) -> dict[str, str]:
    table = Table.open(warehouse, current_state.name_of(USER))
    columns = columns_of_name(table.schema) if table else ()
    if table is None or not columns or not user_ids:
        return {}
    listed = ", ".join(f"'{each}'" for each in user_ids[: current_state.IDS_PER_SCAN])
    rows = table.scan(["Id", *columns], f"Id IN ({listed})").to_pylist()
    return {row["Id"]: " ".join(row[each] for each in columns if row[each]) for row in rows}


def _history(warehouse: Warehouse, entity: str) -> Table:
    table = Table.open(warehouse, history.name_of(entity))
    if table is None:
        raise NoSuchEntity(entity, _NO_HISTORY, warehouse.entities(history.LAYER))
    return table


def _fields(table: Table, entity: str, field: str | None) -> list[str]:
    known = [name for name in table.schema.names if not name.startswith("_") and name != "Id"]
    if field is None:
        return known
    found = [name for name in known if name.lower() == field.lower()]
    if not found:
        raise NotExplained.no_field(entity, field, known)
    return found
