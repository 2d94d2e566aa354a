"""The control resource below `/emulator`: what the org knows of itself, for tests, the `sfcdc` command and rehearsals.

Nothing here is Salesforce's. It needs no token, as it is served on loopback only; faults are switched on by routes
added here.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import PREFIX
from sfcdc_assets.emulator.org.transaction import Transaction
from sfcdc_assets.emulator.rest.rest_context import RestContext

_DEFAULT_LIMIT = 200
_MAX_LIMIT = 2_000


def control_routes(context: RestContext) -> list[Route]:
    """`GET /emulator/state` and `GET /emulator/transactions?after=&limit=`."""
    org = context.org

    def state(_request: Request) -> Response:
        with org.database.lock:
            return JSONResponse(
                {
                    "organization_id": org.organization_id,
                    "seed": org.seed,
                    "now": org.clock(),
                    "last_commit_number": org.last_commit_number,
                    "selected_entities": list(org.selected_entities),
                    "api_requests": context.usage.used(),
                    "objects": {
                        name: {"live": org.count(name), "all": org.count(name, include_deleted=True)}
                        for name in org.definitions
                    },
                }
            )

    def transactions(request: Request) -> Response:
        try:
            after = int(request.query_params.get("after", "0"))
            limit = min(_MAX_LIMIT, max(1, int(request.query_params.get("limit", str(_DEFAULT_LIMIT)))))
        except ValueError:
            return JSONResponse({"error": "after and limit must be whole numbers"}, status_code=400)
        page = [transaction_json(transaction) for transaction in islice(org.transactions(after), limit)]
        return JSONResponse({"transactions": page, "next_after": page[-1]["commit_number"] if page else after})

    return [Route(f"{PREFIX}/state", state), Route(f"{PREFIX}/transactions", transactions)]


def transaction_json(transaction: Transaction) -> dict[str, Any]:
    """Return a transaction of the oracle as JSON; the names are those of the dataclasses."""
    return asdict(transaction)
