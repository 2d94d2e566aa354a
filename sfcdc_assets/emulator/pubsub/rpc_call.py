"""One call of the Pub/Sub API: its rpc id, its credentials, and how it ends in error (docs/salesforce-streams.md,
"Endpoint and headers" and "Errors of the Pub/Sub API")."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import NoReturn, Protocol
from urllib.parse import urlsplit

import grpc

from sfcdc_assets.emulator.org.ids import to_18
from sfcdc_assets.emulator.pubsub.rpc_refusal import BAD_CREDENTIALS, BAD_HEADER, RpcRefusal


class Sessions(Protocol):
    """Who a token belongs to. The org's login service keeps the tokens; calls only ask."""

    def user_of(self, access_token: str) -> str | None:
        """Return the id of the user the token was given to, or None if it is unknown, revoked or expired."""


@dataclass(frozen=True)
class Credentials:
    """The three headers that every call carries, checked for form. The token stays out of the repr."""

    access_token: str
    instance_url: str
    organization_id: str

    def __repr__(self) -> str:
        return f"Credentials({self.instance_url}, {self.organization_id})"


class RpcCall:
    """A call in progress. `kind` is the method's name, sent back in the `type` trailer."""

    def __init__(self, kind: str, context: grpc.ServicerContext) -> None:
        self.kind = kind
        self.rpc_id = str(uuid.uuid4())
        self._context = context

    def authenticate(self, sessions: Sessions, organization_id: str, hosts: Collection[str]) -> str:
        """Return the user who calls. Raises RpcRefusal: a header missing or malformed, a bad token, another org's id,
        or an instance whose host name is none of `hosts`."""
        credentials = self._credentials()
        user = sessions.user_of(credentials.access_token)
        host = (urlsplit(credentials.instance_url).hostname or "").lower()
        if user is None or credentials.organization_id != organization_id or host not in hosts:
            raise BAD_CREDENTIALS()
        return user

    def end(self, refusal: RpcRefusal) -> NoReturn:
        """End the call with the refusal's status, text and trailers; raises what gRPC ends a handler with."""
        message = refusal.message
        if refusal.error_code is not None:
            message = f"{message} rpcId: {self.rpc_id}"
            self._context.set_trailing_metadata(
                (("error-code", refusal.error_code), ("rpc-id", self.rpc_id), ("type", self.kind))
            )
        self._context.abort(refusal.status, message)
        raise AssertionError("gRPC's abort always raises")

    def _credentials(self) -> Credentials:
        headers = {key: value for key, value in self._context.invocation_metadata() if isinstance(value, str)}
        for name in ("accesstoken", "instanceurl", "tenantid"):
            if not headers.get(name, "").strip():
                raise BAD_HEADER(name=name)
        try:
            instance = urlsplit(headers["instanceurl"])
        except ValueError:
            raise BAD_HEADER(name="instanceurl") from None
        if instance.scheme not in ("http", "https") or not instance.netloc or instance.path.strip("/"):
            raise BAD_HEADER(name="instanceurl")
        return Credentials(headers["accesstoken"], headers["instanceurl"], _organization_id(headers["tenantid"]))


def _organization_id(tenant: str) -> str:
    """18 characters, from 15, 18 or the long form `core/{My Domain name}/{id}`."""
    try:
        return to_18(tenant.rsplit("/", 1)[-1])
    except ValueError:
        raise BAD_HEADER(name="tenantid") from None
