"""What the store and the Parquet readers raise, reported as the damage or the refusal that it is.

delta-rs raises `DeltaError`, `OSError` and, where its rows come through Arrow, `ArrowException`; their text is what
distinguishes a file that is gone from a disk that is full.
"""

from __future__ import annotations

import re

import pyarrow as pa
from deltalake.exceptions import DeltaError

FROM_STORE = (DeltaError, OSError, pa.ArrowException)

_OF_STORE = re.compile(r"os error \d+|Object Store error|Generic \w+ error|\[Errno \d+\]", re.IGNORECASE)
_NO_ROOM = re.compile(r"no space left on device|file too large|disk quota exceeded|\bENOSPC\b", re.IGNORECASE)
_FILE = re.compile(r"[\w.=%-]+(?:/[\w.=%-]+)*\.parquet")


def is_of_the_store(error: BaseException) -> bool:
    """Return whether the store refused, rather than what was asked of it being wrong."""
    return isinstance(error, OSError) or _OF_STORE.search(str(error)) is not None


def no_room(text: str) -> str | None:
    """Return what the store said when it has no room; None when that is not the reason."""
    found = _NO_ROOM.search(text)
    return found.group().lower() if found else None


def reason_of(error: BaseException) -> str:
    """Return the cause in a few words: the innermost message, without the frames and the marks of its chain."""
    text = str(error)
    if (full := no_room(text)) is not None:
        return full
    said = messages_of(text)
    last = said[-1] if "↳" in text else said[0] if said else type(error).__name__
    return last.rpartition("error: ")[2].rstrip(". ") if len(last) > 200 else last.rstrip(". ")


def messages_of(text: str) -> list[str]:
    """Return the messages of a chain, outermost first, without its frames and marks."""
    lines = [re.sub(r"\x1b\[\d+m|↳", "", line).strip() for line in text.splitlines()]
    return [line for line in lines if line and not re.match(r"\d+: |at ", line)]


def file_in(error: BaseException, table: str) -> str | None:
    """Return the data file that an error names, as a path below the table's root."""
    found = _FILE.search(str(error))
    if found is None:
        return None
    path = found.group()
    return path.rpartition(f"{table}/")[2] if f"{table}/" in path else path.rpartition("/")[2]
