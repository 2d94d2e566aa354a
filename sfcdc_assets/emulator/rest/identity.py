"""Who a token belongs to: `userinfo` of OpenID, and the identity URL that token answers name as `id`
(https://help.salesforce.com/s/articleView?id=xcloud.remoteaccess_using_openid.htm)."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.org.ids import is_id, to_15, to_18
from sfcdc_assets.emulator.records.field_value import datetime_text
from sfcdc_assets.emulator.rest.rest_context import RestContext, base_url


def identity_routes(context: RestContext) -> list[Route]:
    """`/services/oauth2/userinfo` and `/id/{organization}/{user}`."""

    def userinfo(request: Request) -> Response:
        try:
            user_id = context.authenticate(request)
        except ApiError:
            return _refused("Bad_OAuth_Token", 403)
        facts = _facts(context, user_id, base_url(request))
        facts["sub"] = facts.pop("id")
        return JSONResponse(facts | {"preferred_username": facts["username"], "name": facts["display_name"]})

    def identity(request: Request) -> Response:
        token = request.query_params.get("oauth_token")
        if token is None and "authorization" not in request.headers:
            return _refused("Missing_OAuth_Token", 403)
        try:
            user_id = context.sessions.user_of(token) if token is not None else context.authenticate(request)
        except ApiError:
            user_id = None
        if user_id is None:
            return _refused("Bad_OAuth_Token", 403)
        organization, user = request.path_params["organization"], request.path_params["user"]
        if not is_id(organization) or not is_id(user):
            return _refused("Bad_Id", 404)
        if to_18(organization) != context.org.organization_id:
            return _refused("Wrong_Org", 403)
        if to_18(user) != user_id:
            return _refused("Bad_Id", 404)
        return JSONResponse(_facts(context, user_id, base_url(request)))

    return [
        Route("/services/oauth2/userinfo", userinfo, methods=["GET", "POST"]),
        Route("/id/{organization}/{user}", identity, methods=["GET", "POST"]),
    ]


def _facts(context: RestContext, user_id: str, url: str) -> dict[str, Any]:
    org = context.org
    username = org.settings.credentials.username
    data_path, soap = "/services/data/v{version}/", f"{{version}}/{to_15(org.organization_id)}"
    return {
        "id": f"{url}/id/{org.organization_id}/{user_id}",
        "asserted_user": True,
        "user_id": user_id,
        "organization_id": org.organization_id,
        "username": username,
        "nick_name": username.split("@", maxsplit=1)[0],
        "nickname": username.split("@", maxsplit=1)[0],
        "display_name": "Integration User",
        "email": username,
        "email_verified": True,
        "first_name": "Integration",
        "last_name": "User",
        "timezone": "GMT",
        "status": {"created_date": None, "body": None},
        "urls": {
            "enterprise": f"{url}/services/Soap/c/{soap}",
            "metadata": f"{url}/services/Soap/m/{soap}",
            "partner": f"{url}/services/Soap/u/{soap}",
            "rest": url + data_path,
            "sobjects": f"{url}{data_path}sobjects/",
            "search": f"{url}{data_path}search/",
            "query": f"{url}{data_path}query/",
            "recent": f"{url}{data_path}recent/",
            "tooling_soap": f"{url}/services/Soap/T/{soap}",
            "tooling_rest": f"{url}{data_path}tooling/",
            "profile": f"{url}/{user_id}",
            "custom_domain": url,
        },
        "active": True,
        "user_type": "STANDARD",
        "language": "en_US",
        "locale": "en_US",
        "utcOffset": 0,
        "last_modified_date": datetime_text(0, "Z"),
        "is_app_installed": True,
    }


def _refused(reason: str, status: int) -> Response:
    return Response(reason, status_code=status, media_type="text/plain")
