"""Which records of an object were created, updated or deleted in a span of time: `updated` and `deleted`.

Both look at the object's stamp and ignore seconds. `updated` goes back 30 days, `deleted` as far as the recycle bin, or
the last time that the log of deletes was trimmed. `latestDateCovered` is where the next call begins: it stays at the
start of the oldest transaction that is still open (docs/salesforce-streams.md, "Updated and deleted records").
"""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.org.database import quoted
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.records.field_value import datetime_text, parse_datetime
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.rest_context import RestContext

_MINUTE = 60_000
_LISTED_INACTIVE = "CurrencyType"
"""Of this object, `deleted` lists what was deactivated (fivetran's changelog of its Salesforce connector)."""


def add_replication(context: RestContext) -> None:
    """Add the two resources of each object."""
    resource = _ReplicationResource(context)
    context.add("/sobjects/{object}/updated", {"GET": resource.updated})
    context.add("/sobjects/{object}/deleted", {"GET": resource.deleted})


class _ReplicationResource:
    def __init__(self, context: RestContext) -> None:
        self._context = context
        self._org = context.org

    def updated(self, request: ApiRequest) -> Response:
        """Ids of live records that were stamped in the span."""
        definition, stamp = self._replicated(request)
        start, end = self._span(request, self._org.clock() - self._org.settings.replication_window)
        sql = (
            f'SELECT "Id" FROM {quoted(definition.name)} AS r '
            f"WHERE {self._org.view_all.condition(definition) or 1} AND {stamp} >= ? AND {stamp} < ? "
            f'AND "IsDeleted" = 0 ORDER BY {stamp}, "Id"'
        )
        ids = [row[0] for row in self._org.rest_view.rows(sql, (start, end))]
        self._check_number(len(ids))
        return JSONResponse({"ids": ids, "latestDateCovered": self._covered(end)})

    def deleted(self, request: ApiRequest) -> Response:
        """Ids of deleted records with the time of each, those too that have left the recycle bin."""
        definition, stamp = self._replicated(request)
        earliest = earliest_delete(self._org)
        start, end = self._span(request, earliest)
        # What is shown after it was purged is in both.
        gone = '("IsDeleted" = 1 OR "IsActive" = 0)' if definition.name == _LISTED_INACTIVE else '"IsDeleted" = 1'
        sql = (
            f'SELECT MIN(at), id FROM (SELECT {stamp} AS at, "Id" AS id FROM {quoted(definition.name)} AS r '
            f"WHERE {self._org.view_all.condition(definition) or 1} AND {gone} "
            "UNION ALL SELECT deleted_at, id FROM _purged_record WHERE entity = ?3) "
            "WHERE at >= ?1 AND at < ?2 GROUP BY id ORDER BY 1, 2"
        )
        rows = self._org.rest_view.rows(sql, (start, end, definition.name))
        self._check_number(len(rows))
        return JSONResponse(
            {
                "deletedRecords": [
                    {"id": record_id, "deletedDate": datetime_text(at, "+0000")} for at, record_id in rows
                ],
                "earliestDateAvailable": datetime_text(earliest, "+0000"),
                "latestDateCovered": self._covered(end),
            }
        )

    def _replicated(self, request: ApiRequest) -> tuple[ObjectDefinition, str]:
        """Return the object and its stamp, as SQL. Raises ApiError for one that is not replicateable."""
        definition = self._context.definition(request.path["object"])
        self._context.check_readable(definition)
        if not definition.is_replicateable or definition.stamp is None:
            raise ApiError("INVALID_TYPE", f"sObject type {definition.name} is not replicable")
        return definition, quoted(definition.stamp)

    def _span(self, request: ApiRequest, earliest: int) -> tuple[int, int]:
        bounds: list[int] = []
        for name in ("start", "end"):
            try:
                moment = parse_datetime(request.query.get(name, "").replace(" ", "+"))
            except (ValueError, OverflowError):
                raise ApiError("INVALID_REPLICATION_DATE", f"{name} must be a date and time with a time zone") from None
            bounds.append(_whole_minute(moment))
        start, end = bounds
        if start >= end:
            raise ApiError("INVALID_REPLICATION_DATE", "startDate must be at least one minute before endDate")
        if start < _whole_minute(earliest):
            raise ApiError(
                "INVALID_REPLICATION_DATE", "startDate before org replication enabled date or earliest date available"
            )
        return start, end

    def _covered(self, end: int) -> str:
        """Never beyond the last full minute: what the running one still brings would be missed by who starts there
        next."""
        return datetime_text(min(end, _whole_minute(self._org.long_transactions.complete_until)), "+0000")

    def _check_number(self, number: int) -> None:
        most = self._org.settings.most_replicated_ids
        if number > most:
            raise ApiError("EXCEEDED_ID_LIMIT", f"more than {most:,} ids; ask for a shorter span of time")


def earliest_delete(org: EmulatedOrg) -> int:
    """Return the time (epoch ms, whole minutes) from which on the org knows what was deleted."""
    return _whole_minute(max(org.clock() - org.settings.recycle_bin_lifetime, org.settings.deletes_known_since))


def _whole_minute(moment: int) -> int:
    return moment - moment % _MINUTE
