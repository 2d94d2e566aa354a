"""OAuth 2.0: tokens by client credentials, JWT bearer, password, refresh token and web server flow; what one is worth
(RFC 7662, https://help.salesforce.com/s/articleView?id=xcloud.remoteaccess_oidc_token_introspection.htm); revocation
(docs/salesforce-streams.md, "Logging in")."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

import jwt
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_pem_x509_certificate
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from sfcdc_assets.emulator.org.settings import Credentials
from sfcdc_assets.emulator.rest.authorizations import Authorizations
from sfcdc_assets.emulator.rest.rest_context import RestContext, base_url
from sfcdc_assets.runtime.errors import SfcdcError


def introspected(context: RestContext, authorizations: Authorizations, token: str, url: str) -> dict[str, Any]:
    """`active: false` and nothing else for a token that is worth nothing; times are epoch seconds. `url`: the org's."""
    org = context.org
    user_id, expires_at = context.sessions.user_of(token), context.sessions.expiry_of(token)
    facts: dict[str, Any] = {
        "active": True,
        "scope": "api id",
        "client_id": org.settings.credentials.client_id,
        "username": org.settings.credentials.username,
        "sub": f"{url}/id/{org.organization_id}/{user_id or org.users.integration}",
        "token_type": "access_token",
    }
    if user_id is not None and expires_at is not None:
        began = min(org.clock(), expires_at - org.settings.token_lifetime) // 1000
        return facts | {"exp": expires_at // 1000, "iat": began, "nbf": began}
    if authorizations.is_good(token):
        return facts | {"scope": "refresh_token api id", "token_type": "refresh_token"}
    return {"active": False}


_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LOGIN_HOSTS = ("https://login.salesforce.com", "https://test.salesforce.com")


class TokenError(SfcdcError):
    """A request for a token that is refused, with OAuth's `error` and `error_description`; no secret is in either."""

    def __init__(self, error: str, description: str) -> None:
        self.error = error
        self.description = description
        super().__init__(f"{error}: {description}")


def oauth_routes(context: RestContext) -> list[Route]:
    """Return the authorize, token, introspect and revoke endpoints."""
    resource = _OAuth(context)
    return [
        Route("/services/oauth2/authorize", resource.authorize, methods=["GET"]),
        Route("/services/oauth2/token", resource.token, methods=["POST"]),
        Route("/services/oauth2/introspect", resource.introspect, methods=["POST"]),
        Route("/services/oauth2/revoke", resource.revoke, methods=["GET", "POST"]),
    ]


class _OAuth:
    def __init__(self, context: RestContext) -> None:
        self._context = context
        self._authorizations = Authorizations(context.org)

    def authorize(self, request: Request) -> Response:
        """Back to the client's `redirect_uri` with a code: the one user has approved the one app."""
        query = request.query_params
        redirect_uri = query.get("redirect_uri", "")
        if not _same(query.get("client_id", ""), self._credentials.client_id) or "://" not in redirect_uri:
            return _refused(TokenError("invalid_client_id", "client identifier invalid"))
        if query.get("response_type") != "code":
            return _refused(TokenError("unsupported_response_type", "response type not supported"))
        answer = {"code": self._authorizations.new_code(redirect_uri, query.get("code_challenge"))}
        if "state" in query:
            answer["state"] = query["state"]
        return RedirectResponse(f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{urlencode(answer)}", 302)

    async def token(self, request: Request) -> Response:
        """Return a token, or 400 with `error` and `error_description`."""
        form = dict(parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True))
        return await run_in_threadpool(self._token, request, form)

    def _token(self, request: Request, form: Mapping[str, str]) -> Response:
        intercepted = self._context.intercept(request) if self._context.intercept else None
        if intercepted is not None:
            return intercepted
        more: dict[str, str] = {}
        try:
            match form.get("grant_type"):
                case "client_credentials":
                    self._check_client(*_client(request, form))
                case "password":
                    self._check_client(*_client(request, form))
                    self._check_password(form)
                case "refresh_token":
                    self._check_client(*_client(request, form))
                    if not self._authorizations.is_good(form.get("refresh_token", "")):
                        raise TokenError("invalid_grant", "expired access/refresh token")
                case "authorization_code":
                    self._check_client(*_client(request, form))
                    code, redirect_uri = form.get("code", ""), form.get("redirect_uri", "")
                    if not self._authorizations.redeem(code, redirect_uri, form.get("code_verifier")):
                        raise TokenError("invalid_grant", "invalid authorization code")
                    more["refresh_token"] = self._authorizations.new_refresh_token()
                case grant if grant == _JWT_BEARER:
                    self._check_assertion(form.get("assertion", ""), base_url(request))
                case _:
                    raise TokenError("unsupported_grant_type", "grant type not supported")
        except TokenError as refused:
            return _refused(refused)
        return self._issued(base_url(request), more)

    def _issued(self, instance_url: str, more: Mapping[str, str]) -> Response:
        org = self._context.org
        user_id = org.users.integration
        identity = f"{instance_url}/id/{org.organization_id}/{user_id}"
        issued_at = str(org.clock())
        secret = org.settings.credentials.client_secret.encode()
        signature = base64.b64encode(hmac.digest(secret, (identity + issued_at).encode(), hashlib.sha256)).decode()
        return JSONResponse(
            {
                "access_token": self._context.sessions.issue(user_id),
                "signature": signature,
                "scope": "refresh_token api id" if more else "api id",
                "instance_url": instance_url,
                "id": identity,
                "token_type": "Bearer",
                "issued_at": issued_at,
                **more,
            }
        )

    def _check_client(self, client_id: str, client_secret: str) -> None:
        credentials = self._credentials
        if not _same(client_id, credentials.client_id):
            raise TokenError("invalid_client_id", "client identifier invalid")
        if not _same(client_secret, credentials.client_secret):
            raise TokenError("invalid_client", "invalid client credentials")

    def _check_password(self, form: Mapping[str, str]) -> None:
        credentials = self._credentials
        right_user = _same(form.get("username", "").lower(), credentials.username.lower())
        right_password = _same(form.get("password", ""), credentials.password + credentials.security_token)
        if not (right_user and right_password):
            raise TokenError("invalid_grant", "authentication failure")

    def _check_assertion(self, assertion: str, instance_url: str) -> None:
        credentials = self._credentials
        if credentials.public_key is None:
            raise TokenError("invalid_client", "no certificate is registered for this consumer")
        try:
            # Times are judged by the org's clock below; simple-salesforce sends `exp` as text, which is fine.
            claims = jwt.decode(
                assertion,
                _public_key(credentials.public_key),
                algorithms=["RS256"],
                options={"verify_exp": False, "verify_aud": False, "verify_iat": False, "verify_nbf": False},
            )
            expires_at = int(claims.get("exp", 0)) * 1000
        except (jwt.PyJWTError, ValueError, TypeError):
            raise TokenError("invalid_grant", "invalid assertion") from None
        if claims.get("iss") != credentials.client_id:
            raise TokenError("invalid_client_id", "client identifier invalid")
        audiences = {*_LOGIN_HOSTS, instance_url, f"{instance_url}/services/oauth2/token"}
        if str(claims.get("aud")).rstrip("/") not in audiences:
            raise TokenError("invalid_grant", "audience is invalid")
        if str(claims.get("sub")).lower() != credentials.username.lower():
            raise TokenError("invalid_grant", "user hasn't approved this consumer")
        org = self._context.org
        if expires_at <= org.clock() + org.clock_skew:
            raise TokenError("invalid_grant", "expired authorization code")

    @property
    def _credentials(self) -> Credentials:
        return self._context.org.settings.credentials

    async def introspect(self, request: Request) -> Response:
        """Say what a token is worth, to the client that it was given to."""
        form = dict(parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True))
        return await run_in_threadpool(self._introspect, request, form)

    def _introspect(self, request: Request, form: Mapping[str, str]) -> Response:
        try:
            self._check_client(*_client(request, form))
        except TokenError as refused:
            return _refused(refused)
        token = form.get("token", "")
        return JSONResponse(introspected(self._context, self._authorizations, token, base_url(request)))

    async def revoke(self, request: Request) -> Response:
        """200 when the token was one, 400 when not."""
        form = dict(parse_qsl((await request.body()).decode("utf-8", "replace"))) | dict(request.query_params)
        token = form.get("token", "")
        if self._context.sessions.revoke(token) or self._authorizations.revoke(token):
            return Response()
        return JSONResponse({"error": "unsupported_token_type", "error_description": "invalid token"}, status_code=400)


def _refused(error: TokenError) -> Response:
    return JSONResponse({"error": error.error, "error_description": error.description}, status_code=400)


def _client(request: Request, form: Mapping[str, str]) -> tuple[str, str]:
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            client_id, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise TokenError("invalid_client", "invalid client credentials") from None
        return client_id, secret
    return form.get("client_id", ""), form.get("client_secret", "")


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _public_key(pem: str) -> str:
    if "BEGIN CERTIFICATE" not in pem:
        return pem
    key = load_pem_x509_certificate(pem.encode()).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
