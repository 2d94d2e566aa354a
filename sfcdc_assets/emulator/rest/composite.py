"""Several requests in one: `composite` (ordered, later ones may use earlier results), `composite/graph` (several such,
each all or nothing) and `composite/batch` (independent)."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.responses import JSONResponse, Response, StreamingResponse

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.rest_context import RestContext

_MAX_SUBREQUESTS = 25
_MAX_READS = 5
"""Queries and sObject Collections operations among them (REST API Developer Guide, "Composite")."""
_MAX_GRAPHS = 75
_MAX_NODES = 500
_REFERENCE = re.compile(r"@\{([A-Za-z0-9_]+)((?:\.[A-Za-z0-9_]+|\[\d+\])*)\}")
_STEP = re.compile(r"\.([A-Za-z0-9_]+)|\[(\d+)\]")


class _AllOrNoneFailedError(Exception):
    """Leaves the transaction so that it is rolled back."""


def add_composite(context: RestContext) -> None:
    """Add the two resources."""
    resource = _CompositeResource(context)
    context.add("/composite", {"POST": resource.composite})
    context.add("/composite/batch", {"POST": resource.batch})
    context.add("/composite/graph", {"POST": resource.graphs})


class _CompositeResource:
    def __init__(self, context: RestContext) -> None:
        self._context = context

    def composite(self, request: ApiRequest) -> Response:
        """Subrequests in order; `allOrNone` makes all their changes one transaction that any failure undoes."""
        document = request.echoed_json_object()
        subrequests = _subrequests(document, "compositeRequest")
        if document.get("allOrNone", False):
            return JSONResponse({"compositeResponse": self._all_or_none(request, subrequests)})
        results: list[dict[str, Any]] = []
        self._run_all(request, subrequests, results)
        return JSONResponse({"compositeResponse": results})

    def graphs(self, request: ApiRequest) -> Response:
        """Each graph is one transaction; one that fails leaves the others as they are."""
        items = request.echoed_json_object().get("graphs")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise ApiError("JSON_PARSER_ERROR", "graphs must be a list of objects")
        if len(items) > _MAX_GRAPHS:
            raise ApiError("INVALID_INPUT", f"Provided {len(items)} graphs; the most is {_MAX_GRAPHS}")
        graphs = [(str(item.get("graphId", "")), _subrequests(item, "compositeRequest", _MAX_NODES)) for item in items]
        if sum(len(subrequests) for _, subrequests in graphs) > _MAX_NODES:
            raise ApiError("INVALID_INPUT", f"The graphs have more than {_MAX_NODES} nodes")
        answers = []
        for graph_id, subrequests in graphs:
            results = self._all_or_none(request, subrequests)
            good = not any(_failed(result) for result in results)
            response = {"compositeResponse": results}
            answers.append({"graphId": graph_id, "graphResponse": response, "isSuccessful": good})
        return JSONResponse({"graphs": answers})

    def _all_or_none(self, request: ApiRequest, subrequests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        try:
            with self._context.whole_transaction(request):
                self._run_all(request, subrequests, results)
                if any(_failed(result) for result in results):
                    raise _AllOrNoneFailedError
        except _AllOrNoneFailedError:
            results = [result if result["httpStatusCode"] >= 400 else _halted(result) for result in results]
        return results

    def batch(self, request: ApiRequest) -> Response:
        """Subrequests one by one, each for itself and counted as a request; `haltOnError` skips those after a
        failure."""
        document = request.echoed_json_object()
        results: list[dict[str, Any]] = []
        failed = False
        for number, item in enumerate(_subrequests(document, "batchRequests")):
            if failed and document.get("haltOnError", False):
                skipped = [{"errorCode": "BATCH_PROCESSING_HALTED", "message": "Batch processing halted per request"}]
                results.append({"statusCode": 412, "result": skipped})
                continue
            path = "/services/data/" + str(item.get("url", "")).lstrip("/").removeprefix("services/data/")
            try:
                if number:  # the first is the request itself
                    self._context.count_requests()
                status, body = self._run(request, str(item.get("method", "GET")), path, item.get("richInput"))
            except ApiError as error:
                status, body = error.status, [{"errorCode": error.error_code, "message": error.message}]
            failed = failed or status >= 400
            results.append({"statusCode": status, "result": body})
        return JSONResponse({"hasErrors": failed, "results": results})

    def _run_all(self, request: ApiRequest, subrequests: list[dict[str, Any]], results: list[dict[str, Any]]) -> None:
        bodies: dict[str, Any] = {}
        for item in subrequests:
            reference_id = str(item.get("referenceId", ""))
            try:
                url = _resolved(str(item.get("url", "")), bodies)
                status, body = self._run(request, str(item.get("method", "")), url, _resolved(item.get("body"), bodies))
            except ApiError as error:
                status, body = error.status, [{"errorCode": error.error_code, "message": error.message}]
            if status < 400:
                bodies[reference_id] = body
            results.append({"body": body, "httpHeaders": {}, "httpStatusCode": status, "referenceId": reference_id})

    def _run(self, request: ApiRequest, method: str, url: str, document: Any) -> tuple[int, Any]:
        parts = urlsplit(url)
        subrequest = replace(
            request, method=method.upper(), query=dict(parse_qsl(parts.query)), body=b"", document=document, path={}
        )
        response = self._context.dispatch(subrequest, parts.path)
        if isinstance(response, StreamingResponse):
            return 400, [
                {"errorCode": "INVALID_INPUT", "message": "This resource cannot be part of a composite request"}
            ]
        content = bytes(response.body)
        return response.status_code, json.loads(content) if content else None


def _subrequests(document: dict[str, Any], key: str, most: int = _MAX_SUBREQUESTS) -> list[dict[str, Any]]:
    items = document.get(key)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ApiError("JSON_PARSER_ERROR", f"{key} must be a list of objects")
    if len(items) > most:
        raise ApiError("INVALID_INPUT", f"Provided {len(items)} subrequests; the most is {most}")
    if any(
        "/composite" in str(item.get("url")) and "/composite/sobjects" not in str(item.get("url")) for item in items
    ):
        raise ApiError("INVALID_INPUT", "a composite request cannot hold another one")
    read = sum(_is_read(str(item.get("url"))) for item in items)
    if key == "compositeRequest" and most == _MAX_SUBREQUESTS and read > _MAX_READS:
        message = f"Provided {read} queries and operations on collections; the most is {_MAX_READS}"
        raise ApiError("INVALID_INPUT", message)
    return items


def _is_read(url: str) -> bool:
    return "/composite/sobjects" in url or re.search(r"/query(All)?[/?]", url) is not None


def _resolved(value: Any, bodies: dict[str, Any]) -> Any:
    """Return the value with each `@{referenceId.path}` replaced by what the earlier subrequest answered."""
    if isinstance(value, dict):
        return {name: _resolved(item, bodies) for name, item in value.items()}
    if isinstance(value, list):
        return [_resolved(item, bodies) for item in value]
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: str(_looked_up(match, bodies)), value)
    return value


def _looked_up(match: re.Match[str], bodies: dict[str, Any]) -> Any:
    try:
        value = bodies[match.group(1)]
        for name, index in _STEP.findall(match.group(2)):
            value = value[name] if name else value[int(index)]
    except (KeyError, IndexError, TypeError):
        message = f"Invalid reference specified. No value for {match.group(0)} found"
        raise ApiError("PROCESSING_HALTED", message) from None
    return value


def _failed(result: dict[str, Any]) -> bool:
    """Return whether a subrequest failed, or any record of one that changes many."""
    body = result["body"]
    records = body if isinstance(body, list) else []
    return result["httpStatusCode"] >= 400 or any(
        isinstance(record, dict) and record.get("success") is False for record in records
    )


def _halted(result: dict[str, Any]) -> dict[str, Any]:
    body = [
        {
            "errorCode": "PROCESSING_HALTED",
            "message": "The transaction was rolled back since another operation in the same transaction failed.",
        }
    ]
    return {**result, "body": body, "httpStatusCode": 400}
