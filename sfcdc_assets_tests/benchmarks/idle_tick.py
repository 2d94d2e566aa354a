"""What a tick of the sensor costs to which nothing has happened, as it is made every few seconds, day and night."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.instance.ref import InstanceRef
from dagster._core.remote_origin import RegisteredCodeLocationOrigin
from dagster._grpc.impl import get_external_sensor_execution

from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.lake.delta.handles import Handles
from sfcdc_assets.orchestration.jobs import SYNC
from sfcdc_assets.orchestration.sensors.due import LOOK_SECONDS
from sfcdc_assets.orchestration.sensors.instance_of_ticks import close_instances
from sfcdc_assets.orchestration.sensors.open_channel import MEMBERS_SECONDS
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, code_servers
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.pipeline.stream import stream

ENTITIES = ("Account", "Contact", "Lead", "Opportunity", "Case")


def measure(quick: bool) -> Sequence[Figure]:
    """Ticks that look whether the tables have changed, ticks between two looks, and those that plan all the same."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        without_spark(patch, Random(5))
        with (
            stream(Path(folder), records=6, entities=ENTITIES[:1] if quick else ENTITIES) as weather,
            code_servers(weather) as start,
        ):
            server = start()
            weather.update(0)
            server.ticks_and_runs(180)
            opened = _count_opens(patch)
            looks, between, plans, opens = [], [], [], []
            rounds_of_a_plan = ceil(MEMBERS_SECONDS / (LOOK_SECONDS + 1.0)) + 1
            for _ in range((1 if quick else 3) * rounds_of_a_plan):
                opened.clear()
                spent, is_plan = _ms_of_tick(server, LOOK_SECONDS)
                if is_plan:
                    plans.append(spent)
                else:
                    looks.append(spent)
                    opens.append(float(len(opened)))
                spent, is_plan = _ms_of_tick(server, 1.0)
                if is_plan:
                    raise WrongAnswer("two ticks without news, a second apart, planned both")
                between.append(spent)
            in_dagster = _ms_in_dagster(Path(folder) / "home", rounds=2 if quick else 30)
            weather.update(1)
            asked = [request.job_name for each in server.ticks(20) for request in each.run_requests or ()]
            if asked[:1] != [ASSETS.name(SYNC)]:
                raise WrongAnswer(f"after an event the ticks ask for {asked}")
    return [
        Figure(
            f"a tick that asks whether tables have changed, each {LOOK_SECONDS:.0f} s", "CPU ms", looks, goal=Goal(50)
        ),
        Figure("a tick between two of these", "CPU ms", between, goal=Goal(50)),
        Figure(f"a tick that plans all the same, each {MEMBERS_SECONDS:.0f} s", "CPU ms", plans, goal=Goal(50)),
        Figure("tables opened by one that asks", "tables", opens, goal=Goal(0)),
        Figure(
            "a sensor without work, as Dagster evaluates it in the code server", "CPU ms", in_dagster, goal=Goal(20)
        ),
    ]


def _ms_of_tick(server: CodeServer, seconds: float) -> tuple[float, bool]:
    """CPU milliseconds of this process, the emulated org's too, in which nothing happens; and whether it planned."""
    server.stream.pass_time(seconds)
    server.stream.wait_until_the_org_is_idle()
    begun = time.process_time()
    result = server.tick()
    spent = time.process_time() - begun
    reason = str(result.skip_reason.skip_message if result.skip_reason else result.run_requests)
    is_plan = reason.endswith(("entities are up to date.", "the entity is up to date."))
    if not reason.startswith("0 events landed") or not (is_plan or reason.endswith("nothing has changed.")):
        raise WrongAnswer(f"a tick without news found something: {reason}")
    return spent * 1000, is_plan


def _ms_in_dagster(home: Path, rounds: int) -> list[float]:
    """CPU milliseconds of evaluations after the first one, with Dagster's own storage: of the sensor that looks for
    lost runs, of which there are none."""
    home.mkdir()
    ref, repository, spent = InstanceRef.from_dir(str(home)), defs.get_repository_def(), []
    for _ in range(rounds + 1):
        begun = time.process_time()
        found = get_external_sensor_execution(
            repository, RegisteredCodeLocationOrigin("here"), ref, ASSETS.name("end_lost_runs"), *[None] * 5
        )
        spent.append((time.process_time() - begun) * 1000)
        if not isinstance(found, SensorExecutionData) or found.skip_message != "Every run at work lives.":
            raise WrongAnswer(f"the sensor of lost runs found something: {found}")
    close_instances()
    return spent[1:]


def _count_opens(patch: pytest.MonkeyPatch) -> list[str]:
    opened: list[str] = []
    take = Handles.take

    def counted(handles: Handles, uri: str, *arguments: Any) -> Any:
        opened.append(uri)
        return take(handles, uri, *arguments)

    patch.setattr(Handles, "take", counted)
    return opened


STAGE = Stage(
    "Idle tick",
    measure,
    "That each tick says that nothing has changed or that all is up to date, and that the first ones after an event "
    "ask for a run.",
    "Waiting 0.2 s for the stream; of each table two files of its log are asked for, and Dagster's own evaluation of "
    "a sensor comes on top.",
)
