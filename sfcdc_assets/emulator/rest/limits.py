"""`limits`: what a day allows and what is left (docs/salesforce-streams.md, "Limits"); and `limits/recordCount`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.api_usage import ApiUsage
from sfcdc_assets.emulator.rest.rest_context import RestContext

Limits = Mapping[str, tuple[int, int]]
"""Key -> most allowed, remaining (which may be negative)."""

_UNUSED: Limits = {
    # The org has no files, and no add-on.
    "FileStorageMB": (10_240, 10_240),
    "MonthlyPlatformEventsUsageEntitlement": (0, 0),
}
_NAMES_UNTIL_48 = {"DailyBulkApiBatches": "DailyBulkApiRequests"}
_LAST_WITH_THEM = 48


def add_limits(context: RestContext, measured: Callable[[], Limits] | None = None) -> None:
    """Add the resources; `measured` brings the values other parts of the org count themselves (events)."""

    def limits(request: ApiRequest) -> Response:
        values = {**_UNUSED, **counted_limits(context.org, context.usage), **(measured() if measured else {})}
        if float(request.version) <= _LAST_WITH_THEM:
            values = {_NAMES_UNTIL_48.get(key, key): value for key, value in values.items()}
        return JSONResponse({key: {"Max": most, "Remaining": left} for key, (most, left) in sorted(values.items())})

    def record_count(request: ApiRequest) -> Response:
        org = context.org
        wanted = {name.strip().lower() for name in request.query.get("sObjects", "").split(",") if name.strip()}
        counts = [
            {"count": org.count(name), "name": name}
            for name, definition in org.definitions.items()
            if definition.companion is None
            and name not in org.hidden_objects
            and (not wanted or name.lower() in wanted)
        ]
        return JSONResponse({"sObjects": counts})

    context.add("/limits", {"GET": limits})
    context.add("/limits/recordCount", {"GET": record_count})


def counted_limits(org: EmulatedOrg, usage: ApiUsage) -> Limits:
    """Return the allowances that are counted where requests are served, and what the records take."""
    settings = org.settings
    used = {
        "DailyApiRequests": (settings.daily_api_requests, usage.used()),
        "DailyBulkApiBatches": (settings.daily_bulk_batches, usage.used("bulk_batch")),
        "DailyBulkV2QueryFileStorageMB": (settings.daily_bulk_query_mb, usage.used("bulk_query_byte") // 2**20),
        "DailyBulkV2QueryJobs": (settings.daily_bulk_query_jobs, usage.used("bulk_query")),
        "DataStorageMB": (settings.data_storage_mb, round(org.data_storage.used_mb)),
    }
    return {key: (most, most - count) for key, (most, count) in used.items()}
