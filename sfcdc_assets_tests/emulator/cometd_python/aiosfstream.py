"""The same with aiosfstream-ng, whose resume points are kept as it keeps them.

Its known faults: it has Salesforce's login hosts built in and knows no proxy, so it is given an authenticator, of its
own kind, that has a token; it speaks version 45.0 of the API only; it takes the interval of an advice
for seconds, and so sleeps for half an hour when the server is busy.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any
from urllib.parse import urlsplit

from aiosfstream_ng import Client
from aiosfstream_ng.auth import AuthenticatorBase
from aiosfstream_ng.replay import DefaultMappingStorage


class GivenToken(AuthenticatorBase):
    async def _authenticate(self) -> tuple[int, dict[str, Any]]:
        address = urlsplit(sys.argv[1])
        instance = f"{address.scheme}://{address.netloc}"
        return 200, {"access_token": os.environ["TOKEN"], "token_type": "Bearer", "instance_url": instance}


async def main() -> None:
    _, _, channel, place = sys.argv
    async with Client(GivenToken(), replay=DefaultMappingStorage({}, default_id=int(place))) as client:
        await client.subscribe(channel)
        print("subscribed", flush=True)
        async for message in client:
            print(f"event {message['data']['event']['replayId']}", flush=True)


asyncio.run(main())
