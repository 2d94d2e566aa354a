"""Random JSON values, and good ones with a part that is another."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

NESTED = 20_000
"""Levels of a JSON body that no parser of trees can walk."""


def value(dice: random.Random, words: Sequence[str], depth: int = 0) -> Any:
    kind = dice.randrange(9 if depth < 4 else 6)
    if kind < 3:
        return dice.choice(words)
    if kind < 6:
        return dice.choice([None, True, False, 0, -1, 2**70, 1.5, float("nan"), [], {}])
    if kind == 6:
        return [value(dice, words, depth + 1) for _ in range(dice.randrange(4))]
    return {dice.choice(words): value(dice, words, depth + 1) for _ in range(dice.randrange(6))}


def changed(dice: random.Random, words: Sequence[str], good: Any) -> Any:
    """A good value with one part of it replaced or dropped."""
    if dice.random() < 0.25 or not isinstance(good, (dict, list)) or not good:
        return value(dice, words)
    if isinstance(good, list):
        place = dice.randrange(len(good))
        return [*good[:place], changed(dice, words, good[place]), *good[place + dice.randrange(2) :]]
    key = dice.choice(list(good))
    if dice.random() < 0.2:
        return {name: each for name, each in good.items() if name != key}
    return {**good, key: changed(dice, words, good[key])}


def json_bytes(dice: random.Random, document: Any) -> bytes:
    """A document as bytes, sometimes cut, spoiled, or in an encoding that is not expected."""
    text = json.dumps(document)
    kind = dice.random()
    if kind < 0.85:
        return text.encode()
    if kind < 0.88:
        return text.encode("utf-16")
    if kind < 0.90:
        return dice.choice((b"[", b'{"a":')) * dice.choice((3, NESTED // 2))
    if kind < 0.95:
        return text.encode()[: dice.randrange(len(text) + 1)]
    spoiled = bytearray(text.encode() or b" ")
    spoiled[dice.randrange(len(spoiled))] = dice.randrange(256)
    return bytes(spoiled)
