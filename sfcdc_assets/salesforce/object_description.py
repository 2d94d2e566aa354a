"""An object's describe: the attributes that columns are made from, and nothing else (docs/salesforce-streams.md,
"Describe")."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sfcdc_assets.salesforce.api_name import is_api_name

COMPOUND_TYPES = frozenset({"address", "location"})
"""Of fields whose values are those of others, put together; a name that has parts is a text of its own."""
STAMPS = ("SystemModstamp", "LastModifiedDate", "CreatedDate", "LoginTime")
"""Fields that say when a record was changed, from the best to the worst; an object has one of them at least, or none
of use (`polls/`)."""
_OMITTED = {
    "inline_help_text": None,
    "calculated_formula": None,
    "filterable": True,
    "sortable": True,
    "replicateable": True,
    "retrieveable": True,
}
"""What stored forms do not have where it is as nearly always."""


@dataclass(frozen=True)
class FieldDescription:
    """One field, under its API name. Attributes are named as in the describe, in snake_case."""

    name: str
    label: str
    type: str
    length: int
    precision: int
    scale: int
    digits: int
    nillable: bool
    calculated: bool
    custom: bool
    auto_number: bool
    compound_field_name: str | None
    extra_type_info: str | None
    relationship_name: str | None
    reference_to: tuple[str, ...]
    inline_help_text: str | None = None
    calculated_formula: str | None = None
    """Of a formula field its text; roll-up summaries are calculated without one."""
    filterable: bool = True
    sortable: bool = True


@dataclass(frozen=True)
class ObjectDescription:
    """One entity. `to_json` is the form that is stored with the schemas; `from_json` reads it or a raw describe."""

    name: str
    label: str
    key_prefix: str | None
    custom: bool
    queryable: bool
    fields: tuple[FieldDescription, ...]
    replicateable: bool = True
    """Whether the org says which records were changed and deleted (`getUpdated`, `getDeleted`)."""
    retrieveable: bool = True
    """Whether the org gives its records by their ids, beside queries."""

    @property
    def field_names(self) -> frozenset[str]:
        """API names of all fields the user may read."""
        return frozenset(field.name for field in self.fields)

    def parts_of(self, name: str) -> tuple[FieldDescription, ...]:
        """Return the fields that a compound field (a person's name, an address, a geolocation) consists of; none of
        others."""
        return tuple(each for each in self.fields if each.compound_field_name == name != each.name)

    def showing_the_same(self) -> dict[str, tuple[str, ...]]:
        """Field -> those that show what it does: of a compound field its parts, of a part the compound field."""
        named = {field.compound_field_name for field in self.fields if field.compound_field_name}
        wholes = {name: tuple(part.name for part in self.parts_of(name)) for name in named}
        return wholes | {part: (name,) for name, parts in wholes.items() for part in parts}

    def words_for(self, name: str) -> str | None:
        """Return what people read beside a field in the org: its label and its help text; None for one it does not
        have."""
        field = next((each for each in self.fields if each.name.lower() == name.lower()), None)
        if field is None:
            return None
        return f"{field.label}: {field.inline_help_text}" if field.inline_help_text else field.label

    def to_json(self) -> dict[str, Any]:
        """Return the raw describe's own shape and names (`compoundFieldName` ...), reduced to these attributes."""
        described = {name: value for name, value in asdict(self).items() if name != "fields"}
        return {**_stored(described), "fields": [_stored(asdict(field)) for field in self.fields]}

    @staticmethod
    def from_json(described: dict[str, Any]) -> ObjectDescription:
        """Without fields whose name is no API name: none of ours could ask for one, and an org has none.

        Raises `KeyError` when an attribute without a natural default (name, type) is missing.
        """
        return ObjectDescription(
            name=described["name"],
            label=described.get("label") or described["name"],
            key_prefix=described.get("keyPrefix"),
            custom=bool(described.get("custom")),
            queryable=bool(described.get("queryable", True)),
            fields=tuple(_field(field) for field in described["fields"] if is_api_name(field["name"])),
            replicateable=bool(described.get("replicateable", True)),
            retrieveable=bool(described.get("retrieveable", True)),
        )


def _stored(described: dict[str, Any]) -> dict[str, Any]:
    """Return attributes in the describe's own form."""
    return {
        _camel_case(name): list(value) if isinstance(value, tuple) else value
        for name, value in described.items()
        if name not in _OMITTED or (value != _OMITTED[name] and value != "")
    }


def _field(described: dict[str, Any]) -> FieldDescription:
    return FieldDescription(
        name=described["name"],
        label=described.get("label") or described["name"],
        type=described["type"],
        length=int(described.get("length") or 0),
        precision=int(described.get("precision") or 0),
        scale=int(described.get("scale") or 0),
        digits=int(described.get("digits") or 0),
        nillable=bool(described.get("nillable", True)),
        calculated=bool(described.get("calculated")),
        custom=bool(described.get("custom")),
        auto_number=bool(described.get("autoNumber")),
        compound_field_name=described.get("compoundFieldName"),
        extra_type_info=described.get("extraTypeInfo"),
        relationship_name=described.get("relationshipName"),
        reference_to=tuple(described.get("referenceTo") or ()),
        inline_help_text=described.get("inlineHelpText"),
        calculated_formula=described.get("calculatedFormula"),
        filterable=bool(described.get("filterable", True)),
        sortable=bool(described.get("sortable", True)),
    )


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
