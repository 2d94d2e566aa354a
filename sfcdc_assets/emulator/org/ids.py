"""Record ids: 15 case-sensitive characters, and the 18-character form whose suffix makes them safe to compare
without case.

The suffix (docs/salesforce-streams.md, "Record ids"): split the 15 characters into three chunks of five; in each, bit k
is set if character k is A-Z; the five bits index into `ABCDEFGHIJKLMNOPQRSTUVWXYZ012345`.
"""

from __future__ import annotations

import re

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""In byte order, so that a growing counter gives growing ids."""

EMPTY_ID = "000000000000000AAA"
"""The id an overflow event carries (docs/salesforce-streams.md, "Overflow events"); a row's without its own."""

_SUFFIX_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
_IS_UPPER = str.maketrans({char: "1" if "A" <= char <= "Z" else "0" for char in BASE62})
_SUFFIX_OF = {f"{code:05b}"[::-1]: char for code, char in enumerate(_SUFFIX_ALPHABET)}
"""By which of five characters are capitals, the first bit being the first character's."""
_PAIRS = [first + second for first in BASE62 for second in BASE62]
_PAIRS_AND_CAPITALS = [(pair, pair.translate(_IS_UPPER)) for pair in _PAIRS]
_ID = re.compile(r"[0-9A-Za-z]{15}(?:[0-9A-Za-z]{3})?")
_COUNTER_DIGITS = 9


def id_suffix(id15: str) -> str:
    """Return the three characters that turn a 15-character id into its 18-character form."""
    capitals = id15.translate(_IS_UPPER)
    return _SUFFIX_OF[capitals[:5]] + _SUFFIX_OF[capitals[5:10]] + _SUFFIX_OF[capitals[10:]]


def to_18(record_id: str) -> str:
    """Return the 18-character form of a 15- or 18-character id. Raises ValueError for anything that has not the form of
    an id.

    The suffix of an 18-character id also repairs letters whose case was lost on the way, as Salesforce does.
    """
    if not _ID.fullmatch(record_id):
        raise ValueError(f"{record_id!r} is not a Salesforce id: it must have 15 or 18 letters and digits")
    if len(record_id) == 15:
        return record_id + id_suffix(record_id)
    if id_suffix(record_id[:15]) == record_id[15:]:
        return record_id
    return _with_case_of_suffix(record_id)


def to_15(record_id: str) -> str:
    """Return the 15-character form of an id."""
    return to_18(record_id)[:15]


def is_id(text: str) -> bool:
    """Return whether the text has the form of an id; says nothing about whether such a record exists."""
    try:
        to_18(text)
    except ValueError:
        return False
    return True


def base62(number: int, digits: int) -> str:
    """Return a number in base 62, left-padded with zeros to exactly `digits` characters."""
    text = ""
    for _ in range(digits // 2):
        number, pair = divmod(number, len(_PAIRS))
        text = _PAIRS[pair] + text
    if digits % 2:
        number, digit = divmod(number, 62)
        text = BASE62[digit] + text
    if number:
        raise ValueError(f"the number does not fit {digits} base-62 digits")
    return text


def instance_characters(seed: int) -> str:
    """Return the three characters after the key prefix that say which org instance made an id: two letters and a
    zero."""
    return BASE62[10 + seed % 26] + BASE62[36 + seed // 26 % 26] + "0"


def new_id(key_prefix: str, instance: str, counter: int) -> str:
    """Return the 18-character id of the `counter`-th record of an object: later records have greater ids."""
    id15 = key_prefix + instance + base62(counter, _COUNTER_DIGITS)
    return id15 + id_suffix(id15)


def new_ids(key_prefix: str, instance: str, first: int, count: int) -> list[str]:
    """`new_id` of so many numbers in a row: what those have in common that differ in two digits is worked out once."""
    ids: list[str] = []
    while len(ids) < count:
        number = first + len(ids)
        known = new_id(key_prefix, instance, number)
        head, suffix = known[:13], known[15:17]
        capitals = head[10:].translate(_IS_UPPER)
        last = {f"{code:02b}": suffix + _SUFFIX_OF[capitals + f"{code:02b}"] for code in range(4)}
        place = number % len(_PAIRS)
        pairs = _PAIRS_AND_CAPITALS[place : place + count - len(ids)]
        ids += [head + pair + last[bits] for pair, bits in pairs]
    return ids


def _with_case_of_suffix(id18: str) -> str:
    chars = list(id18[:15])
    for chunk, code in enumerate(id18[15:].upper()):
        bits = _SUFFIX_ALPHABET.find(code)
        for k in range(5):
            char = chars[chunk * 5 + k]
            chars[chunk * 5 + k] = char.upper() if bits >> k & 1 else char.lower()
    repaired = "".join(chars)
    if id_suffix(repaired) != id18[15:].upper():
        raise ValueError(f"{id18!r} is not a Salesforce id: its last three characters do not match the first fifteen")
    return repaired + id18[15:].upper()
