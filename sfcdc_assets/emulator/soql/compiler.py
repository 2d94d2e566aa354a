"""A syntax tree and the org's objects to one SQLite query with bound parameters, and the meaning of its columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sfcdc_assets.emulator.database import quoted
from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.relationships import child_relationship
from sfcdc_assets.emulator.soql.aggregation import Aggregation
from sfcdc_assets.emulator.soql.condition import ConditionCompiler, Parameter, is_sortable
from sfcdc_assets.emulator.soql.parser import parse_query
from sfcdc_assets.emulator.soql.refusal import no_such_column, refusal
from sfcdc_assets.emulator.soql.syntax import (
    Aggregate,
    AliasedField,
    ChildQuery,
    FieldGroup,
    Membership,
    Name,
    Ordering,
    Query,
    TypeOf,
)

_MAX_OFFSET = 2_000
_MAX_FIELD_GROUP_LIMIT = 200
_MAX_PARENT_LEVELS = 5
_FIELDS_OF_NAME = frozenset(
    {"alias", "email", "firstname", "id", "isactive", "lastname", "name", "phone", "profileid", "title", "username"}
)
"""What ELSE of a TYPEOF may name: fields of the object Name, in lower case (https://developer.salesforce.com/docs/
atlas.en-us.object_reference.meta/object_reference/sforce_api_objects_name.htm)."""


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
class ParentByType:
    """A parent that may be of several objects: where its id is in a row, and the fields to show of each object."""

    name: str
    id_column: int
    fields: Mapping[str, tuple[SelectedField, ...]]
    """By object; one that is not here is not shown."""
    definitions: tuple[ObjectDefinition, ...]
    """The objects it may be of."""


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
    """Names of the columns of an aggregate query, in order; `SELECT COUNT()` has the one name `count`."""
    count_fields: tuple[FieldDefinition | None, ...] = ()
    """Whose form the values of those columns have; None for plain numbers."""
    children: tuple[ChildRows, ...] = ()
    by_type: tuple[ParentByType, ...] = ()
    others: tuple[ObjectDefinition, ...] = ()
    """Further objects that the query reads: those of inner queries."""


@dataclass(frozen=True)
class ChildRows:
    """An inner query of a record's children: `compiled` has one more parameter, the parents' ids as a JSON list, and
    one more column, the parent's id. `limit` and `offset` count for each parent."""

    name: str
    compiled: CompiledQuery
    limit: int | None
    offset: int


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
    definition = _definition(by_lower_name, text, query.entity)
    return _Compilation(query, definition, visible, now, include_deleted or query.all_rows, shared).compile()


def _definition(by_lower_name: Mapping[str, ObjectDefinition], text: str, entity: Name) -> ObjectDefinition:
    definition = by_lower_name.get(entity.text.lower())
    if definition is None:
        raise refusal(
            "INVALID_TYPE",
            text,
            entity.position,
            f"sObject type '{entity.text}' is not supported. If you are attempting to use a custom object, "
            f"be sure to "
            "append the '__c' after the entity name. Please reference your WSDL or the describe call for the "
            "appropriate names.",
        )
    return definition


@dataclass
class _Compilation:
    query: Query
    definition: ObjectDefinition
    definitions: Mapping[str, ObjectDefinition]
    now: int
    include_deleted: bool
    shared: Callable[[ObjectDefinition], str | None] | None
    columns: list[str] = field(default_factory=list)
    parents: dict[tuple[str, ...], ParentRecord] = field(default_factory=dict)
    others: list[ObjectDefinition] = field(default_factory=list)

    def compile(self, parent_field: str | None = None) -> CompiledQuery:
        """The query; with `parent_field`, that of the children of some parents."""
        if self.query.is_aggregate:
            return self._aggregate()
        if self.query.having is not None:
            raise QueryError("MALFORMED_QUERY", "HAVING needs GROUP BY")
        rows, parameters = self._rows(parent_field)
        if self.query.is_count:
            return self._result(f"SELECT COUNT(*) FROM (SELECT 1 {rows})", parameters, counts=("count",))
        self.columns.append('r."Id"')
        items = self._selected_items()
        selected = tuple(self._select(name, label) for name, label in items)
        paths = [item.path for item in selected]
        for (name, _), path in zip(items, paths, strict=True):
            if paths.count(path) > 1:
                raise self._refuse("INVALID_FIELD", name, f"duplicate field selected: {'.'.join(path)}")
        by_type = tuple(self._by_type(item) for item in self.query.items if isinstance(item, TypeOf))
        children = tuple(self._children(item) for item in self.query.items if isinstance(item, ChildQuery))
        if parent_field is not None:
            if children:
                raise self._refuse("MALFORMED_QUERY", self.query.entity, "this org nests queries of children one deep")
            self.columns.append(f"r.{quoted(parent_field)}")
        sql = f"SELECT {', '.join(self.columns)} {rows}"
        return self._result(sql, parameters, selected=selected, children=children, by_type=by_type)

    def _children(self, item: ChildQuery) -> ChildRows:
        query = item.query
        relationship = child_relationship(self.definition, self.definitions, query.entity.text)
        if relationship is None or relationship.name is None:
            raise self._refuse(
                "INVALID_TYPE",
                query.entity,
                f"Didn't understand relationship '{query.entity.text}' in FROM part of query call. If you are "
                "attempting to use a custom relationship, be sure to append the '__r' after the custom relationship "
                "name. Please reference your WSDL or the describe call for the appropriate names.",
            )
        if query.is_aggregate or query.is_count:
            raise self._refuse("MALFORMED_QUERY", query.entity, "Aggregates are not allowed in a query of children")
        self.others.append(relationship.child)
        inner = self._inner(query, relationship.child)
        return ChildRows(relationship.name, inner.compile(relationship.field.name), query.limit, query.offset)

    def _inner(self, query: Query, definition: ObjectDefinition) -> _Compilation:
        return _Compilation(
            query, definition, self.definitions, self.now, self.include_deleted, self.shared, others=self.others
        )

    def _nested(self, membership: Membership) -> tuple[str, tuple[Parameter, ...]]:
        """The inner query of a semi-join."""
        query = membership.query
        (only, *more) = query.items or (None,)
        if more or not isinstance(only, Name) or query.order_by or query.limit is not None or query.offset:
            raise self._refuse(
                "MALFORMED_QUERY", query.entity, "semi join sub-selects can only query id fields, in no order or limit"
            )
        by_lower_name = {name.lower(): definition for name, definition in self.definitions.items()}
        definition = _definition(by_lower_name, self.query.text, query.entity)
        self.others.append(definition)
        inner = self._inner(query, definition)
        column, field_ = inner._column(only)
        if field_.type not in {"id", "reference"}:
            raise self._refuse(
                "INVALID_FIELD", only, f"The inner select field '{field_.name}' of a semi join must be an ID"
            )
        rows, parameters = inner._from_where()
        return f"SELECT {column} {rows}", parameters

    def _result(
        self,
        sql: str,
        parameters: tuple[Parameter, ...],
        *,
        selected: tuple[SelectedField, ...] = (),
        counts: tuple[str, ...] = (),
        count_fields: tuple[FieldDefinition | None, ...] = (None,),
        children: tuple[ChildRows, ...] = (),
        by_type: tuple[ParentByType, ...] = (),
    ) -> CompiledQuery:
        return CompiledQuery(
            self.query,
            self.definition,
            sql,
            parameters,
            selected,
            tuple(self.parents.values()),
            counts,
            count_fields,
            children,
            by_type,
            tuple(self.others),
        )

    def _aggregate(self) -> CompiledQuery:
        if not self.query.group_by and (self.query.limit is not None or self.query.offset):
            message = "Non-grouped query that uses overall aggregate functions cannot also use LIMIT"
            raise QueryError("MALFORMED_QUERY", message)
        for item in self.query.items:
            if isinstance(item, TypeOf):
                raise self._refuse("MALFORMED_QUERY", item.relationship, "TYPEOF is not allowed in aggregate queries")
        self._check_offset()
        rows, parameters = self._from_where()
        aggregation = Aggregation(self.query, self._column)
        columns = aggregation.columns()
        having = ""
        more: tuple[Parameter, ...] = ()
        if self.query.having is not None:
            compiler = ConditionCompiler(self.query.text, aggregation.resolve, self.now, self._nested)
            condition, more = compiler.compile(self.query.having)
            having = f" HAVING {condition}"
        order = ", ".join(self._direction(aggregation.resolve(item.field)[0], item) for item in self.query.order_by)
        sql = (
            f"SELECT {', '.join(column.expression for column in columns)} FROM (SELECT {aggregation.inner} {rows})"
            f"{aggregation.grouping}{having}{' ORDER BY ' if order else ''}{order}{self._limit()}"
        )
        names, fields = tuple(each.name for each in columns), tuple(each.field for each in columns)
        return self._result(sql, (*parameters, *more), counts=names, count_fields=fields)

    def _rows(self, parent_field: str | None = None) -> tuple[str, tuple[Parameter, ...]]:
        """FROM and all that follows."""
        sql, parameters = self._from_where(parent_field)
        self._check_offset()
        if self.query.order_by:
            # Salesforce leaves the order of equal rows open; by creation, pages are the same each time.
            sql += f" ORDER BY {', '.join(self._ordering(item) for item in self.query.order_by)}, r.rowid"
        elif not self.query.is_count:
            sql += " ORDER BY r.rowid"
        return (sql if parent_field is not None else sql + self._limit()), parameters

    def _from_where(self, parent_field: str | None = None) -> tuple[str, tuple[Parameter, ...]]:
        conditions = [] if self.include_deleted else ['r."IsDeleted" = 0', *_not_archived(self.definition)]
        seen = self.shared(self.definition) if self.shared else None
        conditions += [seen] if seen else []
        parameters: tuple[Parameter, ...] = ()
        if self.query.where is not None:
            compiler = ConditionCompiler(self.query.text, self._filtered, self.now, self._nested)
            where, parameters = compiler.compile(self.query.where)
            conditions.append(where)
        if parent_field is not None:
            conditions.append(f"r.{quoted(parent_field)} IN (SELECT value FROM json_each(?))")
        sql = f"FROM {quoted(self.definition.name)} AS r"
        return sql + (f" WHERE {' AND '.join(conditions)}" if conditions else ""), parameters

    def _limit(self) -> str:
        if self.query.limit is None and not self.query.offset:
            return ""
        return f" LIMIT {-1 if self.query.limit is None else self.query.limit} OFFSET {self.query.offset}"

    def _check_offset(self) -> None:
        if self.query.offset > _MAX_OFFSET:
            raise QueryError("NUMBER_OUTSIDE_VALID_RANGE", f"Maximum SOQL offset allowed is {_MAX_OFFSET}")

    def _ordering(self, ordering: Ordering) -> str:
        column, field_ = self._filtered(ordering.field)
        if not is_sortable(field_) and isinstance(ordering.field, Name):
            raise self._refuse(
                "INVALID_FIELD", ordering.field, f"field '{field_.name}' can not be sorted in a query call"
            )
        return self._direction(column if field_.type in {"id", "reference"} else f"sf_fold({column})", ordering)

    def _direction(self, expression: str, ordering: Ordering) -> str:
        direction, nulls = ("DESC" if ordering.descending else "ASC"), ("LAST" if ordering.nulls_last else "FIRST")
        return f"{expression} {direction} NULLS {nulls}"

    def _filtered(self, operand: Name | Aggregate) -> tuple[str, FieldDefinition]:
        """For WHERE and ORDER BY, which know no aggregates where nothing is grouped."""
        if isinstance(operand, Aggregate):
            raise self._refuse("MALFORMED_QUERY", operand.field, f"unexpected token: '{operand.function}'")
        return self._column(operand)

    def _selected_items(self) -> list[tuple[Name, str | None]]:
        """Each selected field, and the name it has in the result if that is another."""
        items: list[tuple[Name, str | None]] = []
        for item in self.query.items:
            if isinstance(item, Name):
                items.append((item, None))
            elif isinstance(item, AliasedField):
                if not item.is_label:
                    raise self._refuse("MALFORMED_QUERY", item.field, "only aggregate expressions use field aliasing")
                items.append((item.field, item.alias if item.alias != item.field.text else None))
            elif isinstance(item, FieldGroup):
                items.extend((name, None) for name in self._group(item.group))
        return items

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

    def _select(self, name: Name, label: str | None = None) -> SelectedField:
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
        return SelectedField((*relationships, label or field_.name), field_, first, components)

    def _by_type(self, item: TypeOf) -> ParentByType:
        name = item.relationship
        reference = next(
            (
                each
                for each in self.definition.fields
                if (each.relationship_name or "").lower() == name.text.lower() and len(each.reference_to) > 1
            ),
            None,
        )
        if reference is None:
            reason = f"TYPEOF needs a polymorphic relationship, which {name.text} of {self.definition.name} is not"
            raise self._refuse("INVALID_FIELD", name, reason)
        known = [self.definitions[each] for each in reference.reference_to if each in self.definitions]
        id_column = len(self.columns)
        self.columns.append(f"r.{quoted(reference.name)}")
        fields: dict[str, tuple[SelectedField, ...]] = {}
        for branch in item.branches:
            wanted = branch.entity.text.lower() if branch.entity is not None else None
            chosen = [each for each in known if each.name.lower() == wanted or (not wanted and each.name not in fields)]
            if branch.entity is not None and not chosen:
                reason = f"{branch.entity.text} is not an object that {name.text} may refer to"
                raise self._refuse("INVALID_TYPE", branch.entity, reason)
            self.others.extend(chosen)
            for parent in chosen:
                names = branch.fields if wanted else self._names_of_any(branch.fields, parent)
                fields[parent.name] = tuple(self._of_parent(each, parent, reference) for each in names)
        return ParentByType(reference.relationship_name or name.text, id_column, fields, tuple(known))

    def _names_of_any(self, names: Sequence[Name], parent: ObjectDefinition) -> list[Name]:
        """The fields of ELSE that an object has: they are those of the object Name, of which each shows what it has."""
        for name in names:
            if name.text.lower() not in _FIELDS_OF_NAME:
                raise no_such_column(self.query.text, name.position, name.text, "Name")
        return [name for name in names if parent.field(name.text) is not None]

    def _of_parent(self, name: Name, parent: ObjectDefinition, reference: FieldDefinition) -> SelectedField:
        inner, field_ = self._expression(name, (name.text,), parent, "rp")
        if field_.type in {"address", "location"}:
            raise self._refuse("INVALID_FIELD", name, f"'{name.text}' can not be selected through a relationship")
        self.columns.append(
            f'(SELECT {inner} FROM {quoted(parent.name)} AS rp WHERE rp."Id" = r.{quoted(reference.name)})'
        )
        return SelectedField((field_.name,), field_, len(self.columns) - 1)

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
        own = {self.query.entity.text.lower(), self.definition.name.lower(), (self.query.alias or "").lower()}
        if len(path) > 1 and path[0].lower() in own:
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


def _not_archived(definition: ObjectDefinition) -> list[str]:
    """Archived activities are shown by queryAll alone."""
    return ['r."IsArchived" = 0'] if "IsArchived" in definition.fields_by_name else []
