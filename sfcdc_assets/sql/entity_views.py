"""The views of one entity: what analysts ask for, over its tables at a cut.

`account` has the live rows, `account_history` every version, `account_as_of(moment)` the rows that were valid at a
time, `account_changes_since(token)` what has changed up to the cut, whatever time is shown. Formula fields are as of
when they were read: in the first the last value, in the others the last one that was read while the version was the
record's. Views that are to show a time have in the first what was valid then, and
in the second the versions that had begun by then, without an end that came later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from sfcdc_assets.formulas.formula_columns import AS_OF
from sfcdc_assets.lake.delta.readable_table import ReadableTable
from sfcdc_assets.lake.tables import current_state, gap_reconciliation, history, text_fields
from sfcdc_assets.sql.changes_since import ChangesSource, create_changes_macro, name_of_changes
from sfcdc_assets.sql.labels import (
    PICKLIST_LABELS,
    RECORD_TYPE_NAMES,
    Label,
    label_joins,
    picklist_labels,
    record_type_names,
)
from sfcdc_assets.sql.lookup_names import LookupName, lookup_joins, relation_of_names
from sfcdc_assets.sql.text import Rows, name
from sfcdc_assets.sql.users import joins
from sfcdc_assets.timeline.version_columns import OF_THE_ROW

USERS = "user_names"
_AS_THEY_ARE = (text_fields.LAYER, gap_reconciliation.LAYER)
_VALID_AT = "_valid_from <= {moment} AND (_valid_to > {moment} OR _valid_to IS NULL) AND NOT _is_deleted"
_IS_UNCERTAIN = "(_in_doubt OR _certain_fields IS NOT NULL)"
_READ_IN_VERSION = (
    f'f."Id" = v."Id" AND f.{AS_OF} >= v._valid_from AND (v._valid_to IS NULL OR f.{AS_OF} < v._valid_to) '
    "AND (f._next_as_of IS NULL OR f._next_as_of >= v._valid_to)"
)
"""The last reading that was made while the version was the record's."""
_NO_END = "CAST(NULL AS TIMESTAMPTZ) AS _valid_to, CAST(NULL AS BIGINT) AS _superseded_at"


@dataclass(frozen=True)
class View:
    """A name and what creates it."""

    name: str
    create: str


@dataclass(frozen=True)
class EntityTables:
    """The entity's tables at a cut, by layer, and its columns that have a user's name, or a label, beside them."""

    entity: str
    tables: Mapping[str, ReadableTable]
    users: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, Label] = field(default_factory=dict)
    lookups: Mapping[str, LookupName] = field(default_factory=dict)
    """Columns that have the name of what they point to beside them; none that is among `users`."""
    formulas: ReadableTable | None = None
    """The values of formula fields, as they were last read."""
    earlier_formulas: ReadableTable | None = None
    """Values of them that were read before."""
    changes: ChangesSource | None = None
    """What `changes_since` needs beside the tables."""

    @property
    def formula_columns(self) -> tuple[str, ...]:
        """The formula fields that stand beside the entity's columns, and when they were read."""
        taken = {each.lower() for each in (*self.schema(current_state.LAYER).names, *self.users.values())}
        taken |= {label.beside for label in self.labels.values()}
        taken |= {lookup.beside for lookup in self.lookups.values()}
        found = [each for each in self._formula_names if each.lower() not in taken]
        return (*found, AS_OF) if self._formula_names else ()

    @property
    def carried_formulas(self) -> tuple[str, ...]:
        """The formula fields that change events carry too: a value of theirs is as old as the record's last event."""
        carried = set(self.schema(current_state.LAYER).names)
        return tuple(each for each in self._formula_names if each in carried)

    @property
    def _formula_names(self) -> tuple[str, ...]:
        names = self.formulas.schema.names if self.formulas is not None else ()
        return tuple(each for each in names if each not in ("Id", AS_OF))

    @property
    def view_name(self) -> str:
        """The entity in lower case."""
        return self.entity.lower()

    def schema(self, layer: str) -> pa.Schema:
        """Return the schema of one of its tables."""
        return self.tables[layer].schema


def names_of_entity(entity: str, layers: Collection[str]) -> tuple[str, ...]:
    """Return the names that its views and macros have, if it has tables in these layers."""
    rows = entity.lower()
    of_rows = (rows, f"{rows}_history", *macros_of_entity(entity)) if current_state.LAYER in layers else ()
    return (*of_rows, *(f"{rows}_{layer}" for layer in _AS_THEY_ARE if layer in layers))


def macros_of_entity(entity: str) -> tuple[str, ...]:
    """Return the names of those that are asked with one argument, if it has rows."""
    return f"{entity.lower()}_as_of", name_of_changes(entity.lower())


def entity_views(of: EntityTables, rows: Rows, at: datetime | None = None) -> Iterator[View]:
    """Yield the views in the order in which they are to be created, after `users_view` and, where there are labels,
    `label_views` and the `names_view` of each object to which a lookup points."""
    if current_state.LAYER in of.tables:
        yield _history(of, rows, at)
        yield _as_of(of)
        if of.changes is not None:
            create = create_changes_macro(of.view_name, of.tables, of.changes, rows)
            yield View(name_of_changes(of.view_name), create)
        yield _rows(of, rows) if at is None else _rows_at(of, at)
    for layer in _AS_THEY_ARE:
        if layer in of.tables:
            yield view(f"{of.view_name}_{layer}", rows(of.tables[layer]))


def users_view(user: ReadableTable | None, expression: str | None, rows: Rows) -> View:
    """`USERS`: each user's id and name, one row each; empty where the warehouse has none."""
    if user is None or expression is None:
        return view(USERS, "SELECT CAST(NULL AS VARCHAR) AS id, CAST(NULL AS VARCHAR) AS name WHERE false")
    return view(USERS, f'SELECT "Id" AS id, any_value({expression}) AS name FROM ({rows(user)}) GROUP BY "Id"')


def names_view(entity: str, rows_of_entity: ReadableTable, expression: str, rows: Rows) -> View:
    """Return the relation with the id and the name of each record of an object to which lookups point."""
    names = f'SELECT "Id" AS id, {expression} AS name FROM ({rows(rows_of_entity)})'
    return view(relation_of_names(entity), names)


def label_views(values: ReadableTable | None, types: ReadableTable | None, rows: Rows) -> tuple[View, View]:
    """`PICKLIST_LABELS` and `RECORD_TYPE_NAMES`, of the tables `picklist_values` and `record_types`."""
    of_values, of_types = (rows(each) if each is not None else None for each in (values, types))
    return view(PICKLIST_LABELS, picklist_labels(of_values)), view(RECORD_TYPE_NAMES, record_type_names(of_types))


def view(called: str, query: str) -> View:
    """Return a view of this name."""
    return View(called, f"CREATE OR REPLACE VIEW {name(called)} AS {query}")


def _beside(of: EntityTables) -> tuple[str, str]:
    """Return what is selected beside an entity's rows `v`, and what is joined for it."""
    beside = (joins(of.users, USERS), label_joins(of.entity, of.labels), lookup_joins(of.lookups))
    selected, joined = zip(*beside, strict=True)
    return "".join(selected), "".join(joined)


def _rows(of: EntityTables, rows: Rows) -> View:
    selected, joined = _beside(of)
    current, every = rows(of.tables[current_state.LAYER]), "v.*"
    if of.formulas is not None and of.formula_columns:
        selected += "".join(f", f.{name(each)}" for each in of.formula_columns)
        joined += f' LEFT JOIN ({rows(of.formulas)}) AS f ON f."Id" = v."Id"'
        read = f"f.{name(AS_OF)} IS NOT NULL"
        newer = [f"CASE WHEN {read} THEN f.{name(n)} ELSE v.{name(n)} END AS {name(n)}" for n in of.carried_formulas]
        every += f" REPLACE ({', '.join(newer)})" if newer else ""
    return view(of.view_name, f"SELECT {every}{selected} FROM ({current}) AS v{joined} WHERE NOT v._is_deleted")


def _rows_at(of: EntityTables, at: datetime) -> View:
    versions, valid = name(f"{of.view_name}_history"), _VALID_AT.format(moment=_literal(at))
    return view(of.view_name, f"SELECT * EXCLUDE (_valid_to, _superseded_at) FROM {versions} WHERE {valid}")


def _as_of(of: EntityTables) -> View:
    """Return the view as of a time, which without a zone is in the session's, which is UTC in `sfcdc sql`."""
    macro, versions = f"{of.view_name}_as_of", name(f"{of.view_name}_history")
    valid = _VALID_AT.format(moment="CAST(moment AS TIMESTAMPTZ)")
    create = f"CREATE OR REPLACE MACRO {name(macro)}(moment) AS TABLE SELECT * FROM {versions} WHERE {valid}"
    return View(macro, create)


def _history(of: EntityTables, rows: Rows, at: datetime | None) -> View:
    """Every version, `_valid_to` null for the current ones. A record of which only the Id is known has none."""
    newest = rows(of.tables[current_state.LAYER])
    columns = ", ".join(name(each) for each in of.schema(current_state.LAYER).names if each not in OF_THE_ROW)
    versions = (
        f"SELECT {columns}, {_IS_UNCERTAIN} AS _in_doubt, {_NO_END} FROM ({newest}) WHERE _change_type IS NOT NULL"
    )
    if history.LAYER in of.tables:
        past = rows(of.tables[history.LAYER])
        versions += f" UNION ALL BY NAME SELECT *, _certain_fields IS NOT NULL AS _in_doubt FROM ({past})"
    if at is not None:
        ended = f"CASE WHEN _valid_to <= {_literal(at)} THEN _valid_to END AS _valid_to"
        versions = f"SELECT * REPLACE ({ended}) FROM ({versions}) WHERE _valid_from <= {_literal(at)}"
    selected, joined = _beside(of)
    if of.formulas is not None and of.formula_columns:
        selected += "".join(f", f.{name(each)}" for each in of.formula_columns)
        joined += f" LEFT JOIN ({_reads(of, of.formulas, rows, at)}) AS f ON {_READ_IN_VERSION}"
    return view(f"{of.view_name}_history", f"SELECT v.*{selected} FROM ({versions}) AS v{joined}")


def _reads(of: EntityTables, formulas: ReadableTable, rows: Rows, at: datetime | None) -> str:
    """Return every reading of the formulas of each record, up to a time, and when the next one was made."""
    columns = ", ".join(name(each) for each in ("Id", *of.formula_columns))
    readings = f"SELECT {columns} FROM ({rows(formulas)})"
    if of.earlier_formulas is not None:
        known = {each.lower() for each in of.earlier_formulas.schema.names}
        kept = [each for each in ("Id", *of.formula_columns) if each.lower() in known]
        earlier = rows(of.earlier_formulas)
        readings += f" UNION ALL BY NAME SELECT {', '.join(name(each) for each in kept)} FROM ({earlier})"
    following = f'LEAD({name(AS_OF)}) OVER (PARTITION BY "Id" ORDER BY {name(AS_OF)}) AS _next_as_of'
    until = f" WHERE {name(AS_OF)} <= {_literal(at)}" if at is not None else ""
    return f"SELECT *, {following} FROM ({readings}){until}"


def _literal(moment: datetime) -> str:
    return f"TIMESTAMPTZ '{moment.isoformat()}'"
