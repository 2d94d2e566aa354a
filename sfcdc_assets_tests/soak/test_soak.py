"""The soak itself: what counts as fresh again, what a container does when its service ends, and one fault of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.model.relation import NotAllowed
from sfcdc_assets_tests.model.test_table_trace import checkpoint_at, events
from sfcdc_assets_tests.soak.container import Container, can_be_run
from sfcdc_assets_tests.soak.followed_org import ENTITIES, followed_org
from sfcdc_assets_tests.soak.freshness import Look
from sfcdc_assets_tests.soak.report import PICTURE, POINTS, Figures, grown, judged
from sfcdc_assets_tests.soak.samples import Sample, open_files_of, threads_of
from sfcdc_assets_tests.soak.soak import Soak, follow

needs_namespaces = pytest.mark.skipif(not can_be_run(), reason="needs namespaces of Linux")
BEGAN = 1000.0


def looks(*waits: float, suspects: Sequence[int] = ()) -> list[Look]:
    """One a second from the fault's moment on: how long the oldest change waits."""
    noted = enumerate([*waits, *[2.0] * 60])
    return [Look(BEGAN + at, wait, BEGAN + at - wait, suspects[at] if at < len(suspects) else 0) for at, wait in noted]


def test_a_fault_that_nobody_notices_is_over_when_what_was_committed_before_it_is_seen() -> None:
    struck = judged("nothing", BEGAN, BEGAN, looks(3, 4, 5, 1))
    assert (struck.stale_seconds, struck.is_missed) == (3.0, False)


def test_tables_are_fresh_again_when_what_waited_is_seen_and_nothing_waits_for_long() -> None:
    waiting = [2.0 + at for at in range(41)]
    struck = judged("a death", BEGAN, BEGAN, looks(*waiting))
    assert (struck.stale_seconds, struck.oldest_seconds, struck.is_missed) == (41.0, 42.0, False)
    longer = judged("a death", BEGAN, BEGAN, looks(*waiting, *waiting[-1:] * 30))
    assert (longer.stale_seconds, longer.is_missed) == (71.0, True)


def test_the_longest_time_counts_where_tables_are_fresh_for_a_moment_only() -> None:
    struck = judged("a slow death", BEGAN, BEGAN, looks(3, 1, 1, *range(16, 30), 2))
    assert struck.stale_seconds == 14.0


def test_tables_that_are_never_fresh_again_are_missed() -> None:
    struck = judged("the end", BEGAN, BEGAN, [Look(BEGAN + at, at, BEGAN, 0) for at in range(50)])
    assert (struck.stale_seconds, struck.is_missed) == (None, True)


def test_suspects_of_a_fault_are_healed_when_none_is_left_and_those_from_before_are_not_of_it() -> None:
    assert judged("a black hole", BEGAN, BEGAN + 2, looks(3, 2, 2, suspects=[0, 4, 4, 4])).healed_seconds == 2.0
    before = [Look(BEGAN - 1, 2.0, BEGAN - 3, 4)]
    assert judged("a death", BEGAN, BEGAN, before + looks(3, 2, suspects=[4, 4])).healed_seconds is None


@pytest.mark.parametrize(("seconds", "is_missed"), [(100, False), (130, True), (1_000, True)])
def test_a_fault_is_missed_where_its_suspects_are_healed_late_or_never(seconds: int, is_missed: bool) -> None:
    noted = looks(*[2.0] * 300, suspects=[0, 4, *[4] * (seconds + 1)])
    struck = judged("a black hole", BEGAN, BEGAN + 2, noted)
    assert struck.is_healed is (seconds < 300)
    assert struck.is_missed is is_missed


def test_what_the_logs_of_a_soak_have_is_followed_and_what_the_model_does_not_allow_is_named(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    RawEvents.open(warehouse).commit(events(range(1, 3), "a"), checkpoint_at(2, 0, "a"))
    RawEvents.open(warehouse).commit(events(range(3, 4), "b"), checkpoint_at(3, 2, "b"))
    assert follow(tmp_path) == {"Landed": 2}
    RawEvents.open(warehouse).commit(events(range(4, 5), "b"), checkpoint_at(4, 3, "b"))
    with pytest.raises(NotAllowed, match="whole transactions"):
        follow(tmp_path)


def held(*, memory: float = 400.0, threads: int = 40, files: int = 90, part: str = "code") -> Sample:
    return Sample(0.0, {part: memory}, 0, 0.0, None, 0.0, None, None, 0.0, 0, {part: threads}, {part: files})


@pytest.mark.parametrize(
    ("late", "grown_in"),
    [
        (held(), []),
        (held(memory=470.0, threads=48, files=108), []),
        (held(memory=490.0), ["code: 400 MB of memory, then 490"]),
        (held(threads=49), ["code: 40 threads, then 49"]),
        (held(files=120), ["code: 90 open files, then 120"]),
    ],
    ids=["nothing", "a little", "memory", "threads", "files"],
)
def test_a_part_that_holds_a_fifth_more_in_the_end_has_grown(late: Sample, grown_in: list[str]) -> None:
    starting, peak = held(memory=9.0, threads=1, files=1), held(memory=900.0, threads=900, files=900)
    assert grown([*[starting] * 10, *[held()] * 10, *[peak] * 30, *[late] * 10]) == grown_in


def test_neither_runs_that_come_and_go_nor_a_part_that_is_not_there_in_the_end_have_grown() -> None:
    runs = [held(part="runs")] * 50 + [held(part="runs", memory=900.0)] * 10
    assert grown(runs) == []
    assert grown([held()] * 50 + [held(part="daemon", memory=900.0)] * 10) == []
    assert grown([held(files=3)] * 50 + [held(files=4)] * 10) == [], "one comes and goes"
    assert grown([held(files=3)] * 50 + [held(files=5)] * 10) == ["code: 3 open files, then 5"]
    assert grown([]) == []


def test_threads_and_open_files_of_a_process_are_counted(tmp_path: Path) -> None:
    threads, files = threads_of(os.getpid()), open_files_of(os.getpid())
    with (tmp_path / "one").open("w"), ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        assert threads_of(os.getpid()) == threads + 1
        assert open_files_of(os.getpid()) == files + 1


def test_the_documentation_has_the_figures_of_the_last_soak_and_their_picture() -> None:
    figures = Figures.read(POINTS)
    assert PICTURE.read_text() == figures.picture()
    assert figures.table() in (ROOT / "docs" / "deployment.md").read_text()
    assert figures.summary.tables == f"{len(ENTITIES)} tables equal the org"
    assert len({each.name for each in figures.faults}) == 8, "each kind"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Container]:
    """One that starts a process of its own, says so, and waits."""
    (tmp_path / "service").mkdir()
    script = "sleep 600 & echo started; wait"
    container = Container("service", ["sh", "-c", script], dict(os.environ), tmp_path / "service")
    container.start()
    try:
        eventually(lambda: started(container) == 1, "the service to start")
        yield container
    finally:
        container.stop()


def started(container: Container) -> int:
    return container.log.read_text().count("started") if container.log.exists() else 0


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@needs_namespaces
def test_a_service_that_ends_is_started_again_without_anything_that_it_had_started(service: Container) -> None:
    before = service.processes()
    assert len(before) == 2
    service.signal_main(9)
    eventually(lambda: started(service) == 2, "the service to be started again")
    assert not any(is_there(pid) for pid in before)
    assert service.restarts == 1


@needs_namespaces
def test_a_service_that_was_stopped_or_lost_its_power_is_gone_until_it_is_started(service: Container) -> None:
    for end in (service.stop, service.cut_off):
        before = service.processes()
        assert before
        end()
        eventually(lambda gone=before: not any(is_there(pid) for pid in gone), "its processes to end")
        assert service.processes() == []
        service.start()
        eventually(service.processes, "the service to start")
    assert service.restarts == 0


@needs_namespaces
@pytest.mark.soak
@pytest.mark.timeout(1800)  # a busy machine takes several times its minutes
def test_tables_are_fresh_again_after_the_code_server_was_killed_and_equal_the_org_at_the_end() -> None:
    folder = Path(tempfile.mkdtemp(prefix="soak-"))  # Postgres, as another user, may not enter pytest's
    folder.chmod(0o755)
    try:
        with followed_org(folder / "org") as org:
            soak = Soak(folder, org, ["SIGKILL of the code server"])
            soak.run(minutes=1.5, warm=10, every=60)
            assert soak.difference() == ""
        (struck,) = soak.struck
        assert struck.stale_seconds is not None
        assert soak.deployment.code.restarts == 1
        assert soak.samples.taken[-1].warehouse_files > 0
    finally:
        shutil.rmtree(folder)
