"""An org whose REST side takes requests and answers none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests

from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.tls import TrustedRootsAdapter


def is_any(_url: str) -> bool:
    return True


@contextmanager
def black_hole(is_silent: Callable[[str], bool] = is_any) -> Iterator[list[float]]:
    """Requests to such addresses are taken and not answered; the time limits of the tries, which pass on the clock."""
    tries: list[float] = []
    send = TrustedRootsAdapter.send

    def silent(adapter: TrustedRootsAdapter, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        if not is_silent(str(request.url)):
            return send(adapter, request, **options)
        tries.append(options["timeout"][1])
        clock.sleep(options["timeout"][1])
        raise requests.exceptions.ReadTimeout("no answer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrustedRootsAdapter, "send", silent)
        yield tries
