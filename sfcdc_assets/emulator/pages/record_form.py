"""A record as a form: what is editable and how, and what a sent form changes.

Beside each field the form has a digest of the text it showed, and only fields whose text is another one are changed:
what somebody else changed meanwhile stays, and a value that a browser cannot carry is not editable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.org.record_editing import text_of
from sfcdc_assets.emulator.org.transaction import StoredValue

_FIELD, _SHOWN = "field:", "shown:"
_SHORT_TEXT = 255
_HINTS = {"datetime": "2026-01-31T12:00:00Z", "date": "2026-01-31", "time": "12:00:00.000Z"}


@dataclass(frozen=True)
class FormField:
    """One field. `control`: text, area, select, choices, suggestions or checkbox; empty if it is only shown."""

    name: str
    label: str
    type: str
    text: str
    control: str
    required: bool
    options: tuple[str, ...]
    hint: str
    refers: bool
    """Whether the text is the id of another record."""

    @property
    def input_name(self) -> str:
        """The name of the field's input."""
        return _FIELD + self.name

    @property
    def shown_name(self) -> str:
        """The name of the hidden input that says what was shown."""
        return _SHOWN + self.name

    @property
    def shown_digest(self) -> str:
        """A digest of the text that was shown."""
        return _digest(self.text)

    @property
    def chosen(self) -> tuple[str, ...]:
        """Of a multi-select picklist."""
        return tuple(part for part in self.text.split(";") if part)

    @property
    def rows(self) -> int:
        """How many lines the input of a text has."""
        return 10 if len(self.text) > 1000 or self.text.count("\n") > 8 else 2


def form_fields(
    definition: ObjectDefinition, record: Mapping[str, StoredValue], *, creating: bool = False, editable: bool = True
) -> list[FormField]:
    """All fields of a record that have values of their own or computed ones, in the order of the definition."""
    shown = [field for field in definition.fields if not field.is_compound]
    if creating:
        shown = [field for field in shown if field.createable and field.is_stored]
    return [_form_field(field, record.get(field.name), creating=creating, editable=editable) for field in shown]


def changed_texts(definition: ObjectDefinition, form: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Field -> new text of the fields that a sent form changes; an empty text is null."""
    changed: dict[str, str] = {}
    for field in definition.fields:
        values = form.get(_FIELD + field.name)
        if values is None:
            continue
        if field.type == "multipicklist":
            text = ";".join(value for value in values if value)
        else:
            text = _with_one_kind_of_break(values[-1])
        if _digest(text) != form.get(_SHOWN + field.name, ("",))[-1]:
            changed[field.name] = text
    return changed


def with_breaks_of(text: str, before: StoredValue) -> str:
    """Return the text with line breaks as the value before had them: browsers send CRLF whatever it was."""
    return text.replace("\n", "\r\n") if isinstance(before, str) and "\r\n" in before else text


def _form_field(field: FieldDefinition, value: StoredValue, *, creating: bool, editable: bool) -> FormField:
    text = _with_one_kind_of_break(text_of(field, value))
    writable = editable and field.is_stored and (field.createable if creating else field.updateable)
    values = text.split(";") if field.type == "multipicklist" else [text]
    options = (*field.picklist_values, *(each for each in values if each and each not in field.picklist_values))
    return FormField(
        name=field.name,
        label=field.label,
        type=field.type,
        text=text,
        control=_control(field, text) if writable and "\0" not in text else "",
        required=not field.nillable and field.type != "boolean" and field.default is None and field.name != "OwnerId",
        options=options,
        hint=_HINTS.get(field.type, ""),
        refers=field.type in ("reference", "id"),
    )


def _control(field: FieldDefinition, text: str) -> str:
    if field.type == "boolean":
        return "checkbox"
    if field.type == "multipicklist":
        return "choices"
    if field.type == "picklist":
        return "select" if field.restricted_picklist else "suggestions"
    # A one-line input would lose line breaks.
    return "area" if field.length > _SHORT_TEXT or field.type == "textarea" or "\n" in text else "text"


def _with_one_kind_of_break(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
