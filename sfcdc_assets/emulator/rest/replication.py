"""Which records of an object were created, updated or deleted in a span of time: `updated` and `deleted`.

Both look at SystemModstamp and ignore seconds. `updated` goes back 30 days, `deleted` as far as the recycle bin
(docs/salesforce-streams.md, "Updated and deleted records").
"""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.org.database import quoted
from sfcdc_assets.emulator.records.field_value import datetime_text, parse_datetime
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.rest_context import RestContext

_MINUTE = 60_000
_MAX_IDS = 600_000


def add_replication(context: RestContext) -> None:
    """Add the two resources of each object."""
    org = context.org

    def updated(request: ApiRequest) -> Response:
        definition = context.definition(request.path["object"])
        context.check_readable(definition)
        start, end = _span(request, org.clock(), org.settings.replication_window)
        sql = (
            f'SELECT "Id" FROM {quoted(definition.name)} AS r '
            f'WHERE {org.view_all.condition(definition) or 1} AND "SystemModstamp" >= ? AND "SystemModstamp" < ? '
            f'AND "IsDeleted" = 0 ORDER BY "SystemModstamp", "Id"'
        )
        ids = [row[0] for row in org.rest_view.rows(sql, (start, end))]
        _check_number(len(ids))
        return JSONResponse({"ids": ids, "latestDateCovered": _covered(end, org.clock())})

    def deleted(request: ApiRequest) -> Response:
        definition = context.definition(request.path["object"])
        context.check_readable(definition)
        start, end = _span(request, org.clock(), org.settings.recycle_bin_lifetime)
        sql = (
            f'SELECT "SystemModstamp" AS at, "Id" FROM {quoted(definition.name)} AS r '
            f"WHERE {org.view_all.condition(definition) or 1} AND at >= ?1 AND at < ?2 AND "
            f'"IsDeleted" = 1 '
            "UNION SELECT deleted_at, id FROM _purged_record WHERE entity = ?3 AND deleted_at >= ?1 AND "
            "deleted_at < ?2 "
            "ORDER BY 1, 2"
        )
        rows = org.rest_view.rows(sql, (start, end, definition.name))
        _check_number(len(rows))
        return JSONResponse(
            {
                "deletedRecords": [
                    {"id": record_id, "deletedDate": datetime_text(at, "+0000")} for at, record_id in rows
                ],
                "earliestDateAvailable": datetime_text(
                    _earliest(org.clock(), org.settings.recycle_bin_lifetime), "+0000"
                ),
                "latestDateCovered": _covered(end, org.clock()),
            }
        )

    context.add("/sobjects/{object}/updated", {"GET": updated})
    context.add("/sobjects/{object}/deleted", {"GET": deleted})


def _span(request: ApiRequest, now: int, window: int) -> tuple[int, int]:
    bounds: list[int] = []
    for name in ("start", "end"):
        try:
            moment = parse_datetime(request.query.get(name, "").replace(" ", "+"))
        except (ValueError, OverflowError):
            raise ApiError("INVALID_REPLICATION_DATE", f"{name} must be a date and time with a time zone") from None
        bounds.append(moment - moment % _MINUTE)
    start, end = bounds
    if start >= end:
        raise ApiError("INVALID_REPLICATION_DATE", "startDate must be at least one minute before endDate")
    if start < _earliest(now, window):
        raise ApiError(
            "INVALID_REPLICATION_DATE", "startDate before org replication enabled date or earliest date available"
        )
    return start, end


def _covered(end: int, now: int) -> str:
    """Never beyond the last full minute: what the running one still brings would be missed by who starts there next."""
    return datetime_text(min(end, now - now % _MINUTE), "+0000")


def _earliest(now: int, window: int) -> int:
    return (now - window) - (now - window) % _MINUTE


def _check_number(number: int) -> None:
    if number > _MAX_IDS:
        raise ApiError("EXCEEDED_ID_LIMIT", f"more than {_MAX_IDS:,} ids; ask for a shorter span of time")
