"""One authenticated REST request, as resources see it: no web framework in it, so composite requests can make
their own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.rest.json_body import parse_json

_CLIENT = re.compile(r"client=([^;,\s]+)")


def origin_of_api(api: str, version: str, client: str) -> str:
    """`changeOrigin` of changes by an API; a client that does not name itself is not in it."""
    return f"com/salesforce/api/{api}/{version}" + (f";client={client}" if client else "")


@dataclass(frozen=True)
class ApiRequest:
    """`path` holds the variable parts of the route; header names are in lower case."""

    method: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    user_id: str
    base_url: str
    """Scheme, host and port the client called."""
    document: Any = field(default=None, compare=False)
    """The body already parsed, where the request comes out of a composite one."""
    api: str = "rest"
    """By which API the changes come: `bulkapi` for jobs."""

    @property
    def version(self) -> str:
        """The API version of the request, such as `59.0`."""
        return self.path.get("version", "59.0")

    @property
    def data_path(self) -> str:
        """`/services/data/v59.0`, with which the urls in answers begin."""
        return f"/services/data/v{self.version}"

    @property
    def change_origin(self) -> str:
        """What change events say of where a change came from (docs/salesforce-streams.md, "Change origin")."""
        client = _CLIENT.search(self.headers.get("sforce-call-options", ""))
        return origin_of_api(self.api, self.version, client.group(1) if client else "")

    def json_object(self) -> dict[str, Any]:
        """Return the body as a JSON object. Raises ApiError: UNSUPPORTED_MEDIA_TYPE, JSON_PARSER_ERROR."""
        document = self.document
        if document is None:
            content_type = self.headers.get("content-type", "application/json")
            if "json" not in content_type:
                raise ApiError("UNSUPPORTED_MEDIA_TYPE", f"Content type '{content_type}' is not supported", status=415)
            try:
                document = parse_json(self.body)
            except ValueError as error:
                raise ApiError("JSON_PARSER_ERROR", f"The HTTP entity body is not JSON: {error}") from None
        if not isinstance(document, dict):
            raise ApiError("JSON_PARSER_ERROR", "The HTTP entity body must be a JSON object")
        return document

    def echoed_json_object(self) -> dict[str, Any]:
        """Return the body as a JSON object, of a body that the answer repeats parts of: it must be writable, without
        half characters."""
        document = self.json_object()
        try:
            json.dumps(document, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ApiError("JSON_PARSER_ERROR", "The HTTP entity body holds half of a surrogate pair") from None
        return document
