"""The function of docs/notices.md, as it stands there, against a mail server on loopback."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message

from sfcdc_assets.notices.outbox import Found, Outbox, sent, with_looks
from sfcdc_assets.settings.notice_kinds import NoticeKind
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.free_port import free_port
from sfcdc_assets_tests.notices.test_notice import NOTICE


class Inbox(Message):
    def __init__(self) -> None:
        super().__init__()
        self.mails: list[EmailMessage] = []

    def handle_message(self, message: object) -> None:
        mail = message_from_bytes(bytes(message), policy=policy.default)  # type: ignore[call-overload]
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)


def test_the_example_sends_a_notice_by_email(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/notices.md").read_text()
    example: dict[str, object] = {}
    exec(page.partition("```python")[2].partition("\n")[2].partition("```")[0], example)
    by_email = example["by_email"]
    assert callable(by_email)
    port, inbox = free_port(), Inbox()
    monkeypatch.setenv("MAIL_HOST", "127.0.0.1")
    monkeypatch.setenv("MAIL_PORT", str(port))
    outbox = with_looks(Outbox(), {NoticeKind.OLD_SUSPECTS: Found((NOTICE,))}, ["function"], 1)
    outbox, failed = sent(outbox, {"function": by_email}, 1, lambda _: None)
    assert isinstance(failed["function"], ConnectionRefusedError)
    server = Controller(inbox, hostname="127.0.0.1", port=port)
    server.start()
    try:
        _, failed = sent(outbox, {"function": by_email}, 3_600_000, lambda _: None)
    finally:
        server.stop()
    assert failed == {}
    (mail,) = inbox.mails
    assert mail["Subject"] == "Salesforce copy: old suspects (1)"
    text = mail.get_content()
    assert NOTICE.text in text
    assert "docs/failures.md#when-records-are-suspect" in text
