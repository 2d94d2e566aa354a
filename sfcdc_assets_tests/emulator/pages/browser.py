"""A browser without script: what it asks for and sends, and a page's form as nobody touched it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import requests

from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.eventually import BOUND_SECONDS

HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


class Form(HTMLParser):
    """The form of a page that has this id, or none: what a browser would send if nobody touched it."""

    def __init__(self, page: str, form_id: str) -> None:
        super().__init__(convert_charrefs=True)
        self.sent: list[tuple[str, str]] = []
        self._wanted, self._inside = form_id, False
        self._select = ""
        self._area: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = given.get("id", "") == self._wanted
        if not self._inside:
            return
        if tag == "input" and "name" in given and (given.get("type") != "checkbox" or "checked" in given):
            self.sent.append((given["name"], given.get("value", "")))
        elif tag == "select":
            self._select = given["name"]
        elif tag == "option" and self._select and "selected" in given:
            self.sent.append((self._select, given["value"]))
        elif tag == "textarea":
            self._area, self._area_name = "", given["name"]

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self._area += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        elif tag == "select":
            self._select = ""
        elif tag == "textarea" and self._area is not None:
            # HTML drops the first line break of an area, and a browser sends CRLF.
            text = self._area.removeprefix("\n")
            self.sent.append((self._area_name, text.replace("\n", "\r\n")))
            self._area = None

    def changed(self, **texts: str) -> list[tuple[str, str]]:
        """What is sent after somebody wrote these texts."""
        return [(name, texts.get(name.removeprefix("field:"), value)) for name, value in self.sent]


class Browser:
    """Requests as a browser sends them."""

    def __init__(self, server: EmulatorServer) -> None:
        self.url = server.rest_url
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.verify = str(server.ca_file)
        self.session.headers.update(HTML)

    def get(self, path: str, status: int = 200, **options: Any) -> str:
        answer = self.session.get(self.url + path, timeout=BOUND_SECONDS, **options)
        assert answer.status_code == status, answer.text
        return answer.text

    def post(self, path: str, form: Any = (), status: int = 200, **options: Any) -> str:
        headers = {"Origin": self.url, "Sec-Fetch-Site": "same-origin", **options.pop("headers", {})}
        answer = self.session.post(self.url + path, data=form, headers=headers, timeout=BOUND_SECONDS, **options)
        assert answer.status_code == status, answer.text
        return answer.text
