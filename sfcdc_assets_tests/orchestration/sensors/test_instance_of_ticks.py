"""A process's ticks share an instance: to open one takes longer than a tick."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorEvaluationContext
from dagster._core.instance.ref import InstanceRef

from sfcdc_assets.orchestration.sensors.instance_of_ticks import close_instances, instance_of


def tick(ref: InstanceRef | None, instance: dg.DagsterInstance | None = None) -> SensorEvaluationContext:
    return SensorEvaluationContext(ref, instance=instance)


def stored_in(folder: Path) -> InstanceRef:
    folder.mkdir()
    return InstanceRef.from_dir(str(folder))


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_instances()


def test_an_instance_is_opened_once_for_all_ticks_of_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, open_one = [], dg.DagsterInstance.from_ref
    monkeypatch.setattr(dg.DagsterInstance, "from_ref", lambda ref: opened.append(ref) or open_one(ref))
    first, second = stored_in(tmp_path / "first"), stored_in(tmp_path / "second")
    for ref in (first, second, InstanceRef.from_dir(str(tmp_path / "first")), second):
        assert instance_of(tick(ref)).get_ref() == ref
    assert opened == [first, second]


def test_a_tick_sees_what_others_have_written_since_the_instance_was_opened(tmp_path: Path) -> None:
    ref = stored_in(tmp_path / "home")
    assert list(instance_of(tick(ref)).get_dynamic_partitions("salesforce_entity")) == []
    with dg.DagsterInstance.from_ref(ref) as other:
        other.add_dynamic_partitions("salesforce_entity", ["Account"])
    assert list(instance_of(tick(ref)).get_dynamic_partitions("salesforce_entity")) == ["Account"]


def test_a_context_that_was_given_an_instance_has_that_one() -> None:
    with dg.DagsterInstance.ephemeral() as given:
        assert instance_of(tick(None, given)) is given
