"""What a check found, and what to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from sfcdc_assets.runtime.errors import SettingsError, SfcdcError
from sfcdc_assets.settings.setting_values import as_set_here

_SENTENCE = re.compile(r"\.\s+(?=[A-Z`])")


class Outcome(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    """It works; something is lost, or will fail one day."""
    FAILED = "failed"
    """Something would fail."""
    NOT_CHECKED = "not checked"
    """What it depends on failed."""


@dataclass(frozen=True)
class Finding:
    """One line of the doctor: the check, how it ended, what was found, and what to do (empty when nothing is)."""

    check: str
    outcome: Outcome
    found: str
    fix: str = ""


def ok(check: str, found: str) -> Finding:
    """Nothing is to be done."""
    return _finding(check, Outcome.OK, found)


def warning(check: str, found: str, fix: str) -> Finding:
    """Return a finding that it works, and should be looked at."""
    return _finding(check, Outcome.WARNING, found, fix)


def failed(check: str, found: str, fix: str) -> Finding:
    """Something would fail."""
    return _finding(check, Outcome.FAILED, found, fix)


def not_checked(check: str, because: str) -> Finding:
    """Return a finding that it depends on what failed."""
    return _finding(check, Outcome.NOT_CHECKED, f"depends on {because}")


def _finding(check: str, outcome: Outcome, found: str, fix: str = "") -> Finding:
    """Return a finding with the settings named as they are set for the org that is examined."""
    return Finding(as_set_here(check), outcome, as_set_here(found), as_set_here(fix))


def of_error(check: str, error: SfcdcError) -> Finding:
    """Return the finding of an error that a run would raise too. Its first sentence says what is wrong, the others what
    to do."""
    if isinstance(error, SettingsError):
        return failed(check, f"{error.setting}: {error.problem}.", _ended(error.remedy))
    text = " ".join(str(error).split())
    ends = (each for each in _SENTENCE.finditer(text) if _is_outside(text, each.start()))
    end = next((each.end() for each in ends), len(text))
    return failed(check, text[:end].rstrip(), text[end:])


def would_fail(findings: list[Finding]) -> bool:
    """Return whether a run with this set-up would fail."""
    return any(finding.outcome is Outcome.FAILED for finding in findings)


def _is_outside(text: str, place: int) -> bool:
    """Return whether the place is not in parentheses, where messages quote what others said."""
    return text.count("(", 0, place) == text.count(")", 0, place)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."
