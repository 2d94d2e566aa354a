"""The `limits` resource: what a day allows and what is left (docs/salesforce-streams.md, "Limits")."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.api_usage import ApiUsage
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.rest_context import RestContext

Limits = Mapping[str, tuple[int, int]]
"""Key -> most allowed, remaining (which may be negative)."""

_UNUSED: Limits = {
    "DailyBulkV2QueryFileStorageMB": (976_562, 976_562),
    "DailyDeliveredPlatformEvents": (50_000, 50_000),
    "DailyStandardVolumePlatformEvents": (10_000, 10_000),
    "DataStorageMB": (1_024, 1_024),
    "FileStorageMB": (1_024, 1_024),
    "HourlyPublishedPlatformEvents": (50_000, 50_000),
    "HourlyPublishedStandardVolumePlatformEvents": (1_000, 1_000),
    "MonthlyPlatformEventsUsageEntitlement": (0, 0),
}


def add_limits(context: RestContext, measured: Callable[[], Limits] | None = None) -> None:
    """The resource, and `recordCount` below it: live records of the objects asked for, or of all, where an object that
    there is not is left out. Salesforce's own is a snapshot of some time ago; this one counts. `measured` brings the
    values other parts of the org count themselves (event deliveries)."""

    def limits(request: ApiRequest) -> Response:
        values = {**_UNUSED, **counted_limits(context.org, context.usage), **(measured() if measured else {})}
        return JSONResponse({key: {"Max": most, "Remaining": left} for key, (most, left) in sorted(values.items())})

    def record_count(request: ApiRequest) -> Response:
        asked = request.query.get("sObjects")
        names = asked.split(",") if asked else list(context.org.definitions)
        shown = [name for name in names if name in context.org.definitions and name not in context.org.hidden_objects]
        return JSONResponse({"sObjects": [{"count": context.org.count(name), "name": name} for name in shown]})

    context.add("/limits", {"GET": limits})
    context.add("/limits/recordCount", {"GET": record_count})


def counted_limits(org: EmulatedOrg, usage: ApiUsage) -> Limits:
    """The allowances that are counted where requests are served."""
    settings = org.settings
    return {
        "DailyApiRequests": (settings.daily_api_requests, settings.daily_api_requests - usage.used()),
        "DailyBulkApiBatches": (settings.daily_bulk_batches, settings.daily_bulk_batches - usage.used("bulk_batch")),
        "DailyBulkV2QueryJobs": (
            settings.daily_bulk_query_jobs,
            settings.daily_bulk_query_jobs - usage.used("bulk_query"),
        ),
    }
