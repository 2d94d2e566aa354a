"""A syntax tree and the org's objects to one SQLite query with bound parameters, and the meaning of its columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from sfcdc_assets.emulator.database import quoted
from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.soql.condition import ConditionCompiler, Parameter, is_filterable, is_sortable
from sfcdc_assets.emulator.soql.parser import parse_query
from sfcdc_assets.emulator.soql.refusal import no_such_column, refusal
from sfcdc_assets.emulator.soql.syntax import CountedField, FieldGroup, Name, Ordering, Query

_MAX_OFFSET = 2_000
_MAX_FIELD_GROUP_LIMIT = 200
_MAX_PARENT_LEVELS = 5


@dataclass(frozen=True)
class SelectedField:
    """A field of the result: its path, and where its values are in a row (a compound address has several)."""

    path: tuple[str, ...]
    field: FieldDefinition
    first: int
    components: tuple[FieldDefinition, ...] = ()


@dataclass(frozen=True)
class ParentRecord:
    """A parent record of the result (`Owner` of `Owner.Name`): its object, and where its id is in a row."""

    path: tuple[str, ...]
    definition: ObjectDefinition
    id_column: int


@dataclass(frozen=True)
class CompiledQuery:
    """An SQL query and how to read its rows. Column 0 is the record's Id, except for counts."""

    query: Query
    definition: ObjectDefinition
    sql: str
    parameters: tuple[Parameter, ...]
    selected: tuple[SelectedField, ...] = ()
    parents: tuple[ParentRecord, ...] = ()
    counts: tuple[str, ...] = ()
    """Names of the counts of an aggregate query, in column order; `SELECT COUNT()` has the one name `count`."""


def compile_query(
    text: str,
    definitions: Mapping[str, ObjectDefinition],
    *,
    now: int,
    include_deleted: bool = False,
    hidden: Collection[str] = (),
    shared: Callable[[ObjectDefinition], str | None] | None = None,
) -> CompiledQuery:
    """Parse, check and compile. `now` is epoch ms; `include_deleted` is queryAll; `hidden` objects do not exist;
    `shared` gives what rows `r` of an object must fulfil to be seen, as SQL, or None.

    Raises QueryError: MALFORMED_QUERY, INVALID_TYPE, INVALID_FIELD, INVALID_QUERY_FILTER_OPERATOR,
    NUMBER_OUTSIDE_VALID_RANGE.
    """
    query = parse_query(text)
    visible = {name: definition for name, definition in definitions.items() if name not in hidden}
    by_lower_name = {name.lower(): definition for name, definition in visible.items()}
    definition = by_lower_name.get(query.entity.text.lower())
    if definition is None:
        raise refusal(
            "INVALID_TYPE",
            text,
            query.entity.position,
            f"sObject type '{query.entity.text}' is not supported. If you are attempting to use a custom object, "
            f"be sure to "
            "append the '__c' after the entity name. Please reference your WSDL or the describe call for the "
            "appropriate names.",
        )
    seen = shared(definition) if shared else None
    return _Compilation(query, definition, visible, now, include_deleted or query.all_rows, seen).compile()


@dataclass
class _Compilation:
    query: Query
    definition: ObjectDefinition
    definitions: Mapping[str, ObjectDefinition]
    now: int
    include_deleted: bool
    seen: str | None
    columns: list[str] = field(default_factory=list)
    parents: dict[tuple[str, ...], ParentRecord] = field(default_factory=dict)

    def compile(self) -> CompiledQuery:
        counted = [item for item in self.query.items if isinstance(item, CountedField)]
        rows, parameters = self._rows()
        if self.query.is_count:
            return self._result(f"SELECT COUNT(*) FROM (SELECT 1 {rows})", parameters, counts=("count",))
        if counted:
            return self._aggregate(counted, rows, parameters)
        self.columns.append('r."Id"')
        names = self._selected_names()
        selected = tuple(self._select(name) for name in names)
        paths = [item.path for item in selected]
        for name, path in zip(names, paths, strict=True):
            if paths.count(path) > 1:
                raise self._refuse("INVALID_FIELD", name, f"duplicate field selected: {'.'.join(path)}")
        sql = f"SELECT {', '.join(self.columns)} {rows}"
        return self._result(sql, parameters, selected=selected)

    def _result(
        self,
        sql: str,
        parameters: tuple[Parameter, ...],
        *,
        selected: tuple[SelectedField, ...] = (),
        counts: tuple[str, ...] = (),
    ) -> CompiledQuery:
        parents = tuple(self.parents.values())
        return CompiledQuery(self.query, self.definition, sql, parameters, selected, parents, counts)

    def _aggregate(self, counted: list[CountedField], rows: str, parameters: tuple[Parameter, ...]) -> CompiledQuery:
        if len(counted) != len(self.query.items):
            raise QueryError("MALFORMED_QUERY", "Field must be grouped or aggregated")
        if self.query.order_by:
            raise self._refuse(
                "MALFORMED_QUERY", self.query.order_by[0].field, "Ordered field must be grouped or aggregated"
            )
        columns = [self._column(item.field) for item in counted]
        for item, (_, field_) in zip(counted, columns, strict=True):
            if not is_filterable(field_):
                raise self._refuse(
                    "INVALID_FIELD", item.field, f"field {field_.name} does not support aggregate operator COUNT"
                )
        inner = ", ".join(f"{expression} AS c{n}" for n, expression in enumerate(column for column, _ in columns))
        outer = ", ".join(f"COUNT(c{n})" for n in range(len(counted)))
        names = tuple(item.alias or f"expr{n}" for n, item in enumerate(counted))
        return self._result(f"SELECT {outer} FROM (SELECT {inner} {rows})", parameters, counts=names)

    def _rows(self) -> tuple[str, tuple[Parameter, ...]]:
        """FROM and all that follows."""
        conditions = [] if self.include_deleted else ['r."IsDeleted" = 0']
        conditions += [self.seen] if self.seen else []
        parameters: tuple[Parameter, ...] = ()
        if self.query.where is not None:
            compiler = ConditionCompiler(self.query.text, self._column, self.now)
            where, parameters = compiler.compile(self.query.where)
            conditions.append(where)
        if self.query.offset > _MAX_OFFSET:
            raise QueryError("NUMBER_OUTSIDE_VALID_RANGE", f"Maximum SOQL offset allowed is {_MAX_OFFSET}")
        sql = f"FROM {quoted(self.definition.name)} AS r"
        if conditions:
            sql += f" WHERE {' AND '.join(conditions)}"
        if self.query.order_by:
            # Salesforce leaves the order of equal rows open; by creation, pages are the same each time.
            sql += f" ORDER BY {', '.join(self._ordering(item) for item in self.query.order_by)}, r.rowid"
        elif not self.query.is_count:
            sql += " ORDER BY r.rowid"
        if self.query.limit is not None or self.query.offset:
            sql += f" LIMIT {-1 if self.query.limit is None else self.query.limit} OFFSET {self.query.offset}"
        return sql, parameters

    def _ordering(self, ordering: Ordering) -> str:
        column, field_ = self._column(ordering.field)
        if not is_sortable(field_):
            raise self._refuse(
                "INVALID_FIELD", ordering.field, f"field '{field_.name}' can not be sorted in a query call"
            )
        folded = column if field_.type in {"id", "reference"} else f"sf_fold({column})"
        return f"{folded} {'DESC' if ordering.descending else 'ASC'} NULLS {'LAST' if ordering.nulls_last else 'FIRST'}"

    def _selected_names(self) -> list[Name]:
        names: list[Name] = []
        for item in self.query.items:
            if isinstance(item, Name):
                names.append(item)
            elif isinstance(item, FieldGroup):
                names.extend(self._group(item.group))
        return names

    def _group(self, group: Name) -> list[Name]:
        kind = group.text.upper()
        if kind not in {"ALL", "STANDARD", "CUSTOM"}:
            raise self._refuse("MALFORMED_QUERY", group, f"unexpected token: '{group.text}'")
        if kind != "STANDARD" and (self.query.limit is None or self.query.limit > _MAX_FIELD_GROUP_LIMIT):
            raise self._refuse(
                "MALFORMED_QUERY",
                group,
                f"The SOQL FIELDS function must have a LIMIT of at most {_MAX_FIELD_GROUP_LIMIT}",
            )
        return [
            Name(item.name, group.position)
            for item in self.definition.fields
            if kind == "ALL" or item.custom == (kind == "CUSTOM")
        ]

    def _select(self, name: Name) -> SelectedField:
        path = self._path(name)
        expression, field_ = self._expression(name, path, self.definition)
        relationships = self._parents(name, path[:-1])
        first = len(self.columns)
        components: tuple[FieldDefinition, ...] = ()
        if field_.type in {"address", "location"}:
            if relationships:
                raise self._refuse("INVALID_FIELD", name, f"'{name.text}' can not be selected through a relationship")
            components = self.definition.components[field_.name]
            self.columns.extend(f"r.{quoted(part.name)}" for part in components)
        else:
            self.columns.append(expression)
        return SelectedField((*relationships, field_.name), field_, first, components)

    def _parents(self, name: Name, path: tuple[str, ...]) -> tuple[str, ...]:
        """Note the parent records on the way to a field; returns the relationship names as they are defined."""
        definition = self.definition
        known: tuple[str, ...] = ()
        for depth, step in enumerate(path):
            reference, definition = self._relationship(name, step, definition)
            known = (*known, reference.relationship_name or step)
            if known not in self.parents:
                self.parents[known] = ParentRecord(known, definition, len(self.columns))
                self.columns.append(self._expression(name, (*path[: depth + 1], "Id"), self.definition)[0])
        return known

    def _column(self, name: Name) -> tuple[str, FieldDefinition]:
        """For WHERE, ORDER BY and COUNT: the SQL expression and definition of a field."""
        return self._expression(name, self._path(name), self.definition)

    def _path(self, name: Name) -> tuple[str, ...]:
        path = tuple(name.text.split("."))
        if len(path) > 1 and path[0].lower() == self.query.entity.text.lower():
            path = path[1:]
        if len(path) > _MAX_PARENT_LEVELS + 1:
            raise self._refuse("MALFORMED_QUERY", name, f"a field path has at most {_MAX_PARENT_LEVELS} relationships")
        return path

    def _expression(
        self, name: Name, path: tuple[str, ...], definition: ObjectDefinition, row: str = "r"
    ) -> tuple[str, FieldDefinition]:
        if len(path) == 1:
            field_ = definition.field(path[0])
            if field_ is None:
                raise no_such_column(self.query.text, name.position, path[0], definition.name)
            return f"{row}.{quoted(field_.name)}", field_
        reference, parent = self._relationship(name, path[0], definition)
        inner, field_ = self._expression(name, path[1:], parent, f"{row}p")
        return (
            f'(SELECT {inner} FROM {quoted(parent.name)} AS {row}p WHERE {row}p."Id" = {row}.{quoted(reference.name)})',
            field_,
        )

    def _relationship(
        self, name: Name, step: str, definition: ObjectDefinition
    ) -> tuple[FieldDefinition, ObjectDefinition]:
        for reference in definition.fields:
            if (reference.relationship_name or "").lower() == step.lower() and len(reference.reference_to) == 1:
                parent = self.definitions.get(reference.reference_to[0])
                if parent is not None:
                    return reference, parent
        raise self._refuse(
            "INVALID_FIELD",
            name,
            f"Didn't understand relationship '{step}' in field path. If you are attempting to use a custom "
            f"relationship, be sure "
            "to append the '__r' after the custom relationship name. Please reference your WSDL or the describe "
            "call for the "
            "appropriate names.",
        )

    def _refuse(self, error_code: str, name: Name, reason: str) -> QueryError:
        return refusal(error_code, self.query.text, name.position, reason)
