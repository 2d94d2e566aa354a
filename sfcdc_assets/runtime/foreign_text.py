"""Text that others wrote, a record's value or an org's answer: as it enters, and as each output shows it.

Whoever can fill in a web form can write any characters. They stand for themselves in tables; in a terminal, in a page
and in a spreadsheet some of them would be obeyed.
"""

from __future__ import annotations

import re
from typing import Any

_MARKUP = re.compile(r"[\\`*_\[\]<|~&]|^[#>+=-]")
_NUMBERED = re.compile(r"^(\d+)([.)])", re.ASCII)
_LINKS = re.compile(r"(?i)(?<=[a-z]):(?=//)|(?<=www)\.|@")
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys or reorders text by: control characters but tab and new line, and directions of writing."""
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_SURROGATES = re.compile(rb"(?:\xed[\xa0-\xbf][\x80-\xbf])+")


def unicode_text(text: str) -> str:
    """Return the text as every table, file and hash can hold it: with U+FFFD in place of each half of a surrogate pair.

    JSON can carry such a half (an emoji that a form cut off at a field's length); UTF-8 cannot. Halves that belong
    together become the character that they are.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def unicode_json(value: Any) -> Any:
    """Return what was read from JSON with each text in it, names too, as `unicode_text`."""
    if isinstance(value, str):
        return unicode_text(value)
    if isinstance(value, list):
        return [unicode_json(each) for each in value]
    if isinstance(value, dict):
        return {unicode_text(name): unicode_json(each) for name, each in value.items()}
    return value


def unicode_bytes(raw: bytes) -> bytes:
    """UTF-8 of a text that was meant to be: halves of surrogate pairs as in `unicode_text`, U+FFFD for other bytes."""
    whole = _SURROGATES.sub(lambda found: unicode_text(found[0].decode(errors="surrogatepass")).encode(), raw)
    return whole.decode(errors="replace").encode()


def markdown_text(text: str) -> str:
    """Return the text as Markdown that shows it and nothing else: no link, no image, no HTML, one paragraph.

    Each mark is escaped; what a page makes a link by itself (`https://`, `www.`, an e-mail address) is broken by a word
    joiner, which is not seen.
    """
    one_line = " ".join(unicode_text(text).split())
    return _NUMBERED.sub(r"\1\\\2", _MARKUP.sub(r"\\\g<0>", _LINKS.sub(lambda found: f"\u2060{found[0]}", one_line)))


def chat_text(text: str) -> str:
    """Return the text as one line of a message in a chat, without a link or a mention in it: Slack's own characters are
    escaped as its documentation says, and what others make of `@` and of addresses is broken by a word joiner, which is
    not seen."""
    one_line = _LINKS.sub(lambda found: f"\u2060{found[0]}", " ".join(terminal_text(text).split()))
    return one_line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def terminal_text(text: str) -> str:
    """Return the text as a terminal shows it and does not obey it: `\\x1b` stands for an escape, `\\u202e` for a mark
    that turns the direction of writing. Tabs and new lines stay."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), unicode_text(text))


def shortened(text: str, most: int) -> str:
    """Return the text in at most so many characters, the last of which says that it was cut off."""
    return text if len(text) <= most else text[: most - 1] + "…"


def json_text(written: str) -> str:
    """JSON with escapes that it need not have, which keep a terminal from obeying it; the values are the same."""
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def spreadsheet_text(text: str) -> str:
    """Return the text with an apostrophe before what a spreadsheet would take for a formula (OWASP, "CSV
    Injection")."""
    return f"'{text}" if text.startswith(_FORMULAS) else text
