"""The object stores that a warehouse may lie in: how one logs in, and what they say when they refuse.

deltalake reports a login that is missing by the last of the places where it looked for one: a metadata service that is
not there, usually.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from sfcdc_assets.lake.errors import StoreRefused, StoreUnavailable
from sfcdc_assets.lake.store_errors import messages_of, reason_of

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

_NO_LOGIN = re.compile(
    r"loading credentials|\bIMDS\b|token request|credential error|credentials provider|Account must be specified"
    r"|Invalid Access Key|CredentialsNotLoaded|Missing (?:access key|secret)",
    re.IGNORECASE,
)
_NO_CONTAINER = re.compile(r"NoSuchBucket|ContainerNotFound|specified (?:bucket|container) does not exist|bucket .*not")
_REFUSED = re.compile(
    r"\b40[13]\b|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|AuthenticationFailed|Forbidden|PermissionDenied"
)
_UNREACHABLE = re.compile(
    r"error sending request|tcp connect|dns error|timed out|Connection (?:refused|reset)|\b5\d\d (?:Internal|Bad|Serv)",
    re.IGNORECASE,
)


def scheme_of(uri: str) -> str:
    """Of a warehouse's URI; empty where it is a folder."""
    return urlsplit(uri).scheme.lower()


def store_of(root: str) -> Store | None:
    """The store of a warehouse's URI; None where it is a folder, or a store that is not known."""
    return STORES.get(PREFIXES.get(scheme_of(root), ""))


def refusal_of(root: str, error: BaseException) -> StoreRefused | StoreUnavailable | None:
    """What an error of deltalake means where it is the store's refusal, or that it was not reached; None where it is
    about what was asked."""
    store, text = store_of(root), str(error)
    if store is None:
        return None
    reason = reason_of(error)
    if _NO_LOGIN.search(text):
        where = ": ".join(messages_of(text)[-2:]).rstrip(". ")  # what was tried, and why it did not do
        return StoreRefused(root, f"no credentials of {store.name} that can be used: {where}", store.login)
    if _NO_CONTAINER.search(text):
        remedy = f"Create the {store.container}, or correct SFCDC_WAREHOUSE."
        return StoreRefused(root, f"{store.name} has no such {store.container}", remedy)
    if _REFUSED.search(text):
        remedy = f"Let them read, write, list and delete below {root}, or set others: {store.login}"
        return StoreRefused(root, f"{store.name} refuses the credentials: {reason}", remedy)
    if _UNREACHABLE.search(text):
        return StoreUnavailable(root, reason)
    return None
