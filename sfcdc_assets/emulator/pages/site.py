"""How every page is made: templates that escape what records hold, headers that keep scripts and frames out, and times
and numbers as people write them. Times are UTC, as in events."""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import PREFIX, ControlError
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.serving.running_org import RunningOrg
from sfcdc_assets.runtime.times import utc

PAGES = f"{PREFIX}/pages"
"""Below it are all pages but the first, which is the root."""
FOLDER = Path(__file__).parent
_MOST_NOTICES = 100
_HEADERS = {
    # Nothing but this site's own files runs or is loaded, whatever a record's value says.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With no-referrer, browsers send "null" as the origin of a form.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class PageRequest:
    """A browser's request: parameters of path and query, and the form, whose names may come several times."""

    request: Request
    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, tuple[str, ...]]

    def sent(self, name: str, default: str = "") -> str:
        """Return the last value of a name of the form."""
        return self.form.get(name, (default,))[-1]


Handler = Callable[[PageRequest], Response]


class Site:
    """The pages of one org, as far as all have it in common."""

    def __init__(self, running: RunningOrg) -> None:
        self.running = running
        self._lock = threading.Lock()
        self._notices: OrderedDict[str, str] = OrderedDict()
        self._templates = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(moment=moment, clock_time=clock_time, code=code, number=number, path=_path_part)
        self._templates.globals.update(pages=PAGES, age=lambda since: age(running.org.clock() - since))

    def page(self, request: PageRequest, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page, with the sentence of what was just done, if something was."""
        org = self.running.org
        common = {
            "notice": self._taken_notice(request.query.get("notice", "")),
            "problem": "",
            "organization_id": org.organization_id,
            "instance": org.instance_name,
            "objects": list(org.definitions.values()),
        }
        return self._response(template, {**common, **values}, status)

    def fragment(self, template: str, headers: Mapping[str, str], **values: Any) -> HTMLResponse:
        """Return a part of a page for the script to put in."""
        response = self._response(template, values, 200)
        response.headers.update(headers)
        return response

    def done(self, sentence: str, path: str) -> Response:
        """To another page, which says that something was done; loading it again does nothing again."""
        token = secrets.token_urlsafe(8)
        with self._lock:
            self._notices[token] = sentence
            while len(self._notices) > _MOST_NOTICES:
                self._notices.popitem(last=False)
        return RedirectResponse(f"{path}{'&' if '?' in path else '?'}notice={token}", status_code=303)

    def route(self, path: str, handler: Handler, method: str = "GET") -> Route:
        """Serve a page below `PAGES`. What it refuses is a page too, with Salesforce's sentence."""

        async def endpoint(request: Request) -> Response:
            body = await request.body()
            return await run_in_threadpool(self.answer, request, body, handler)

        return Route(PAGES + path, endpoint, methods=[method])

    def answer(self, request: Request, body: bytes, handler: Handler) -> Response:
        """Return the handler's page, or one that says why there is none."""
        form: dict[str, list[str]] = {}
        for name, value in parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True):
            form.setdefault(name, []).append(value)
        sent = {name: tuple(values) for name, values in form.items()}
        page_request = PageRequest(request, request.path_params, dict(request.query_params), sent)
        try:
            return handler(page_request)
        except ControlError as error:
            return self.page(page_request, "problem.html", status=400, problem=str(error))
        except ApiError as error:
            return self.page(page_request, "problem.html", status=error.status, problem=error.message)

    def _response(self, template: str, values: Mapping[str, Any], status: int) -> HTMLResponse:
        text = self._templates.get_template(template).render(values)
        return HTMLResponse(text, status_code=status, headers=_HEADERS)

    def _taken_notice(self, token: str) -> str:
        with self._lock:
            return self._notices.pop(token, "")


def _path_part(text: str) -> str:
    return quote(text, safe="")


def moment(milliseconds: int) -> str:
    """`2026-11-22 05:12:33 UTC`."""
    return f"{utc(milliseconds):%Y-%m-%d %H:%M:%S} UTC"


def clock_time(milliseconds: int) -> str:
    """`05:12:33`."""
    return f"{utc(milliseconds):%H:%M:%S}"


def number(value: int | float) -> str:
    """Write a number with commas between thousands; whole where it is whole."""
    return f"{int(value):,}" if value == int(value) else f"{value:,}"


def age(milliseconds: int) -> str:
    """`12 s`, `3 min`, `5 h` or `2 d`; nothing lies in the future."""
    seconds = max(0, milliseconds) // 1000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def code(text: str) -> Markup:
    """Text of the program's own with its `names` in the type of code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
