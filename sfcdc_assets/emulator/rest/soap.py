"""The one SOAP call that REST has no word for: `undelete` of the partner API, with the session in the SOAP header."""

from __future__ import annotations

from xml.etree import ElementTree
from xml.sax.saxutils import escape

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfcdc_assets.emulator.errors import ApiError, RecordError
from sfcdc_assets.emulator.ids import to_18
from sfcdc_assets.emulator.rest.rest_context import RestContext

_SOAP = "{http://schemas.xmlsoap.org/soap/envelope/}"
_PARTNER = "{urn:partner.soap.sforce.com}"
_MAX_IDS = 200


def soap_routes(context: RestContext) -> list[Route]:
    """`POST /services/Soap/u/{version}`; anything but `undelete` is a fault."""

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(_answer, context, await request.body(), request.path_params["version"])

    return [
        Route("/services/Soap/u/{version}", endpoint, methods=["POST"]),
        Route("/services/Soap/u/{version}/{organization}", endpoint, methods=["POST"]),
    ]


def _answer(context: RestContext, body: bytes, version: str) -> Response:
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        return _fault("INVALID_SOAP", "document types are not allowed")
    try:
        envelope = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        return _fault("INVALID_SOAP", f"the request is not XML: {error}")
    session = envelope.findtext(f"{_SOAP}Header/{_PARTNER}SessionHeader/{_PARTNER}sessionId", "").strip()
    user_id = context.sessions.user_of(session)
    if user_id is None:
        return _fault("INVALID_SESSION_ID", "Session expired or invalid")
    context.usage.add()
    call = envelope.find(f"{_SOAP}Body/{_PARTNER}undelete")
    ids = [(item.text or "").strip() for item in call.findall(f"{_PARTNER}ids")] if call is not None else []
    if call is None or len(ids) > _MAX_IDS:
        return _fault(
            "UNSUPPORTED_API", f"this org answers the SOAP call undelete, of at most {_MAX_IDS} ids, and no other"
        )
    client = envelope.findtext(f"{_SOAP}Header/{_PARTNER}CallOptions/{_PARTNER}client", "").strip()
    with context.org.transaction(
        user_id=user_id, change_origin=f"com/salesforce/api/soap/{version};client={client}"
    ) as unit_of_work:
        results = []
        for record_id in ids:
            try:
                unit_of_work.undelete(_entity(context, record_id), record_id)
                results.append(f"<result><id>{to_18(record_id)}</id><success>true</success></result>")
            except ApiError as error:
                results.append(
                    f"<result><errors><message>{escape(error.message)}</message>"
                    f"<statusCode>{error.error_code}</statusCode></errors><success>false</success></result>"
                )
    return _envelope(
        f'<undeleteResponse xmlns="urn:partner.soap.sforce.com">{"".join(results)}</undeleteResponse>', 200
    )


def _entity(context: RestContext, record_id: str) -> str:
    for definition in context.org.definitions.values():
        if record_id.startswith(definition.key_prefix) and definition.name not in context.org.hidden_objects:
            return definition.name
    raise RecordError("MALFORMED_ID", f"malformed id {record_id}")


def _fault(code: str, message: str) -> Response:
    return _envelope(
        f"<soapenv:Fault><faultcode>sf:{code}</faultcode><faultstring>{code}: {escape(message)}</faultstring><detail>"
        f'<sf:ApiFault xmlns:sf="urn:fault.partner.soap.sforce.com"><sf:exceptionCode>{code}</sf:exceptionCode>'
        f"<sf:exceptionMessage>{escape(message)}</sf:exceptionMessage></sf:ApiFault></detail></soapenv:Fault>",
        500,
    )


def _envelope(inner: str, status: int) -> Response:
    return Response(
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/">'
        f"<soapenv:Body>{inner}</soapenv:Body></soapenv:Envelope>",
        status_code=status,
        media_type="text/xml; charset=UTF-8",
    )
