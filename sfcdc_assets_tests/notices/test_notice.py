"""What a notice says, and how a chat shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import SecretStr

from sfcdc_assets.notices.notice import LONGEST_MESSAGE, PAGES, Notice, NoticeNotTaken, chat_message
from sfcdc_assets.notices.reporting_round import webhook
from sfcdc_assets.settings.notice_kinds import BY_DEFAULT, NoticeKind
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.notices.webhook_server import Webhook, webhook_server

NOTICE = Notice(
    NoticeKind.OLD_SUSPECTS,
    "Account GAP_UPDATE",
    "Account: 2 records suspect for 61 minutes (GAP_UPDATE).",
    "Look.",
    entity="Account",
    channel="/data/ChangeEvents",
    position=1_234,
)


def test_it_says_what_where_and_what_to_do() -> None:
    assert NOTICE.text == (
        "Account: 2 records suspect for 61 minutes (GAP_UPDATE). (/data/ChangeEvents, position 1,234) Look."
    )
    assert replace(NOTICE, org="emea").text.startswith("emea: Account: 2 records")


@pytest.mark.parametrize(
    ("docs_url", "link"),
    [
        (None, "docs/failures.md#when-records-are-suspect"),
        ("https://docs.example/sfcdc", "https://docs.example/sfcdc/failures.html#when-records-are-suspect"),
        ("https://x.example/docs/{page}.md", "https://x.example/docs/failures.md#when-records-are-suspect"),
    ],
)
def test_it_links_to_the_page_where_the_docs_are_served(docs_url: str | None, link: str) -> None:
    assert NOTICE.link(docs_url) == link
    assert link in chat_message([NOTICE], docs_url)


def test_every_kind_has_a_page_with_the_section_that_it_links_to() -> None:
    for kind in NoticeKind:
        page, _, anchor = PAGES[kind].partition("#")
        headings = [
            "".join(
                letter for letter in line.strip("# ").lower().replace(" ", "-") if letter.isalnum() or letter == "-"
            )
            for line in (ROOT / "docs" / page).read_text().splitlines()
            if line.startswith("#")
        ]
        assert anchor in headings


def test_the_page_of_notices_names_every_kind_and_which_are_sent_by_default() -> None:
    section = (ROOT / "docs/notices.md").read_text().partition("\n## Get notices\n")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
    named = {cells[1].strip(" `"): cells[-2].strip() for cells in rows}
    assert named == {kind.value: "yes" if kind in BY_DEFAULT else "no" for kind in NoticeKind}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            "<!channel> & <https://evil.example|click>",
            "&lt;!channel&gt; &amp; &lt;https\u2060://evil.example|click&gt;",
        ),
        ("@all of www.evil.example\nsecond line", "\u2060@all of www\u2060.evil.example second line"),
        ("\x1b[31mred", "\\x1b[31mred"),
    ],
)
def test_no_text_of_an_org_makes_a_link_a_mention_or_a_line_in_a_chat(given: str, shown: str) -> None:
    message = chat_message([replace(NOTICE, reason=given)], None)
    assert message.splitlines()[0].startswith(f"Account: {shown}")
    assert len(message.splitlines()) == 2


def test_many_notices_are_one_message_that_says_how_many_more_there_are() -> None:
    many = [replace(NOTICE, entity=f"Object{number:03}__c", reason="is late. " * 9) for number in range(100)]
    message = chat_message(many, "https://docs.example")
    assert len(message) <= LONGEST_MESSAGE
    *lines, more, _ = message.splitlines()
    assert more == f"... and {100 - len(lines)} more; `sfcdc status` has all."
    assert len(lines) > 15


def test_a_long_line_is_cut_and_no_escape_in_the_middle() -> None:
    for length in range(690, 705):
        line = chat_message([replace(NOTICE, reason="x" * length + "&&&&")], None).splitlines()[0]
        assert line.removesuffix(" ...").rpartition("&")[2] in ("amp;", line.removesuffix(" ..."))


def test_it_is_posted_in_the_form_that_slack_takes() -> None:
    with webhook_server() as server:
        webhook(SecretStr(server.url), None)([NOTICE])
        assert server.texts == [chat_message([NOTICE], None)]


@pytest.mark.parametrize("status", [302, 404, 429, 500])
def test_a_webhook_that_refuses_is_an_error_without_its_address(status: int) -> None:
    with webhook_server() as server:
        server.status = status
        with pytest.raises(NoticeNotTaken, match=f"HTTP {status}") as refused:
            webhook(SecretStr(server.url), None)([NOTICE])
    assert "secret" not in str(refused.value)


def test_a_webhook_that_is_not_there_is_an_error_without_its_address() -> None:
    server = Webhook()
    server.server.server_close()
    with pytest.raises(NoticeNotTaken, match="ConnectionError") as refused:
        webhook(SecretStr(server.url), None)([NOTICE])
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
