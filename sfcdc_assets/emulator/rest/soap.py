"""Calls of the SOAP API that REST has no word for: `login` without a connected app and what belongs to it, `undelete`,
`merge` and `convertLead`. The Enterprise API has them as the Partner API has, in a namespace of its own."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfcdc_assets.emulator.errors import ApiError, RecordError
from sfcdc_assets.emulator.org.ids import instance_characters, to_15, to_18
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.profiles import profiles
from sfcdc_assets.emulator.records.field_value import datetime_text
from sfcdc_assets.emulator.records.lead_conversion import CONVERTED_STATUS
from sfcdc_assets.emulator.records.person_account import has_person_accounts
from sfcdc_assets.emulator.records.unit_of_work import UnitOfWork
from sfcdc_assets.emulator.rest.api_request import origin_of_api
from sfcdc_assets.emulator.rest.rest_context import RestContext, base_url


def is_right_password(context: RestContext, username: str, password: str) -> bool:
    """Return whether the user's password, with the security token at its end, is right."""
    credentials = context.org.settings.credentials
    expected = credentials.password + credentials.security_token
    is_right_user = hmac.compare_digest(username.lower().encode(), credentials.username.lower().encode())
    return hmac.compare_digest(password.encode(), expected.encode()) and is_right_user


def login_result(context: RestContext, server: str, api: str, version: str) -> str:
    """Return the elements inside `result`, with a new session of the integration user. `server`: the URL of the SOAP
    APIs up to their letters; `api`: the letter of the one that was asked."""
    org = context.org
    tail = f"{version}/{to_15(org.organization_id)}"
    values = {
        "metadataServerUrl": f"{server}/m/{tail}",
        "passwordExpired": "false",
        "sandbox": "true" if org.settings.is_sandbox else "false",
        "serverUrl": f"{server}/{api}/{tail}",
        "sessionId": context.sessions.issue(org.users.integration),
        "userId": org.users.integration,
    }
    return f"{_elements(values)}<userInfo>{user_info(org)}</userInfo>"


def user_info(org: EmulatedOrg) -> str:
    """Return the elements of `GetUserInfoResult`."""
    account = org.definitions.get("Account")
    return _elements(
        {
            "accessibilityMode": "false",
            "chatterExternal": "false",
            "currencySymbol": "$",
            "orgAttachmentFileSizeLimit": "5242880",
            "orgDefaultCurrencyIsoCode": "USD",
            "orgDefaultCurrencyLocale": "en_US",
            "orgDisallowHtmlAttachments": "false",
            "orgHasPersonAccounts": "true" if account is not None and has_person_accounts(account) else "false",
            "organizationId": org.organization_id,
            "organizationMultiCurrency": "false",
            "organizationName": "Emulated org",
            "profileId": profiles(instance_characters(org.seed))[0].id,
            "roleId": None,
            "sessionSecondsValid": str(org.settings.token_lifetime // 1000),
            "userDefaultCurrencyIsoCode": None,
            "userEmail": org.settings.credentials.username,
            "userFullName": "Integration User",
            "userId": org.users.integration,
            "userLanguage": "en_US",
            "userLocale": "en_US",
            "userName": org.settings.credentials.username,
            "userTimeZone": "GMT",
            "userType": "Standard",
            "userUiSkin": "Theme3",
        }
    )


def _elements(values: Mapping[str, str | None]) -> str:
    return "".join(
        f'<{name} xsi:nil="true"/>' if value is None else f"<{name}>{escape(value)}</{name}>"
        for name, value in values.items()
    )


_SOAP = "{http://schemas.xmlsoap.org/soap/envelope/}"
_PARTNER = "{urn:partner.soap.sforce.com}"
_APIS = {"u": "partner", "c": "enterprise"}
_OTHER_APIS = {"m": "Metadata API", "T": "Tooling API by SOAP", "s": "Apex API"}
_MAX_RECORDS = 200

Change = Callable[[UnitOfWork], str]
"""Makes one record's change and returns what the result says of it, as XML; raises ApiError."""


def soap_routes(context: RestContext) -> list[Route]:
    """`POST /services/Soap/u/{version}`, and `c`; anything but the calls above, and any other SOAP API, is a fault."""

    async def endpoint(request: Request) -> Response:
        api, version = request.path_params["api"], request.path_params["version"]
        return await run_in_threadpool(_answer, context, await request.body(), api, version, base_url(request))

    return [
        Route("/services/Soap/{api}/{version}" + tail, endpoint, methods=["POST"])
        for tail in ("", "/", "/{organization}", "/{organization}/")
    ]


def _answer(context: RestContext, body: bytes, api: str, version: str, server: str) -> Response:
    name = _APIS.get(api, "partner")
    try:
        if api not in _APIS:
            raise ApiError("UNSUPPORTED_API", f"this org has no {_OTHER_APIS.get(api, 'such API')}")
        call, inner = _called(context, _envelope_in(body, name), version, f"{server}/services/Soap", api)
    except ApiError as error:
        return _fault(name, error)
    return _envelope(f'<{call}Response xmlns="urn:{name}.soap.sforce.com">{inner}</{call}Response>', 200)


def _envelope_in(body: bytes, name: str) -> Element:
    """Return the request, as one to the Partner API has it. Raises ApiError."""
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise ApiError("INVALID_SOAP", "document types are not allowed")
    try:
        envelope = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise ApiError("INVALID_SOAP", f"the request is not XML: {error}") from None
    namespace = f"{{urn:{name}.soap.sforce.com}}"
    for element in envelope.iter():
        if element.tag.startswith(namespace):
            element.tag = _PARTNER + element.tag.removeprefix(namespace)
    return envelope


def _called(context: RestContext, envelope: Element, version: str, server: str, api: str) -> tuple[str, str]:
    """Return the name of the call, and what its answer has inside. `server`: up to the APIs' letters. Raises
    ApiError."""
    login = envelope.find(f"{_SOAP}Body/{_PARTNER}login")
    if login is not None:
        return "login", _login(context, login, server, api, version)
    session = envelope.findtext(f"{_SOAP}Header/{_PARTNER}SessionHeader/{_PARTNER}sessionId", "").strip()
    user_id = context.sessions.user_of(session)
    if user_id is None:
        raise ApiError("INVALID_SESSION_ID", "Session expired or invalid")
    context.usage.add()
    if envelope.find(f"{_SOAP}Body/{_PARTNER}getUserInfo") is not None:
        return "getUserInfo", f"<result>{user_info(context.org)}</result>"
    if envelope.find(f"{_SOAP}Body/{_PARTNER}getServerTimestamp") is not None:
        now = datetime_text(context.org.clock(), "Z")
        return "getServerTimestamp", f"<result><timestamp>{now}</timestamp></result>"
    if envelope.find(f"{_SOAP}Body/{_PARTNER}logout") is not None:
        context.sessions.revoke(session)
        return "logout", ""
    client = envelope.findtext(f"{_SOAP}Header/{_PARTNER}CallOptions/{_PARTNER}client", "").strip()
    origin = origin_of_api("soap", version, client)
    for name, read in (("undelete", _restorations), ("merge", _merges), ("convertLead", _conversions)):
        call = envelope.find(f"{_SOAP}Body/{_PARTNER}{name}")
        if call is None:
            continue
        changes = read(context, call)
        if len(changes) > _MAX_RECORDS:
            raise ApiError("EXCEEDED_ID_LIMIT", f"at most {_MAX_RECORDS} records can be changed in one call")
        with context.org.transaction(user_id=user_id, change_origin=origin, as_client=True) as unit_of_work:
            return name, "".join(_result(unit_of_work, change) for change in changes)
    raise ApiError(
        "UNSUPPORTED_API",
        "this org answers the SOAP calls login, logout, getUserInfo, getServerTimestamp, undelete, merge and "
        "convertLead, and no other",
    )


def _login(context: RestContext, login: Element, server: str, api: str, version: str) -> str:
    """Return a session for the integration user; the password ends with the security token, as in every such login."""
    username, password = (login.findtext(f"{_PARTNER}{name}", "").strip() for name in ("username", "password"))
    if not is_right_password(context, username, password):
        raise ApiError("INVALID_LOGIN", "Invalid username, password, security token; or user locked out.")
    return f"<result>{login_result(context, server, api, version)}</result>"


def _restorations(context: RestContext, call: Element) -> list[Change]:
    def restoration(record_id: str) -> Change:
        def change(unit_of_work: UnitOfWork) -> str:
            unit_of_work.undelete(_entity(context, record_id), record_id)
            return f"<id>{to_18(record_id)}</id>"

        return change

    return [restoration(record_id) for record_id in _texts(call, "ids")]


def _merges(context: RestContext, call: Element) -> list[Change]:
    """`request` elements of a master record, with values to set, and one or two records to merge into it."""

    def merge(request: Element) -> Change:
        def change(unit_of_work: UnitOfWork) -> str:
            master = request.find(f"{_PARTNER}masterRecord")
            values = {part.tag.rpartition("}")[2]: part.text for part in master} if master is not None else {}
            entity, record_id = values.pop("type", None) or "", values.pop("Id", None) or ""
            losers = tuple(_texts(request, "recordToMergeIds"))
            unit_of_work.merge(context.definition(entity).name, record_id, losers, reparent=True)
            if values:
                unit_of_work.update(context.definition(entity).name, record_id, values)
            return f"<id>{to_18(record_id)}</id>"

        return change

    return [merge(request) for request in call.findall(f"{_PARTNER}request")]


def _conversions(_context: RestContext, call: Element) -> list[Change]:
    """`leadConverts` elements."""

    def conversion(request: Element) -> Change:
        def text(name: str) -> str | None:
            return request.findtext(f"{_PARTNER}{name}", "").strip() or None

        def change(unit_of_work: UnitOfWork) -> str:
            lead = unit_of_work.convert_lead(
                text("leadId") or "",
                account_id=text("accountId"),
                contact_id=text("contactId"),
                opportunity=text("doNotCreateOpportunity") != "true",
                opportunity_name=text("opportunityName"),
                status=text("convertedStatus") or CONVERTED_STATUS,
            )
            return (
                f"<accountId>{lead.account_id}</accountId><contactId>{lead.contact_id}</contactId>"
                f"<leadId>{lead.lead_id}</leadId><opportunityId>{lead.opportunity_id or ''}</opportunityId>"
            )

        return change

    return [conversion(request) for request in call.findall(f"{_PARTNER}leadConverts")]


def _result(unit_of_work: UnitOfWork, change: Change) -> str:
    try:
        return f"<result>{change(unit_of_work)}<success>true</success></result>"
    except ApiError as error:
        return (
            f"<result><errors><message>{escape(error.message)}</message>"
            f"<statusCode>{error.error_code}</statusCode></errors><success>false</success></result>"
        )


def _texts(element: Element, name: str) -> list[str]:
    return [(item.text or "").strip() for item in element.findall(f"{_PARTNER}{name}")]


def _entity(context: RestContext, record_id: str) -> str:
    for definition in context.org.definitions.values():
        if record_id.startswith(definition.key_prefix) and definition.name not in context.org.hidden_objects:
            return definition.name
    raise RecordError("MALFORMED_ID", f"malformed id {record_id}")


def _fault(name: str, error: ApiError) -> Response:
    code, message = error.error_code, escape(error.message)
    return _envelope(
        f"<soapenv:Fault><faultcode>sf:{code}</faultcode><faultstring>{code}: {message}</faultstring><detail>"
        f'<sf:ApiFault xmlns:sf="urn:fault.{name}.soap.sforce.com"><sf:exceptionCode>{code}</sf:exceptionCode>'
        f"<sf:exceptionMessage>{message}</sf:exceptionMessage></sf:ApiFault></detail></soapenv:Fault>",
        500,
    )


def _envelope(inner: str, status: int) -> Response:
    return Response(
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
        f"<soapenv:Body>{inner}</soapenv:Body></soapenv:Envelope>",
        status_code=status,
        media_type="text/xml; charset=UTF-8",
    )
