"""A DuckDB connection in which the tables of one consistent cut have their views.

To open a table at a version takes milliseconds, and a warehouse may have hundreds. So views are made for the names that
a statement has, and DuckDB says from the names alone which tables there are, and what a misspelt one may have meant.
Where it misses one that is there, all are made and the statement is tried again. What is asked is never answered
differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property, partial
from types import TracebackType

import duckdb

from sfcdc_assets.lake.delta.readable_table import readable_now
from sfcdc_assets.lake.errors import TableDamaged, UnreadableTable
from sfcdc_assets.lake.tables import push_topic_state, quarantine, raw_events
from sfcdc_assets.lake.tables.audits import NAME as AUDITS
from sfcdc_assets.lake.tables.channel_members import NAME as CHANNEL_MEMBERS
from sfcdc_assets.lake.tables.consistent_cuts import NAME as CONSISTENT_CUTS
from sfcdc_assets.lake.tables.consistent_cuts import Cut, Lagging
from sfcdc_assets.lake.tables.damage import LAYERS
from sfcdc_assets.lake.tables.event_table import event_table_names
from sfcdc_assets.lake.tables.lost_checkpoints import NAME as LOST_CHECKPOINTS
from sfcdc_assets.lake.tables.organization import NAME as ORGANIZATION
from sfcdc_assets.lake.tables.schemas import NAME as SCHEMAS
from sfcdc_assets.salesforce.object_shape import PICKLIST_VALUES, RECORD_TYPES, SHAPE_TABLES
from sfcdc_assets.sql.changes_since import TOKENS, tokens_query
from sfcdc_assets.sql.entity_views import (
    USERS,
    EntityTables,
    View,
    entity_views,
    label_views,
    macros_of_entity,
    names_of_entity,
    names_view,
    users_view,
    view,
)
from sfcdc_assets.sql.labels import PICKLIST_LABELS, RECORD_TYPE_NAMES
from sfcdc_assets.sql.lookup_names import relation_of_names
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts
from sfcdc_assets.sql.text import Location, Rows, name, relation, value
from sfcdc_assets.sql.users import USER, name_of_user
from sfcdc_assets.sql.warehouse_files import WarehouseFiles, damage_named_in, location

CUT, LAGGING, AS_OF = "sfcdc_cut", "sfcdc_lagging", "sfcdc_as_of"
OF_EVENTS = (raw_events.NAME, quarantine.NAME)
"""Tables of which the rows up to the cut are shown."""
OF_THE_WAREHOUSE = (
    *OF_EVENTS,
    CONSISTENT_CUTS,
    LOST_CHECKPOINTS,
    SCHEMAS,
    *(each.name for each in SHAPE_TABLES),
    AUDITS,
    CHANNEL_MEMBERS,
    ORGANIZATION,
)
"""Tables that no cut names."""
_SHOW_TABLES = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)
_OF_THE_CATALOGUE = frozenset({"show", "information_schema", "pragma", "sqlite_master", "pg_catalog"})


class AskedTables:
    """Views over the tables of cuts; a context manager. `at`: the time that they are to show."""

    def __init__(
        self,
        tables: TablesOfCuts,
        *,
        at: datetime | None = None,
        connection: duckdb.DuckDBPyConnection | None = None,
        find: Location | None = None,
    ) -> None:
        self.tables = tables
        self._at = at
        self._rows: Rows = partial(relation, location=find or partial(location, tables.warehouse))
        self._made: set[str] = set()
        self.connection = connection or duckdb.connect(":memory:")
        self.connection.execute("SET TimeZone = 'UTC'")
        if find is None and not tables.warehouse.is_local:
            self.connection.register_filesystem(WarehouseFiles(tables.warehouse))

    def __enter__(self) -> AskedTables:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.connection.close()
        if "_names_alone" in self.__dict__:
            self._names_alone.close()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What can be asked for. A table of the warehouse, or of a channel, that is damaged says so when it is asked
        for itself, and keeps nobody from the others."""
        of_entities = (each for entity in self.tables.shown for each in self._names_of(entity))
        there = (each for each in OF_THE_WAREHOUSE if self._is_there(each))
        of_channels = (each for each, table in self._of_channels.items() if self._is_there(table))
        return (*of_entities, *there, *of_channels, CUT, LAGGING, AS_OF, TOKENS)

    def _is_there(self, table: str) -> bool:
        try:
            return readable_now(self.tables.warehouse, table) is not None
        except (TableDamaged, UnreadableTable):
            return False

    def asked_for(self, statement: str) -> tuple[str, ...]:
        """Return the entities whose views a statement names."""
        words = _words(statement)
        return tuple(each for each in self.tables.entities if not words.isdisjoint(self._names_of(each)))

    def lagging_in(self, statement: str) -> tuple[str, ...]:
        """Return the entities that lag and are named in a statement; by their rows' name if they have no tables yet."""
        words, asked = _words(statement), self.asked_for(statement)
        return tuple(each for each in self.tables.lagging if each in asked or each.lower() in words)

    def not_yet_in(self, statement: str) -> tuple[str, ...]:
        """Return the entities of which a view would be there, were there a cut of them, and that a statement names."""
        words = _words(statement)
        return tuple(each for each in self.tables.not_yet if not words.isdisjoint(names_of_entity(each, LAYERS)))

    def run(self, statement: duckdb.Statement) -> duckdb.DuckDBPyConnection:
        """Run it; the connection has its result. Raises `duckdb.Error`, `CutGone`, `TableDamaged`; within `reading`, of
        a file that cannot be read only the last two."""
        if _SHOW_TABLES.fullmatch(statement.query):
            return self._names_alone.execute(statement)
        words = _words(statement.query)
        if not words.isdisjoint(_OF_THE_CATALOGUE) or any(word.startswith("duckdb_") for word in words):
            self.make_all()
        self._make(words)
        try:
            return self.connection.execute(statement)
        except duckdb.CatalogException:
            if self._made.issuperset(self.names):
                raise
        if words.isdisjoint(self._unnamed):
            with suppress(duckdb.BinderException):  # no name has the columns of its table here
                self._names_alone.execute(statement)
        self.make_all()
        return self.connection.execute(statement)

    @cached_property
    def _names_alone(self) -> duckdb.DuckDBPyConnection:
        """A connection that has what can be asked for by name, with nothing behind it, and can read nothing."""
        found = duckdb.connect(":memory:", config={"enable_external_access": "false", "lock_configuration": "true"})
        macros = {each for entity in self.tables.shown for each in macros_of_entity(entity)}
        for each in self.names:
            kind = f"MACRO {name(each)}(asked) AS TABLE" if each in macros else f"VIEW {name(each)} AS"
            found.execute(f"CREATE {kind} SELECT 1")
        return found

    @property
    def _unnamed(self) -> set[str]:
        """Views that others stand on."""
        return {USERS, PICKLIST_LABELS, RECORD_TYPE_NAMES, *map(relation_of_names, self.tables.entities)}

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise what DuckDB cannot read of the warehouse as `CutGone` or `TableDamaged`, also while rows are fetched:
        it names a file, and neither the table nor the way out."""
        try:
            yield
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            damage = damage_named_in(error, self.tables.warehouse)
            if damage is None:
                raise
            entity = damage.table.partition("/")[2]
            if entity not in self.tables.entities:
                raise damage from error
            with self.tables.cut_of(entity).reading():
                raise damage from error

    def make_all(self) -> None:
        """Create every view that is not there yet. Raises `CutGone` and `TableDamaged`."""
        with self.reading():
            self._make(frozenset(self.names))

    def _make(self, wanted: frozenset[str]) -> None:
        of_entities = {each: self._names_of(each) for each in self.tables.shown}
        entities = [
            entity
            for entity, names in of_entities.items()
            if not wanted.isdisjoint(names) and not self._made.issuperset(names)
        ]
        if entities and USERS not in self._made:
            self._create([self._users(), *(self._labels() if self.tables.labels else ())])
        for entity in entities:
            of = self.tables.of(entity)
            self._create(self._names(of))
            self._create(entity_views(of, self._rows, self._at))
        for table in OF_THE_WAREHOUSE:
            if table in wanted and table not in self._made:
                self._create(self._of_the_warehouse(table))
        for called, table in self._of_channels.items():
            if called in wanted and called not in self._made:
                self._create(self._of_a_channel(called, table))
        if CUT in wanted and CUT not in self._made:
            self._create([view(CUT, _rows_of(self.tables.cuts))])
        if TOKENS in wanted and TOKENS not in self._made:
            self._create([view(TOKENS, tokens_query(self.tables.tokens()))])
        if LAGGING in wanted and LAGGING not in self._made:
            self._create([view(LAGGING, _lagging(self.tables.lagging.values()))])
        if AS_OF in wanted and AS_OF not in self._made:
            self._create([view(AS_OF, _as_of({entity: self.tables.as_of(entity) for entity in self.tables.shown}))])

    def _create(self, views: Iterable[View]) -> None:
        for each in views:
            self.connection.execute(each.create)
            self._made.add(each.name)

    def _users(self) -> View:
        user = self.tables.rows_of(USER) if USER in self.tables.shown else None
        return users_view(user, name_of_user(user.schema) if user else None, self._rows)

    def _names(self, of: EntityTables) -> Iterator[View]:
        for entity in dict.fromkeys(each for lookup in of.lookups.values() for each in lookup.objects):
            found = self.tables.named(entity)
            if found is not None and relation_of_names(entity) not in self._made:
                yield names_view(entity, *found, self._rows)

    def _labels(self) -> Iterable[View]:
        values, types = (readable_now(self.tables.warehouse, each.name) for each in (PICKLIST_VALUES, RECORD_TYPES))
        return label_views(values, types, self._rows)

    def _of_the_warehouse(self, table: str) -> list[View]:
        condition = _up_to(self.tables.cuts) if table in OF_EVENTS else None
        if table == raw_events.NAME and self._at is not None:
            condition = f"({condition}) and commit_timestamp <= TIMESTAMPTZ {value(self._at.isoformat())}"
        found = readable_now(self.tables.warehouse, table, condition)
        return [view(table, self._rows(found))] if found is not None else []

    @cached_property
    def _of_channels(self) -> dict[str, str]:
        """View -> table of a channel that carries no change events: `platform_events_order__e`. What is known of the
        records of a PushTopic is known now: at another time there is no such view."""
        warehouse = self.tables.warehouse
        states = map(push_topic_state.name_of, warehouse.entities(push_topic_state.LAYER) if self._at is None else ())
        return {re.sub(r"\W", "_", table.lower()): table for table in (*event_table_names(warehouse), *states)}

    def _of_a_channel(self, called: str, table: str) -> list[View]:
        """No cut names it: its rows stand for themselves."""
        condition = None if self._at is None else f"received_at <= TIMESTAMPTZ {value(self._at.isoformat())}"
        found = readable_now(self.tables.warehouse, table, condition)
        return [view(called, self._rows(found))] if found is not None else []

    def _names_of(self, entity: str) -> tuple[str, ...]:
        return names_of_entity(entity, self.tables.layers(entity))


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def _up_to(cuts: Sequence[Cut]) -> str:
    return " or ".join(f"(channel = {value(cut.channel)} and position <= {cut.position})" for cut in cuts) or "false"


def _time(moment: datetime | None) -> str:
    return f"CAST({value(moment.isoformat() if moment else None)} AS TIMESTAMPTZ)"


def _lagging(entities: Iterable[Lagging]) -> str:
    """Return a row for each, and none where none lags."""
    rows = (
        f"SELECT {value(each.entity)} AS entity, "
        f"CAST({'NULL' if each.position is None else each.position} AS BIGINT) AS position, "
        f"{_time(each.as_of)} AS as_of, {_time(each.since)} AS since, {value(each.reason)} AS reason"
        for each in entities
    )
    none = (
        "SELECT NULL::VARCHAR AS entity, NULL::BIGINT AS position, NULL::TIMESTAMPTZ AS as_of, "
        "NULL::TIMESTAMPTZ AS since, NULL::VARCHAR AS reason WHERE false"
    )
    return " UNION ALL ".join(rows) or none


def _as_of(entities: Mapping[str, datetime | None]) -> str:
    """Return a row for each."""
    rows = (f"SELECT {value(entity)} AS entity, {_time(as_of)} AS as_of" for entity, as_of in entities.items())
    return " UNION ALL ".join(rows) or "SELECT NULL::VARCHAR AS entity, NULL::TIMESTAMPTZ AS as_of WHERE false"


def _rows_of(cuts: Sequence[Cut]) -> str:
    rows = (
        f"SELECT {value(cut.channel)} AS channel, CAST({cut.position} AS BIGINT) AS position, "
        f"{_time(cut.commit_timestamp)} AS commit_timestamp, {_time(cut.applied_at)} AS applied_at"
        for cut in cuts
    )
    return " UNION ALL ".join(rows)
