"""Salesforce ids: 15 case-sensitive characters, or 18 with a checksum suffix (docs/salesforce-streams.md, "Record
ids")."""

from __future__ import annotations

import re

_SUFFIX_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
NAMED = r"[A-Za-z0-9]{1,18}\*?"
"""What an event may name as a record, or as all of an object's (`001*`), as a regular expression that Python and Arrow
read alike."""
EMPTY = "0{0,15}(?:AAA)?"
"""What is no id, or the one of zeros, which the org gives for records that have none of their own; the same."""

_NAMED = re.compile(NAMED, re.ASCII)
_ID = re.compile(r"[A-Za-z0-9]{15}(?:[A-Z0-5]{3})?")


def is_salesforce_id(text: str) -> bool:
    """Return whether it has the form of an id, 15 or 18 characters; says nothing about its existence."""
    return _ID.fullmatch(text) is not None


def may_be_named(text: str) -> bool:
    """Return whether an event may name it as a record, or as all of an object's."""
    return _NAMED.fullmatch(text) is not None


def to_18_characters(text: str) -> str:
    """Return the 18-character form of what has 15 characters; anything else is returned as it is.

    Suffix: three chunks of five; bit k of a chunk is set where its character k is an upper-case letter.
    """
    if len(text) != 15:
        return text
    suffix = ""
    for chunk in (text[0:5], text[5:10], text[10:15]):
        suffix += _SUFFIX_ALPHABET[sum(1 << k for k, character in enumerate(chunk) if "A" <= character <= "Z")]
    return text + suffix


def eighteen_characters(salesforce_id: str) -> str:
    """Return the 18-character form of a 15- or 18-character id, its suffix computed.

    Raises `ValueError` when the text is not an id.
    """
    if not is_salesforce_id(salesforce_id):
        raise ValueError(f"{salesforce_id!r} is not a Salesforce id of 15 or 18 characters")
    return to_18_characters(salesforce_id[:15])
