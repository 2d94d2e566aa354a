"""Record ids in their 18-character form (docs/salesforce-streams.md, "Record ids").

The 15 characters of an id are case-sensitive; three more encode their case, so that the 18 are unique in any case.
"""

from __future__ import annotations

_SUFFIX = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"


def to_18_characters(record_id: str) -> str:
    """The id with its suffix; an id that has one (or is no id of 15 characters) is returned as it is."""
    if len(record_id) != 15:
        return record_id
    suffix = ""
    for chunk in (record_id[0:5], record_id[5:10], record_id[10:15]):
        # Bit k of the index is set when character k of the chunk is an upper-case letter.
        suffix += _SUFFIX[sum(1 << checkpoint for checkpoint, character in enumerate(chunk) if "A" <= character <= "Z")]
    return record_id + suffix
