"""One notice: what happened, where, and what to do about it. No value of a record is ever in it, and no secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.foreign_text import chat_text
from sfcdc_assets.settings.notice_kinds import NoticeKind
from sfcdc_assets.settings.setting_values import as_set_here

PAGE = "{page}"
"""The placeholder of a page's name in SFCDC_DOCS_URL."""
LONGEST_LINE = 700
LONGEST_MESSAGE = 3_000
"""Characters; Slack advises at most 4,000."""

PAGES: Mapping[NoticeKind, str] = MappingProxyType(
    {
        NoticeKind.FAILED_RUNS: "failures.md#when-a-run-failed",
        NoticeKind.LATE: "operating.md#asset-checks",
        NoticeKind.SUSPECTS: "failures.md#when-records-are-suspect",
        NoticeKind.OLD_SUSPECTS: "failures.md#when-records-are-suspect",
        NoticeKind.REFUSED_READS: "failures.md#when-an-entity-cannot-be-read",
        NoticeKind.LOST_CHECKPOINTS: "failures.md#when-a-replay-id-expired-or-the-org-moved",
        NoticeKind.SCHEMA_CHANGES: "org-changes.md#when-fields-change",
    }
)
"""The page of docs/ that says more of each kind."""


@dataclass(frozen=True)
class Notice:
    """`key`: what it is about, by which it is sent once. `reason` and `remedy` are sentences; `position`: of the
    channel. `is_end`: what was noticed before has ended. `org`: the name of the org, where there are several."""

    kind: NoticeKind
    key: str
    reason: str
    remedy: str = ""
    entity: str | None = None
    channel: str | None = None
    position: int | None = None
    at_ms: int = 0
    is_end: bool = False
    org: str | None = None

    @property
    def page(self) -> str:
        """The page of docs/ that says more."""
        return PAGES[self.kind]

    def link(self, docs_url: str | None) -> str:
        """Return the address of the page where the docs are served (SFCDC_DOCS_URL), else its path."""
        name, _, anchor = self.page.partition("#")
        if docs_url is None:
            return f"docs/{name}#{anchor}"
        form = docs_url if PAGE in docs_url else f"{docs_url}/{PAGE}.html"
        return f"{form.replace(PAGE, name.removesuffix('.md'))}#{anchor}"

    @property
    def text(self) -> str:
        """As a sentence or two, without the link."""
        subject = self.entity or self.channel
        org = f"{self.org}: " if self.org else ""
        said = self.reason if subject is None or self.reason.startswith(subject) else f"{subject}: {self.reason}"
        known = [self.channel if self.channel != subject else None]
        known += [f"position {self.position:,}" if self.position is not None else None]
        where = ", ".join(each for each in known if each)
        return as_set_here(f"{org}{said}{f' ({where})' if where else ''} {self.remedy}".rstrip())

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able values."""
        return asdict(self)

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Notice:
        """Read that form. Raises `TypeError`, `KeyError` and `ValueError` for others."""
        return cls(**{**values, "kind": NoticeKind(values["kind"])})


Subscriber = Callable[[Sequence[Notice]], object]
"""What is called with notices of one kind, oldest first. If it raises, it is called with the same ones later."""


class NoticeNotTaken(SfcdcError):
    """A subscriber did not take a notice."""

    def __init__(self, subscriber: str, reason: str) -> None:
        self.subscriber = subscriber
        super().__init__(
            f"{subscriber} did not take a notice ({reason}). It is kept, and sent again after a pause that grows to an "
            "hour; check the address, and whether this machine reaches it."
        )


def chat_message(notices: Sequence[Notice], docs_url: str | None) -> str:
    """Return notices of one kind as one message of a chat (Slack's escapes), a line each and a link to the page, as
    many as fit into `LONGEST_MESSAGE`; of the others how many they are."""
    page = notices[-1].link(docs_url)
    end = f"\n<{page}|More about this>" if docs_url is not None else f"\nMore about this: {page}"
    lines: list[str] = []
    room = LONGEST_MESSAGE - len(end) - 60
    for each in notices:
        line = _cut(chat_text(each.text))
        if lines and len(line) + 1 > room:
            break
        room -= len(line) + 1
        lines.append(line)
    left = len(notices) - len(lines)
    lines += [f"... and {left} more; `sfcdc status` has all."] if left else []
    return "\n".join(lines) + end


def _cut(line: str) -> str:
    """Cut a long line, and no escape in the middle."""
    if len(line) <= LONGEST_LINE:
        return line
    kept = line[: LONGEST_LINE - 4]
    start = kept.rfind("&", len(kept) - 5)
    return f"{kept[:start] if start >= 0 and ';' not in kept[start:] else kept} ..."
