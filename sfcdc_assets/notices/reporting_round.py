"""One round: look at the tables, keep what is new, send what is due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import requests
from pydantic import SecretStr

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.notices.kept_outbox import keep_outbox, kept_outbox
from sfcdc_assets.notices.looks import looks_for
from sfcdc_assets.notices.notice import Notice, NoticeNotTaken, Subscriber, chat_message
from sfcdc_assets.notices.outbox import Found, Outbox, of_kinds, sent, with_looks
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.settings.notice_kinds import NoticeKind
from sfcdc_assets.settings.settings import Settings

SENDING_SECONDS = 20.0
"""After so long no other call is begun: Dagster gives a tick a minute."""
WEBHOOK_SECONDS = 10.0
WEBHOOK = "The webhook of SFCDC_NOTICE_WEBHOOK"


@dataclass(frozen=True)
class Round:
    """What a round found and sent. `failed`: in words, what could not be looked at or sent; it is tried again."""

    waiting: int
    sent: int
    failed: Mapping[str, Exception] = field(default_factory=dict)

    def __str__(self) -> str:
        """Say it in a sentence."""
        said = f"{counted(self.sent, 'notice')} sent, {self.waiting:,} waiting."
        return " ".join([said, *(f"{name}: {error}" for name, error in self.failed.items())])


def subscribers_of(settings: Settings, function: Subscriber | None = None) -> dict[str, Subscriber]:
    """Return the subscribers, by the names under which notices wait for them: the webhook of the settings, and a
    function."""
    found = {"function": function} if function is not None else {}
    if settings.notice_webhook is not None:
        found["webhook"] = webhook(settings.notice_webhook, settings.docs_url)
    return found


def report_news(
    warehouse: Warehouse,
    settings: Settings,
    subscribers: Mapping[str, Subscriber],
    failed_runs: Sequence[Notice] | None,
) -> Round:
    """Report to the subscribers what is new, of the kinds of SFCDC_NOTICES. `failed_runs`: those since the last round,
    or more; None where they could not be asked for.

    What was noticed is kept before anything is sent, and each call that went well before the next one. Raises what
    reading and writing the note raises: then nothing was sent and nothing forgotten.
    """
    now_ms = clock.now_ms()
    kept = kept_outbox(warehouse)
    before = of_kinds(kept, settings.notices)
    looks, not_looked = looks_for(settings.notices, warehouse, settings, before, now_ms)
    if failed_runs is not None and NoticeKind.FAILED_RUNS in settings.notices:
        looks[NoticeKind.FAILED_RUNS] = Found(tuple(failed_runs))
    after = with_looks(before, {kind: _of_org(look, settings.org) for kind, look in looks.items()}, subscribers, now_ms)
    if after != kept:
        keep_outbox(warehouse, after)
    until = clock.current().monotonic() + SENDING_SECONDS
    done, not_sent = sent(
        after,
        subscribers,
        now_ms,
        lambda outbox: keep_outbox(warehouse, outbox),
        lambda: clock.current().monotonic() < until,
    )
    failed = {**{f"looking for {kind}": error for kind, error in not_looked.items()}, **not_sent}
    return Round(_waiting(done), max(0, _waiting(after) - _waiting(done)), failed)


def _of_org(look: Found, org: str | None) -> Found:
    if org is None:
        return look
    return replace(
        look,
        standing=tuple(replace(each, org=org) for each in look.standing),
        news=tuple(replace(each, org=org) for each in look.news),
    )


def _waiting(outbox: Outbox) -> int:
    return sum(len(queue.notices) for queues in outbox.queues.values() for queue in queues.values())


def webhook(address: SecretStr, docs_url: str | None) -> Subscriber:
    """Return what posts notices there, one message for those of a call: the body is `{"text": "..."}`, which Slack and
    Mattermost take. It raises `NoticeNotTaken`. The address is a secret: it is in no log and no message."""

    def post(notices: Sequence[Notice]) -> None:
        try:
            answer = requests.post(
                address.get_secret_value(),
                json={"text": chat_message(notices, docs_url)},
                timeout=WEBHOOK_SECONDS,
                allow_redirects=False,
            )
        except requests.RequestException as error:
            raise NoticeNotTaken(WEBHOOK, type(error).__name__) from None
        if answer.status_code >= 300:
            raise NoticeNotTaken(WEBHOOK, f"HTTP {answer.status_code}")

    return post
