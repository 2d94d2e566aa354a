"""What can go wrong between this client and the org's REST side, each with the facts and the remedy.

Texts of the org (`message`, `error_description`) are quoted because they say most; secrets never are, and whoever
quotes a login answer redacts first.
"""

from __future__ import annotations

import re

from sfcdc_assets.runtime.errors import SfcdcError, TransientError
from sfcdc_assets.runtime.foreign_text import shortened


def _sentence(text: str) -> str:
    """Return the org's own text on one line and of bounded length: it is quoted inside a sentence."""
    return shortened(" ".join(text.split()).rstrip("."), 500)


class LoginRefused(SfcdcError):
    """The org's login host gave no token for the grant that was tried."""

    def __init__(self, grant: str, login_url: str, error: str, description: str, settings: tuple[str, ...]) -> None:
        self.grant = grant
        self.login_url = login_url
        self.error = error
        self.description = description
        self.settings = settings
        said = f"{error} ({_sentence(description)})" if description else error
        super().__init__(f"{login_url} refused the login by {grant}: {said}. Check {', '.join(settings)}.")


class InstanceNotTrusted(SfcdcError):
    """The login names an instance that is neither a host of Salesforce nor the host of the login."""

    def __init__(self, instance_url: str, login_host: str) -> None:
        self.instance_url = instance_url
        super().__init__(
            f"{login_host} names {instance_url} as the org's instance, which is no host of Salesforce: no token is "
            "sent there. If it is yours, set SFCDC_INSTANCE_URL; otherwise find out who answers at SFCDC_LOGIN_URL."
        )


class SessionExpired(SfcdcError):
    """The org does not take the access token, and there is no way (left) to get a better one."""

    def __init__(self, instance_url: str, *, renewed: bool) -> None:
        self.instance_url = instance_url
        self.renewed = renewed
        if renewed:
            problem = "refuses even a fresh access token"
            remedy = (
                "Check that SFCDC_INSTANCE_URL is the org that SFCDC_LOGIN_URL logs in to, that the user has the "
                "permission 'API Enabled', and that the connected app does not lock sessions to an IP address."
            )
        else:
            problem = "says that the access token is expired or invalid"
            remedy = "Put a valid token into SFCDC_ACCESS_TOKEN, or set a login that can renew it by itself."
        super().__init__(f"The org {instance_url} {problem}. {remedy}")


class OrgUnreachable(TransientError):
    """No connection: the name does not resolve, the port refuses, or it does not speak TLS."""

    def __init__(self, url: str, setting: str, reason: str) -> None:
        self.url = url
        self.setting = setting
        self.reason = reason
        super().__init__(f"{url} cannot be reached ({_sentence(reason)}). Check {setting} and the network.")


class CertificateNotTrusted(SfcdcError):
    """The server's certificate does not prove that it is the host asked for."""

    def __init__(self, url: str, setting: str, reason: str) -> None:
        self.url = url
        self.setting = setting
        self.reason = reason
        super().__init__(
            f"The certificate of {url} is not trusted ({_sentence(reason)}). Put the root certificate that signed it "
            f"into a PEM file and name that in SFCDC_CA_FILE, or correct {setting}."
        )


class OrgUnavailable(TransientError):
    """The org did not answer in good order within the bounded number of tries."""

    def __init__(
        self, url: str, tries: int, problem: str, *, timed_out: bool = False, status: int | None = None
    ) -> None:
        self.url = url
        self.tries = tries
        self.problem = problem
        self.timed_out = timed_out
        self.status = status
        super().__init__(
            f"The org did not answer {url} after {tries} {'try' if tries == 1 else 'tries'} ({_sentence(problem)}). "
            "Nothing is lost; run again later, or look at https://status.salesforce.com."
        )


class OrganizationReplaced(SfcdcError):
    """Another org answers the login in the middle of a session: a sandbox was refreshed."""

    def __init__(self, before: str, now: str) -> None:
        self.before, self.now = before, now
        super().__init__(
            f"The login leads to the organization {now} by now; this session began with {before}. Nothing of the new "
            "one was read. Run the command again: it says how to go on."
        )


class ApiLimitReached(SfcdcError):
    """The org's allowance of API requests or of Bulk jobs is used up. Trying again at once would only make it worse."""

    def __init__(self, instance_url: str, message: str) -> None:
        self.instance_url = instance_url
        self.message = message
        said = "takes no more Bulk jobs" if "bulk" in message.lower() else "takes no more API requests"
        super().__init__(
            f"The org {instance_url} {said}: {_sentence(message)}. The allowance is counted over "
            "24 hours; wait, or have it raised, or stop other clients that use it up."
        )


class RequestRefused(SfcdcError):
    """The org refused one request (4xx) with an errorCode of its own; base of the refusals that have a remedy."""

    def __init__(self, what: str, status: int, error_code: str, message: str) -> None:
        self.what = what
        self.status = status
        self.error_code = error_code
        self.message = message
        super().__init__(self._text())

    def _text(self) -> str:
        return f"The org refused {self.what} with {self.status} {self.error_code}: {_sentence(self.message)}."


class EntityNotReadable(RequestRefused):
    """The user of the token may not read an entity, or the org has none of that name."""

    def __init__(self, entity: str, status: int, error_code: str, message: str) -> None:
        self.entity = entity
        super().__init__(f"reading {entity}", status, error_code, message)

    def _text(self) -> str:
        return (
            f"The entity {self.entity} cannot be read ({self.error_code}: {_sentence(self.message)}). Give the user "
            f"the permission 'View All Records' on {self.entity}, or leave it out of SFCDC_ENTITIES, and of SFCDC_POLL "
            "where it is polled."
        )


_BEFORE_THE_REASON = re.compile(r".*ERROR at Row:\d+:Column:\d+\s+", re.DOTALL)
"""The org quotes the query, which may be longer than what is shown of a message, before it says what is wrong."""

_TOOK_TOO_LONG = frozenset({"QUERY_TIMEOUT", "OPERATION_TOO_LARGE"})


class QueryRefused(RequestRefused):
    """The org does not take a SOQL query or its locator. Carries the query."""

    def __init__(self, soql: str, status: int, error_code: str, message: str) -> None:
        self.soql = soql
        super().__init__("a query", status, error_code, message)

    @property
    def took_too_long(self) -> bool:
        """Whether the org has given up on it: asked for fewer records, it may answer."""
        return self.error_code in _TOOK_TOO_LONG

    def _text(self) -> str:
        reason = _BEFORE_THE_REASON.sub("", self.message)
        remedy = (
            "Fewer records at once, or at another time, may do"
            if self.took_too_long
            else "Give the user Read and View All Records on the object, or leave it out"
            if self.error_code == "INVALID_TYPE"
            else "If it names a field that was removed or hidden from the user, run again (the fields are read again), "
            "or give the user access to the field"
        )
        return (
            f"The org refused the query with {self.error_code}: {_sentence(reason)}. "
            f"The query was: {_sentence(self.soql)}. {remedy}."
        )


class BulkJobFailed(SfcdcError):
    """A bulk query job ended without results, or did not end in time."""

    def __init__(self, job_id: str, entity: str, state: str, message: str) -> None:
        self.job_id = job_id
        self.entity = entity
        self.state = state
        """Failed or Aborted, or for one that was waited for in vain what it was then."""
        self.message = message
        super().__init__(
            f"The bulk query job {job_id} over {entity} is {state}: {_sentence(message)}. "
            "Run the snapshot of this entity again; it starts a new job."
        )


class BulkJobGone(SfcdcError):
    """The org no longer has a bulk query job (results are kept for 7 days, and anyone may delete a job)."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(
            f"The bulk query job {job_id} no longer exists in the org. "
            "Run the snapshot of this entity again; it starts a new job at a new position of the stream."
        )


class RowsUnreadable(SfcdcError):
    """Most rows of a page hold a value that is none of its field's type: it is the field, and no record."""

    def __init__(self, url: str, unreadable: int, rows: int, problem: str) -> None:
        self.url, self.unreadable, self.rows, self.problem = url, unreadable, rows, problem
        super().__init__(
            f"{url}: more than {unreadable:,} of the {rows:,} rows of a page cannot be read ({problem}). Nothing of "
            "the page is kept, and this object's copy waits; all others go on. Leave the field out by SFCDC_EXCLUDE "
            "and report it, with the field's type in the org's describe."
        )


class UnexpectedAnswer(SfcdcError):
    """An answer that is not what the resource is documented to give: not JSON, not CSV, wrong length, a redirect."""

    def __init__(self, url: str, problem: str, setting: str = "SFCDC_INSTANCE_URL") -> None:
        self.url = url
        self.problem = problem
        self.setting = setting
        super().__init__(
            f"{url} gave an unexpected answer: {_sentence(problem)}. Check that {setting} is the org's own address, "
            "such as https://<My Domain>.my.salesforce.com, and that no proxy answers in its place."
        )


ORG_AWAY = (ApiLimitReached, OrgUnavailable, OrgUnreachable)
"""What any request ends with now: the org takes no more of them today, or gives no answers."""
NO_ANSWER = (*ORG_AWAY, RequestRefused, SessionExpired, UnexpectedAnswer)
"""The same, and what this one is refused with, whatever the token, or answered with that is no answer. Who can do
without goes on; a login that is refused is none of these."""
