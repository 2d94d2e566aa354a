"""The `simple-salesforce` client over a session of ours, for scripts and for resources that this package has no module
for.

This package's own reads use `OrgSession.request`: simple-salesforce has no typed refusals, fails on answers that are
not JSON, and its bulk2 handler neither streams to a file nor resumes at a locator. It is imported here alone: it
takes a quarter of a second to load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import requests
import simple_salesforce
from requests.adapters import HTTPAdapter

from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.salesforce.transport import READING_METHODS


def simple_salesforce_client(session: OrgSession) -> simple_salesforce.Salesforce:
    """Return the client. Its calls get the session's roots, time limits, tries and token renewal, because its HTTP
    session is ours; they raise what `OrgSession.send` raises."""
    return simple_salesforce.Salesforce(
        session_id=session.token(),
        instance_url=session.instance_url,
        version=session.version,
        session=_Http(session.send, session.instance_url, session.new_adapter()),
    )


class _Http(requests.Session):
    """A `requests.Session` whose every request goes through `send` (`OrgSession.send`) to `instance_url`, and nowhere
    else: the token must not reach another host.

    So simple-salesforce never sees a 401: a token is renewed below it, or `SessionExpired` is raised. That is also what
    keeps `SFType._call_salesforce` from recursing without bound on a server that goes on refusing
    (docs/salesforce-streams.md, "simple-salesforce").
    """

    def __init__(self, send: Callable[..., requests.Response], instance_url: str, adapter: HTTPAdapter) -> None:
        super().__init__()
        self.mount("https://", adapter)
        self._send = send
        self._instance_url = instance_url

    def request(self, method: str | bytes, url: str | bytes, *_args: Any, **kwargs: Any) -> requests.Response:
        """Send a request by the org's session, with its current token and its tries."""
        # simple-salesforce puts the token it was built with into the headers; `send` puts the current one over it.
        name = method.decode() if isinstance(method, bytes) else method
        address = url.decode() if isinstance(url, bytes) else url
        if not address.startswith(self._instance_url + "/"):
            raise requests.exceptions.InvalidURL(f"{address.partition('?')[0]} is not below {self._instance_url}")
        return self._send(name, address, repeatable=name.upper() in READING_METHODS, **kwargs)
