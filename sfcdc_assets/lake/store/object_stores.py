"""The object stores that a warehouse may lie in: how one logs in, and what they say when they refuse.

deltalake reports a login that is missing by the last of the places where it looked for one: a metadata service that is
not there, usually.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from sfcdc_assets.lake.errors import StoreRefused, StoreUnavailable
from sfcdc_assets.lake.store.store_errors import FROM_STORE, messages_of

PREFIXES = {
    **dict.fromkeys(("s3", "s3a"), "AWS_"),
    **dict.fromkeys(("az", "azure", "adl", "abfs", "abfss"), "AZURE_"),
    **dict.fromkeys(("gs", "gcs"), "GOOGLE_"),
}
"""Scheme of the warehouse's URI -> how the environment variables of its store begin."""


@dataclass(frozen=True)
class Store:
    """A store's name, what its container of objects is called, and how one logs in to it."""

    name: str
    container: str
    login: str


STORES = {
    "AWS_": Store(
        "Amazon S3",
        "bucket",
        "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN, if they came with one) and AWS_REGION "
        "where runs are started, or run where a role gives them; for a store that speaks S3, AWS_ENDPOINT_URL too.",
    ),
    "AZURE_": Store(
        "Azure storage",
        "container",
        "Set AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY, or with AZURE_CLIENT_ID, AZURE_CLIENT_SECRET "
        "and AZURE_TENANT_ID, where runs are started, or run where a managed identity gives them.",
    ),
    "GOOGLE_": Store(
        "Google Cloud Storage",
        "bucket",
        "Set GOOGLE_SERVICE_ACCOUNT to the path of a service account's key file where runs are started, or run where "
        "the machine has a service account.",
    ),
}
"""How the environment variables of a store begin -> the store."""
_RENEW = (
    "Start whatever runs here again with new ones; those of a role, of AWS_PROFILE or AWS_WEB_IDENTITY_TOKEN_FILE are "
    "renewed by themselves. All goes on from where it was."
)

_NO_LOGIN = re.compile(
    r"loading credentials|\bIMDS\b|http://169\.254\.|token request|credential error|credentials provider"
    r"|Account must be specified|Invalid Access Key|CredentialsNotLoaded|Missing (?:access key|secret)",
    re.IGNORECASE,
)
_NO_CONTAINER = re.compile(r"NoSuchBucket|ContainerNotFound|specified (?:bucket|container) does not exist|bucket .*not")
_EXPIRED = re.compile(r"ExpiredToken|TokenRefreshRequired|token (?:has|is) expired", re.IGNORECASE)
_REFUSED = re.compile(
    r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|AuthenticationFailed|lacked the necessary privileges"
    r"|did not provide valid authentication|PermissionDenied"
)
_UNREACHABLE = re.compile(
    r"error sending request|tcp connect|dns error|timed out|Connection (?:refused|reset|closed)|error decoding response"
    r"|IncompleteMessage|connection error",
    re.IGNORECASE,
)
_OF_A_REQUEST = re.compile(r"Error performing|Generic \w+ error")
"""What deltalake says of every request that failed: other connections are refused in the same words."""
_STATUS = re.compile(r"status code: (\d{3})\b")
_ANSWER = re.compile(r"<Code>([^<]*)</Code>(?:.*?<Message>([^<]*)</Message>)?", re.DOTALL)
"""An error as S3 and Azure report it. What else it has is shown nowhere: with an expired token S3 sends the token
(https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html)."""
_BAD, _REFUSALS, _BUSY = 400, (401, 403), (408, 429)
"""Statuses. S3 answers 400 where a token has expired, and to HEAD without a word more."""


def scheme_of(uri: str) -> str:
    """Return the scheme of a warehouse's URI; empty where it is a folder."""
    return urlsplit(uri).scheme.lower()


def store_of(root: str) -> Store | None:
    """Return the store of a warehouse's URI; None where it is a folder, or a store that is not known."""
    return STORES.get(PREFIXES.get(scheme_of(root), ""))


def refusal_of(root: str, error: BaseException | str) -> StoreRefused | StoreUnavailable | None:
    """Return what an error of deltalake, or its text, means where it is the store's refusal, or that it was not
    reached; None where it is about what was asked."""
    store, said = store_of(root), messages_of(str(error))
    if store is None or not said:
        return None
    text = ": ".join(said)
    found = _STATUS.search(text)
    status = int(found[1]) if found else None
    is_unreachable = bool(_OF_A_REQUEST.search(text) and _UNREACHABLE.search(text))
    if _NO_LOGIN.search(text):
        where = ": ".join(said[-2:]).rstrip(". ")  # what was tried, and why it did not do
        return StoreRefused(root, f"no credentials of {store.name} that can be used: {where}", store.login)
    if _NO_CONTAINER.search(text):
        remedy = f"Create the {store.container}, or correct SFCDC_WAREHOUSE."
        return StoreRefused(root, f"{store.name} has no such {store.container}", remedy)
    if _EXPIRED.search(text):
        return StoreRefused(root, f"{store.name} says that the credentials have expired", _RENEW)
    if status == _BAD:
        reason = f"{store.name} refuses the request: {_reason(said)}"
        return StoreRefused(root, reason, f"Often the credentials have expired. {_RENEW}")
    if status in _REFUSALS or (status is None and _REFUSED.search(text)):
        remedy = f"Let them read, write, list and delete below {root}, or set others: {store.login}"
        return StoreRefused(root, f"{store.name} refuses the credentials: {_reason(said)}", remedy)
    if status in _BUSY or (status or 0) >= 500 or (status is None and is_unreachable):
        return StoreUnavailable(root, _reason(said))
    return None


@contextmanager
def store_refusals(root: str) -> Iterator[None]:
    """Raise what the store of a warehouse refuses, or does not answer, as `StoreRefused` and `StoreUnavailable`: none
    of it says anything of a table. Without the error it comes from, which may have a token in it (`_ANSWER`)."""
    try:
        yield
    except FROM_STORE as error:
        if refusal := refusal_of(root, error):
            raise refusal from None
        raise


def _reason(said: list[str]) -> str:
    """Return what the store said, else the innermost message of the chain."""
    if answer := _ANSWER.search("\n".join(said)):
        return ": ".join(filter(None, answer.groups())).rstrip(". ")
    last = said[-1]
    return last.rpartition("error: ")[2].rstrip(". ") if len(last) > 200 else last.rstrip(". ")
