"""`/metrics` as a Prometheus asks for it, and as a page of another site would."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.runtime.errors import PortInUseError, SfcdcError
from sfcdc_assets.webserver.metrics import KEPT_SECONDS, CachedText, metrics_app, serving
from sfcdc_assets.webserver.same_origin import LOOPBACK
from sfcdc_assets_tests.eventually import BOUND_SECONDS


class Moved(Clock):
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def test_it_is_served_as_text_of_prometheus_under_the_names_of_this_machine_alone() -> None:
    with serving(metrics_app(lambda: "sfcdc_cuts 6.0\n", LOOPBACK), "127.0.0.1", 0) as port:
        url = f"http://127.0.0.1:{port}/metrics"
        answer = requests.get(url, timeout=BOUND_SECONDS)
        assert (answer.status_code, answer.text) == (200, "sfcdc_cuts 6.0\n")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert requests.head(url, timeout=BOUND_SECONDS).status_code == 200
        assert requests.post(url, timeout=BOUND_SECONDS).status_code == 405
        assert requests.get(url, headers={"Host": "evil.example"}, timeout=BOUND_SECONDS).status_code == 403
        assert requests.get(f"http://127.0.0.1:{port}/", timeout=BOUND_SECONDS).status_code == 404


def test_a_name_that_was_allowed_is_answered() -> None:
    with serving(metrics_app(lambda: "", {*LOOPBACK, "sfcdc.example"}), "127.0.0.1", 0) as port:
        url = f"http://127.0.0.1:{port}/metrics"
        assert requests.get(url, headers={"Host": "sfcdc.example:9464"}, timeout=BOUND_SECONDS).status_code == 200


def test_what_keeps_it_from_being_computed_is_the_answer_and_it_is_tried_again() -> None:
    errors = [SfcdcError("The store is away.")]

    def compute() -> str:
        if errors:
            raise errors.pop()
        return "sfcdc_cuts 6.0\n"

    with serving(metrics_app(compute, LOOPBACK), "127.0.0.1", 0) as port:
        answers = [requests.get(f"http://127.0.0.1:{port}/metrics", timeout=BOUND_SECONDS) for _ in range(2)]
    assert [(each.status_code, each.text) for each in answers] == [
        (503, "The store is away.\n"),
        (200, "sfcdc_cuts 6.0\n"),
    ]


def test_it_is_computed_once_in_fifteen_seconds_however_many_ask() -> None:
    computed: list[int] = []
    goes_on = threading.Event()

    def compute() -> str:
        assert goes_on.wait(BOUND_SECONDS)
        computed.append(1)
        return str(len(computed))

    moved = Moved()
    with clock.using(moved), ThreadPoolExecutor(8) as threads:
        text = CachedText(compute)
        asked = [threads.submit(text) for _ in range(20)]
        goes_on.set()
        assert {each.result(BOUND_SECONDS) for each in asked} == {"1"}
        moved.seconds = KEPT_SECONDS - 0.1
        assert text() == "1"
        moved.seconds = KEPT_SECONDS
        assert text() == "2"


def test_a_port_that_is_taken_is_said() -> None:
    app = metrics_app(str, LOOPBACK)
    with (
        serving(app, "127.0.0.1", 0) as port,
        pytest.raises(PortInUseError, match=str(port)),
        serving(app, "127.0.0.1", port),
    ):
        pass
