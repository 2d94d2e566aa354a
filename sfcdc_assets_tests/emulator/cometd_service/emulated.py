"""The CometD service of an emulated org without its sockets, and connects that wait in threads."""

from __future__ import annotations

import threading
from typing import Any

from sfcdc_assets.emulator.cometd.messages import CometdAnswer, CometdCall
from sfcdc_assets.emulator.cometd.service import CometdService
from sfcdc_assets.emulator.events.delivery_meter import DeliveryMeter
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.sessions import Sessions
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually

ALL = "/data/ChangeEvents"
USER = "005000000000001AAA"


class Emulated:
    """A service without sockets, and one client of it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.org = EmulatedOrg(clock=self.clock, seed=3)
        self.org.selected_entities = ["Account", "Contact"]
        self.org.populate(3)
        self.accounts = [str(record["Id"]) for record in self.org.records("Account")]
        bus = EventBus(self.org)
        self.meter = DeliveryMeter(self.clock)
        self.service = CometdService(self.org, bus, sessions=Sessions(self.org), meter=self.meter)
        self.client_id: str | None = None
        self.cookie: str | None = None

    def close(self) -> None:
        self.service.stop()
        self.org.close()

    def update(self, **values: Any) -> None:
        with self.org.transaction() as work:
            work.update("Account", self.accounts[0], values or {"Phone": str(self.clock())})

    def call(self, *messages: dict[str, Any], **about: Any) -> CometdAnswer:
        given = {"has_token": True, "user_id": USER, "cookie": self.cookie, **about}
        return self.service.answer(CometdCall(messages, **given))

    def send(self, channel: str, **values: Any) -> dict[str, Any]:
        """The one reply to a message."""
        (reply,) = self.call({"channel": channel, "id": "7", "clientId": self.client_id, **values}).messages
        assert (reply["channel"], reply["id"]) == (channel, "7")
        return reply

    def handshake(self, **about: Any) -> dict[str, Any]:
        message = {
            "channel": "/meta/handshake",
            "id": "1",
            "version": "1.0",
            "supportedConnectionTypes": ["long-polling"],
            "ext": {"replay": True},
        }
        answer = self.call(message, **about)
        (reply,) = answer.messages
        self.client_id, self.cookie = reply.get("clientId"), answer.cookie
        return reply

    def subscribe(self, channel: str = ALL, place: object = -1) -> dict[str, Any]:
        return self.send("/meta/subscribe", subscription=channel, ext={"replay": {channel: place}})

    def connect(self, **values: Any) -> list[dict[str, Any]]:
        message = {"channel": "/meta/connect", "clientId": self.client_id, "connectionType": "long-polling", "id": "9"}
        return self.call({**message, **values}).messages

    def held(self) -> Held:
        return Held(self)


class Held:
    """A connect that waits in a thread."""

    def __init__(self, emulated: Emulated) -> None:
        self.messages: list[dict[str, Any]] | None = None
        before = emulated.service.held_connects
        self._thread = threading.Thread(target=self._run, args=(emulated,), daemon=True)
        self._thread.start()
        eventually(
            lambda: emulated.service.next_due() not in (None, 0) or not self._thread.is_alive(),
            "the connect to come to rest",
        )
        assert emulated.service.held_connects in (before, before + 1)

    def _run(self, emulated: Emulated) -> None:
        self.messages = emulated.connect()

    @property
    def is_waiting(self) -> bool:
        return self._thread.is_alive()

    def answer(self) -> list[dict[str, Any]]:
        self._thread.join(BOUND_SECONDS)
        assert self.messages is not None, "the connect is held"
        return self.messages


def replay_ids(messages: list[dict[str, Any]]) -> list[int]:
    return [message["data"]["event"]["replayId"] for message in messages if "data" in message]
