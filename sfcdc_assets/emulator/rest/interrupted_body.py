"""An answer that comes in two halves, or whose second half never comes: what a slow or broken network makes of it."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Send


def halved(send: Send, pause: float | None) -> Send:
    """Send an answer in two halves with `pause` seconds between them, or for None the first one alone, though the whole
    length is announced."""
    start: Message = {}
    body = bytearray()

    async def in_halves(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
            return
        body.extend(message.get("body", b""))
        if message.get("more_body"):
            return
        headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
        await send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
        half = len(body) // 2
        await send({"type": "http.response.body", "body": bytes(body[:half]), "more_body": pause is not None})
        if pause is not None:
            await asyncio.sleep(pause)
            await send({"type": "http.response.body", "body": bytes(body[half:])})

    return in_halves
