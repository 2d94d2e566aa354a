"""Records: lists of them, and one to look at and change."""

from __future__ import annotations

from functools import partial
from itertools import islice

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import ApiError, RecordError
from sfcdc_assets.emulator.org.ids import is_id, to_18
from sfcdc_assets.emulator.org.object_tables import columns_of
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.pages.event_view import event_views
from sfcdc_assets.emulator.pages.record_form import changed_texts, form_fields, with_breaks_of
from sfcdc_assets.emulator.pages.site import PAGES, PageRequest, Site

_ON_A_PAGE = 50
_EVENTS = 20
_AMONG_EVENTS = 500
"""The newest events of an object among which those of a record are looked for."""


def record_routes(site: Site) -> list[Route]:
    """Return the routes of lists, of records, and of what can be done to them."""
    pages = _RecordPages(site)
    record = "/records/{id}"
    return [
        site.route("/objects/{entity}", pages.listing),
        site.route("/objects/{entity}/new", pages.new),
        site.route("/objects/{entity}/new", pages.create, "POST"),
        site.route(record, pages.show),
        site.route(record, pages.save, "POST"),
        *(site.route(f"{record}/{action}", partial(pages.act, action), "POST") for action in _DONE),
    ]


_DONE = {
    "delete": "The record is in the recycle bin.",
    "undelete": "The record is back from the recycle bin.",
    "convert": "The lead is converted.",
}


class _RecordPages:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._org = site.running.org
        self._editing = site.running.editing

    def listing(self, request: PageRequest) -> Response:
        """Return records in order of Id, those in the recycle bin too, or those whose name holds a text."""
        definition = self._definition(request)
        search, after = request.query.get("search", "").strip(), request.query.get("after", "")
        if is_id(search):
            return RedirectResponse(f"{PAGES}/records/{to_18(search)}", status_code=303)
        names = ("Id", definition.name_field, "LastModifiedDate", "IsDeleted")
        fields = [field for field in columns_of(definition) if field.name in names]
        with self._org.database.lock:
            rows = self._org.store.records(
                definition, include_deleted=True, fields=fields, after=after, named_like=search
            )
            records = list(islice(rows, _ON_A_PAGE))
        return self._site.page(
            request,
            "objects.html",
            definition=definition,
            records=records,
            search=search,
            next_after=records[-1]["Id"] if len(records) == _ON_A_PAGE else None,
        )

    def new(self, request: PageRequest) -> Response:
        """Show an empty form."""
        return self._new(request, self._definition(request))

    def create(self, request: PageRequest) -> Response:
        """Create the record, or show the form again with what is wrong with it."""
        definition = self._definition(request)
        texts = changed_texts(definition, request.form)
        try:
            record_id = self._editing.create(definition.name, texts)
        except RecordError as error:
            return self._new(request, definition, texts, error)
        return self._site.done(f"{definition.label} {record_id} is created.", f"{PAGES}/records/{record_id}")

    def show(self, request: PageRequest) -> Response:
        """Show the record and its events."""
        definition, record = self._found(request)
        return self._record(request, definition, record)

    def save(self, request: PageRequest) -> Response:
        """Back to the record, or the form again with what is wrong with it."""
        definition, record = self._found(request)
        record_id = str(record["Id"])
        texts = changed_texts(definition, request.form)
        if not texts:
            return self._site.done("Nothing was changed.", f"{PAGES}/records/{record_id}")
        try:
            broken = {name: with_breaks_of(text, record.get(name)) for name, text in texts.items()}
            self._editing.update(definition.name, record_id, broken)
        except RecordError as error:
            return self._record(request, definition, record, texts, error)
        return self._site.done(f"Saved: {', '.join(texts)}.", f"{PAGES}/records/{record_id}")

    def act(self, action: str, request: PageRequest) -> Response:
        """Delete, restore or convert."""
        definition, record = self._found(request)
        record_id = str(record["Id"])
        if action == "delete":
            self._editing.delete(definition.name, record_id)
        elif action == "undelete":
            self._editing.undelete(definition.name, record_id)
        else:
            self._editing.convert(record_id)
        return self._site.done(_DONE[action], f"{PAGES}/records/{record_id}")

    def _record(
        self,
        request: PageRequest,
        definition: ObjectDefinition,
        record: dict[str, StoredValue],
        texts: dict[str, str] | None = None,
        error: ApiError | None = None,
    ) -> Response:
        page = self._site.running.feed.newest(_AMONG_EVENTS, definition.name)
        events = [each for each in page.events if each.names(str(record["Id"]))]
        is_deleted = bool(record.get("IsDeleted"))
        return self._site.page(
            request,
            "record.html",
            status=error.status if error else 200,
            problem=error.message if error else "",
            definition=definition,
            record=record,
            name=record.get(definition.name_field or "") or record["Id"],
            is_deleted=is_deleted,
            can_convert=definition.name == "Lead" and not is_deleted and not record.get("IsConverted"),
            fields=form_fields(definition, record, editable=not is_deleted),
            texts=texts or {},
            wrong=error.fields if error else (),
            events=event_views(events[-_EVENTS:]),
            next_after=page.next_after,
            most_events=_EVENTS,
        )

    def _new(
        self,
        request: PageRequest,
        definition: ObjectDefinition,
        texts: dict[str, str] | None = None,
        error: ApiError | None = None,
    ) -> Response:
        defaults = {field.name: field.default for field in definition.stored_fields}
        return self._site.page(
            request,
            "new.html",
            status=error.status if error else 200,
            problem=error.message if error else "",
            definition=definition,
            fields=form_fields(definition, defaults, creating=True),
            texts=texts or {},
            wrong=error.fields if error else (),
        )

    def _definition(self, request: PageRequest) -> ObjectDefinition:
        return self._editing.definition_of(request.path["entity"])

    def _found(self, request: PageRequest) -> tuple[ObjectDefinition, dict[str, StoredValue]]:
        record_id = request.path["id"]
        definition = self._editing.definition_of(record_id)
        record = self._org.record(definition.name, record_id) if is_id(record_id) else None
        if record is None:
            raise ApiError("NOT_FOUND", f"There is no record {record_id}, or it is gone for good.", status=404)
        return definition, record
