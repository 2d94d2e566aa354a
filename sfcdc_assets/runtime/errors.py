"""Every error the project raises on purpose: a class for each, carrying the facts and naming the remedy.

A person reads these as one plain sentence (the command line prints nothing else), so each constructor builds that
sentence from its facts; no secret is ever among them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice

from sfcdc_assets.runtime.foreign_text import terminal_text


class SfcdcError(Exception):
    """Base of all errors that are reported to a person as one sentence, with the remedy in it. The settings that it
    mentions are named as they are set for the org that this process serves (`as_set_here`). What it quotes of an org
    commands no terminal, whoever prints it."""

    def __init__(self, *facts: object) -> None:
        super().__init__(*(_as_set_here(terminal_text(each)) if isinstance(each, str) else each for each in facts))


class TransientError(SfcdcError):
    """Base of what may pass by itself: the same work, done again in a moment, may go well although nobody mended
    anything."""


class SettingsError(SfcdcError):
    """A setting is missing or wrong. Names the setting, what is wrong with it, and what to put there."""

    def __init__(self, setting: str, problem: str, remedy: str) -> None:
        self.setting, self.problem, self.remedy = (_as_set_here(each) for each in (setting, problem, remedy))
        super().__init__(f"{setting}: {problem}. {remedy}")


class PortInUseError(SfcdcError):
    """A port that was asked for cannot be listened on."""

    def __init__(self, service: str, port: int) -> None:
        self.service = service
        self.port = port
        super().__init__(
            f"Port {port} for {service} cannot be listened on: another process uses it, or it is reserved. "
            "Choose another port, or 0 to take any free one."
        )


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, as sentences have it: `1 event`, `2,000 entities`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def enumerated(names: Collection[str], at_most: int = 3) -> str:
    """Return names as far as a sentence has room for them: `a, b, c and 1,204 more`."""
    more = len(names) - at_most
    return ", ".join(islice(names, at_most)) + (f" and {more:,} more" if more > 0 else "")


def name_settings_by(as_set_here: Callable[[str], str]) -> None:
    """Let errors name settings by this from now on. Settings do so when they are first imported: they raise errors, so
    errors cannot ask them."""
    global _naming  # noqa: PLW0603 - set once, by the module that knows the settings
    _naming = as_set_here


_naming: Callable[[str], str] | None = None


def _as_set_here(text: str) -> str:
    return text if _naming is None else _naming(text)
