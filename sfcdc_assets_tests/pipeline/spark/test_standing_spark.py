"""Runs that share a standing Spark: they do the same as with one of their own, also when it is killed at work."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.apply import attempt
from sfcdc_assets.apply.entity_batch import EntityBatch
from sfcdc_assets.apply.spark_job import Outcome, apply_events
from sfcdc_assets.cli.terminal.children import descendants
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark import session, standing
from sfcdc_assets.spark.session import spark_options, spark_session
from sfcdc_assets.spark.shared_session import SharedSession, connect
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.spark.standing_spark import StandingProcess, standing_spark

pytestmark = pytest.mark.slow

Make = Callable[..., EmulatedPipeline]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandingProcess]:
    """One for the module: jobs of the module's tests are Spark's because of its name. Asked to end, it leaves neither
    its file nor a process."""
    with standing_spark(tmp_path_factory.mktemp("standing") / "spark.json") as started:
        yield started
        below = descendants(started.process.pid)
        started.process.terminate()
        assert started.process.wait(BOUND_SECONDS) == 128 + signal.SIGTERM
        assert not started.path.exists()
        eventually(lambda: not any(lives(pid) for pid in below), "the processes below it to end")


def lives(pid: int) -> bool:
    """Whether the process has not ended. One that was killed is there until its new parent has asked for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def daemons(spark: StandingProcess) -> set[int]:
    """The processes from which Spark forks its Python workers: each has 200 MB."""
    (java,) = children(spark.process.pid)
    return children(java)


def children(pid: int) -> set[int]:
    """Of all of its threads."""
    listed = " ".join(each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/children"))
    return set(map(int, listed.split()))


@pytest.fixture(autouse=True)
def named(spark: StandingProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_SPARK_STANDING", str(spark.path))


@pytest.fixture
def no_spark_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(options: dict[str, str]) -> None:
        raise AssertionError("a Spark of this process was started")

    monkeypatch.setattr(session, "own_session", refused)


def changed(pipeline: EmulatedPipeline, name: str) -> None:
    """Every third record of each object has another value."""
    for entity, field in (("Account", "Name"), ("Contact", "LastName")):
        for record_id in ids(pipeline.org, entity)[::3]:
            with pipeline.org.transaction() as one:
                one.update(entity, record_id, {field: f"{name} {record_id}"})


@pytest.mark.usefixtures("no_spark_of_our_own")
def test_a_sync_through_it_gives_the_tables_of_the_org(pipeline: EmulatedPipeline) -> None:
    pipeline.sync()
    changed(pipeline, "first")
    pipeline.sync()
    pipeline.assert_equal_to_the_org()


def test_runs_have_their_workers_from_the_daemon_that_was_started_for_them(
    pipeline: EmulatedPipeline, spark: StandingProcess
) -> None:
    eventually(lambda: len(daemons(spark)) == 1, "one daemon, and any other that Spark has replaced to end")
    before = daemons(spark)
    pipeline.sync()
    pipeline.assert_equal_to_the_org()
    eventually(lambda: daemons(spark) == before, "no other daemon to be there")


@pytest.mark.usefixtures("no_spark_of_our_own")
def test_runs_have_sessions_of_their_own_on_it_and_work_at_once() -> None:
    with ThreadPoolExecutor(4) as pool:
        sessions = list(pool.map(lambda _: spark_session(load_settings()), range(4)))
        assert len({each.client._session_id for each in sessions}) == 4  # type: ignore[attr-defined]
        found = pool.map(lambda each: each.range(1000).repartition(3).toArrow().num_rows, sessions)
        assert list(found) == [1000] * 4
    for each in sessions:
        each.stop()


class Killing:
    """Ends the server when a Python worker of it unpickles this: a batch is at work then."""

    def __init__(self, group: int) -> None:
        self.group = group

    def __reduce__(self) -> tuple[Any, ...]:
        return os.killpg, (self.group, signal.SIGKILL)


def test_a_run_whose_spark_is_killed_at_work_does_it_again_without(
    synced: EmulatedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(synced, "second")
    before = synced.versions()
    with standing_spark(tmp_path / "spark.json") as doomed:
        monkeypatch.setenv("SFCDC_SPARK_STANDING", str(doomed.path))
        used: list[bool] = []

        def killed_at_first(spark: Any, batches: Sequence[EntityBatch]) -> list[Outcome]:
            used.append(isinstance(spark, SharedSession))
            if len(used) == 1:
                events = replace(batches[0].events, filesystem=Killing(doomed.process.pid))  # type: ignore[arg-type]
                batches = [replace(batches[0], events=events), *batches[1:]]
            return apply_events(spark, batches)

        monkeypatch.setattr(attempt, "apply_events", killed_at_first)
        synced.tick()
        assert doomed.process.wait(BOUND_SECONDS) == -signal.SIGKILL
    assert used == [True, False]
    synced.assert_equal_to_the_org()
    assert synced.versions() == {entity: version + 1 for entity, version in before.items()}
    assert doomed.path.exists(), "the file is stale now"
    changed(synced, "third")
    synced.sync()
    synced.assert_equal_to_the_org()


def test_a_client_without_its_token_is_refused(spark: StandingProcess) -> None:
    found = standing.find(spark.path, spark_options(load_settings()))
    assert found is not None
    assert connect(replace(found, token="guessed")) is None
    assert connect(found) is not None


def test_it_listens_on_the_loopback_interface_alone(spark: StandingProcess) -> None:
    found = standing.read(spark.path)
    assert found is not None
    lines = [*Path("/proc/net/tcp").read_text().splitlines(), *Path("/proc/net/tcp6").read_text().splitlines()]
    local = [line.split()[1] for line in lines if f":{found.port:04X} " in line.split(maxsplit=2)[1] + " "]
    listening = {address.rpartition(":")[0] for address in local}
    assert listening
    assert listening <= {"0100007F", "0000000000000000FFFF00000100007F"}


def test_a_second_one_of_the_same_file_is_refused(spark: StandingProcess) -> None:
    assert f"process {spark.process.pid}" in refusal(sfcdc("spark"))
