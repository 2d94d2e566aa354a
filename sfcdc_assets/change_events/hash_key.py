"""The key of hashed columns: named by an id wherever it is shown or stored, its secret only in memory."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from sfcdc_assets.runtime.errors import SfcdcError

_ID_TEXT = "sfcdc_assets key id"
_ID_LENGTH = 8


class HashKeyMissing(SfcdcError):
    """A value should be hashed with a key of which only the id is known."""

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        super().__init__(f"SFCDC_HASH_KEY: a column is hashed with the key {key_id}, which is not the one that is set.")


@dataclass(frozen=True, slots=True)
class HashKey:
    """Hashes texts by HMAC-SHA-256. Two keys are equal when their ids are; neither repr nor pickled tables say more.

    `id` is the first 8 hex digits of the hash of a fixed text, so that a table says whether it was made with the key.
    """

    id: str
    secret: bytes | None = field(default=None, repr=False, compare=False)
    """None for a key that only a table's metadata names."""

    @classmethod
    def of(cls, secret: str) -> HashKey:
        """Return the key of a setting's text: its UTF-8."""
        key = secret.encode()
        return cls(_digest(key, _ID_TEXT)[:_ID_LENGTH], key)

    def digest(self, text: str) -> str:
        """Return the hash of a text's UTF-8, 64 lower-case hex digits. Raises `HashKeyMissing`."""
        if self.secret is None:
            raise HashKeyMissing(self.id)
        return _digest(self.secret, text)


def _digest(secret: bytes, text: str) -> str:
    # A lone surrogate, which only JSON can bring, has no UTF-8 of its own; it gets the same bytes each time.
    return hmac.digest(secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hex()
