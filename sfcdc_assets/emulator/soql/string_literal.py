"""What a quoted SOQL literal stands for, and the SQL pattern a LIKE literal stands for."""

from __future__ import annotations

from collections.abc import Iterator

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "_": "_", "%": "%"}


def string_value(literal: str) -> str:
    """Return the text between the quotes with its escapes resolved. Raises ValueError for an escape SOQL has not."""
    return "".join(char for char, _ in _characters(literal))


def like_pattern(literal: str) -> str:
    r"""Return the pattern for SQL `LIKE ... ESCAPE '\'`: bare % and _ are wildcards, escaped ones are themselves."""
    return "".join(
        "\\" + char if char == "\\" or (escaped and char in "%_") else char for char, escaped in _characters(literal)
    )


def _characters(literal: str) -> Iterator[tuple[str, bool]]:
    inner = literal[1:-1]
    position = 0
    while position < len(inner):
        if inner[position] != "\\":
            yield inner[position], False
            position += 1
        elif (code := inner[position + 1]).lower() == "u" and position + 6 <= len(inner):
            char = chr(int(inner[position + 2 : position + 6], 16))
            if "\ud800" <= char <= "\udfff":
                raise ValueError("Illegal escape: half of a surrogate pair")
            yield char, True
            position += 6
        elif code in _ESCAPES or code.lower() in _ESCAPES:
            yield _ESCAPES.get(code) or _ESCAPES[code.lower()], True
            position += 2
        else:
            raise ValueError(f"Illegal escape: \\{code}")
