"""What Dagster loads: valid, described, and with the defaults that the architecture fixes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import pytest
import yaml

from sfcdc_assets.cli.local_dagster.dagster_home import INSTANCE
from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets_tests.eventually import BOUND_SECONDS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SPECS = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
LAYERS = {"salesforce/raw_events", "salesforce/snapshot", "salesforce/current_state"}


def validated(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """`dagster definitions validate` with these settings and no others: no org is named, and none is asked."""
    home = folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(INSTANCE.read_text())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SFCDC_")}
    return subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"],
        cwd=ROOT,
        env={**environment, **settings, "DAGSTER_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_dagster_validates_the_workspace(tmp_path: Path) -> None:
    result = validated(tmp_path)
    # Dagster's own advice to use another of its tools is no complaint about the definitions.
    said = "".join(line for line in (result.stdout + result.stderr).splitlines(True) if "SupersessionW" not in line)
    assert result.returncode == 0, said
    assert "Validation successful" in said
    for problem in ("Warning", "WARNING", "ERROR", "Traceback"):
        assert problem not in said, said


def test_loading_the_definitions_needs_no_settings_and_no_java_and_writes_nothing(tmp_path: Path) -> None:
    script = "import sfcdc_assets.definitions; print('ok')"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SFCDC_")}
    environment |= {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment.pop("JAVA_HOME", None)
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "ok\n"), result.stderr
    assert list(tmp_path.iterdir()) == []


def in_a_process_of_its_own(script: str, folder: Path, settings: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )


def test_several_channels_are_an_asset_and_a_sensor_each_above_the_same_layers(tmp_path: Path) -> None:
    script = (
        "import dagster as dg; from sfcdc_assets.definitions import ASSETS, defs\n"
        "dg.Definitions.validate_loadable(defs)\n"
        "graph = defs.resolve_asset_graph()\n"
        "above = graph.get(dg.AssetKey(['salesforce', 'raw_events'])).parent_keys\n"
        "print(sorted(key.path[-1] for key in above), [sensor.name for sensor in defs.sensors])"
    )
    result = in_a_process_of_its_own(
        script,
        tmp_path,
        {
            "SFCDC_CHANNELS": "/data/Sales__chn, cometd:/data/ChangeEvents,/data/Foo__ChangeEvent,managed:Own,"
            "/data/Sales__chn,managed:/event/Own",
        },
    )
    channels = ["Sales__chn", "ChangeEvents", "Foo__ChangeEvent", "managed_Own"]
    assert result.returncode == 0, result.stderr
    sensors = ["salesforce_poll_" + name for name in (*channels, "platform_events_managed_Own")] + [
        "salesforce_end_lost_runs",
        "salesforce_pack_when_many",
        "salesforce_read_formulas_when_due",
    ]
    assert result.stdout.strip() == f"{sorted(channels)} {sensors}"


def test_polled_objects_are_one_more_way_into_the_same_graph_with_one_sensor_for_all_of_them(tmp_path: Path) -> None:
    script = (
        "import dagster as dg; from sfcdc_assets.definitions import ASSETS, defs\n"
        "dg.Definitions.validate_loadable(defs)\n"
        "graph = defs.resolve_asset_graph()\n"
        "above = graph.get(dg.AssetKey(['salesforce', 'raw_events'])).parent_keys\n"
        "print(sorted((key.path[-1], graph.get(key).is_materializable) for key in above))\n"
        "print([sensor.name for sensor in defs.sensors if '_poll_' in sensor.name])\n"
        "specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}\n"
        "print(sorted(specs)); print(specs['salesforce/objects'].description)"
    )
    result = in_a_process_of_its_own(
        script,
        tmp_path,
        {
            "SFCDC_CHANNELS": "/data/ChangeEvents",
            "SFCDC_POLL": "Contract, Order*, Asset",
        },
    )
    assert result.returncode == 0, result.stderr
    above, sensors, specs, described = result.stdout.splitlines()
    assert above == str([("ChangeEvents", False), ("objects", False)])
    assert sensors == str(["salesforce_poll_ChangeEvents", "salesforce_poll_objects"])
    of_objects = {"salesforce/objects", "salesforce/contract", "salesforce/asset"}
    assert specs == str(sorted({*SPECS, *of_objects})), "the layers are the same, with partitions"
    assert described.startswith("Objects of the org that are polled")


def test_the_asset_keys_of_the_contract_are_there() -> None:
    assert SPECS.keys() >= LAYERS | {"salesforce/ChangeEvents"}


@pytest.mark.parametrize("key", sorted(SPECS))
def test_every_asset_is_described(key: str) -> None:
    spec = SPECS[key]
    assert spec.description
    assert spec.description.endswith(".")
    assert spec.group_name not in (None, "default")
    assert spec.kinds
    assert list(spec.owners)


def test_history_and_the_cuts_hang_in_the_graph() -> None:
    graph = defs.resolve_asset_graph()
    cuts = graph.get(dg.AssetKey(["salesforce", "consistent_cuts"]))
    assert cuts.parent_keys == {dg.AssetKey(["salesforce", name]) for name in ("current_state", "history")}
    assert dg.AssetKey(["salesforce", "raw_events"]) in graph.get_ancestor_asset_keys(
        dg.AssetKey(["salesforce", "history"])
    )


@pytest.mark.parametrize("job", ["sync", "snapshot", "audit"])
def test_what_sensors_and_schedules_launch_plans_neither_assets_nor_checks(job: str) -> None:
    graph = defs.resolve_job_def(ASSETS.name(job)).asset_layer.asset_graph
    assert not graph.asset_check_keys
    assert not graph.executable_asset_keys


def test_texts_ledger_state_and_history_are_siblings_over_events_and_snapshots() -> None:
    graph = defs.resolve_asset_graph()
    for name in ("text_fields", "gap_reconciliation", "current_state", "history"):
        above = graph.get(dg.AssetKey(["salesforce", name])).parent_keys
        assert {key.path[-1] for key in above} == {"raw_events", "snapshot"}


def test_the_layers_hang_together_from_the_channel_to_the_tables() -> None:
    graph = defs.resolve_asset_graph()
    current_state = dg.AssetKey(["salesforce", "current_state"])
    assert graph.get_ancestor_asset_keys(current_state) >= {
        dg.AssetKey(["salesforce", name]) for name in ("ChangeEvents", "raw_events", "snapshot")
    }
    assert not graph.get(dg.AssetKey(["salesforce", "ChangeEvents"])).is_materializable


@pytest.mark.parametrize("key", sorted(LAYERS))
def test_each_layer_is_partitioned_by_entity_and_backfilled_in_one_run(key: str) -> None:
    node = defs.resolve_asset_graph().get(dg.AssetKey.from_user_string(key))
    assert isinstance(node.partitions_def, dg.DynamicPartitionsDefinition)
    assert node.partitions_def.name == "salesforce_entity"
    assert node.backfill_policy == dg.BackfillPolicy.single_run()


def test_jobs_run_in_one_process() -> None:
    assert defs.executor is dg.in_process_executor
    for name in ("sync", "snapshot"):
        assert defs.resolve_job_def(ASSETS.name(name)).executor_def is dg.in_process_executor


def test_sensors_are_on_and_the_schedule_is_off() -> None:
    assert [sensor.name for sensor in defs.sensors or []] == [
        "salesforce_poll_ChangeEvents",
        "salesforce_end_lost_runs",
        "salesforce_pack_when_many",
        "salesforce_read_formulas_when_due",
    ]
    sensor = defs.resolve_sensor_def(ASSETS.name("poll_ChangeEvents"))
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    assert sensor.minimum_interval_seconds == 1
    assert {target.job_name for target in sensor.targets} == {
        "salesforce_sync",
        "salesforce_snapshot",
        "salesforce_layers",
    }
    schedule = defs.resolve_schedule_def(ASSETS.name("sync_every_ten_minutes"))
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    assert schedule.job_name == "salesforce_sync"


def test_no_sensor_would_start_a_jvm_in_the_code_server() -> None:
    for sensor in defs.sensors or []:
        assert ASSETS.name("spark") not in defs.resolve_sensor_def(sensor.name).required_resource_keys


def test_the_resources_show_no_setting_in_the_ui() -> None:
    assert (defs.resources or {}).keys() == {"salesforce_spark", "salesforce_run_scope"}
    for resource in (defs.resources or {}).values():
        assert "config_schema" not in vars(resource) or not resource.config_schema.as_field().is_required


def test_pyproject_leaves_the_code_location_to_the_workspace_file() -> None:
    assert "dagster" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    (location,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    assert location["python_module"]["module_name"] == "sfcdc_assets.definitions"


def test_the_instance_of_make_dev_sends_nothing_and_runs_one_run_a_lane() -> None:
    instance = yaml.safe_load(INSTANCE.read_text())
    assert instance["telemetry"] == {"enabled": False}
    assert instance["run_monitoring"]["enabled"]
    runs = instance["concurrency"]["runs"]
    limits = {limit["key"]: limit["limit"] for limit in runs["tag_concurrency_limits"]}
    assert limits == {"sfcdc/concurrency_key": 1, "sfcdc/work": 2, "dagster/backfill": 2}
    assert limits["sfcdc/work"] < runs["max_concurrent_runs"], "a slot is left for applying events"


def test_the_instance_of_make_dev_purges_ticks() -> None:
    retention = yaml.safe_load(INSTANCE.read_text())["retention"]
    assert retention["schedule"]["purge_after_days"] > 0
    of_sensors = retention["sensor"]["purge_after_days"]
    assert set(of_sensors) == {"skipped", "started", "failure", "success"}
    assert 0 < of_sensors["skipped"] <= 2, "one every five seconds"
    assert all(days > 0 for days in of_sensors.values())


def test_the_end_of_old_payloads_is_switched_on_by_its_setting_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    schedule = defs.resolve_schedule_def(ASSETS.name("drop_payloads_every_night"))
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    monkeypatch.delenv("SFCDC_PAYLOAD_RETENTION_DAYS", raising=False)
    skipped = schedule.evaluate_tick(dg.build_schedule_context())
    assert (skipped.run_requests or [], "is not set" in (skipped.skip_message or "")) == ([], True)
    monkeypatch.setenv("SFCDC_PAYLOAD_RETENTION_DAYS", "3")
    assert len(schedule.evaluate_tick(dg.build_schedule_context()).run_requests or []) == 1
    assert schedule.job_name == "salesforce_drop_payloads"


def test_a_bad_setting_is_reported_in_one_sentence_by_the_code_location(tmp_path: Path) -> None:
    result = validated(tmp_path, SFCDC_OWNERS="nobody in particular")
    assert result.returncode == 1
    said = re.sub(r"\x1b\[\d+m", "", result.stdout + result.stderr)  # colours
    headline, _, first, *_ = said[said.index("Validation failed for code location") :].splitlines()
    assert headline == "Validation failed for code location sfcdc_assets:"
    assert first == (
        "sfcdc_assets.runtime.errors.SettingsError: SFCDC_OWNERS: 'nobody in particular' is neither an e-mail address "
        "nor written as team:name. Correct it in the environment or in .env"
    )


def test_channels_of_events_are_an_asset_a_kind_with_a_check_and_a_sensor_each_and_the_graph_stays_short(
    tmp_path: Path,
) -> None:
    script = (
        "import dagster as dg; from sfcdc_assets.definitions import ASSETS, defs\n"
        "dg.Definitions.validate_loadable(defs)\n"
        "kinds = ('push_topic_events', 'generic_events', 'platform_events', 'push_topic_state')\n"
        "specs = {spec.key.path[-1]: spec for spec in defs.resolve_all_asset_specs() if spec.key.path[-1] in kinds}\n"
        "print({name: spec.partitions_def.name for name, spec in sorted(specs.items())})\n"
        "print(len(list(defs.resolve_all_asset_specs())), sorted(sensor.name for sensor in defs.sensors))\n"
        "print(all(spec.description and spec.owners and spec.kinds and spec.group_name for spec in specs.values()))\n"
        "checks = defs.resolve_asset_graph().asset_check_keys\n"
        "print(sorted(each.asset_key.path[-1] for each in checks if each.name == 'events_are_whole'))"
    )
    channels = "/data/ChangeEvents, /topic/A, /topic/A?Industry='Oil, Gas', /u/a/b, /event/Order__e"
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SFCDC_CHANNELS": channels},
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    partitions, sensors, described, checks = result.stdout.splitlines()
    assert partitions == str(
        {
            "generic_events": "salesforce_generic_channel",
            "platform_events": "salesforce_platform_event",
            "push_topic_events": "salesforce_push_topic",
            "push_topic_state": "salesforce_push_topic",
        }
    )
    assert sensors.startswith(f"{len(SPECS) + 4} ")
    assert sensors.count("poll_push_topic_events_A") == 2
    assert all(
        name in sensors for name in ("poll_ChangeEvents", "poll_generic_events_a_b_", "platform_events_Order__e")
    )
    assert described == "True"
    assert checks == str(["generic_events", "platform_events", "push_topic_events"])
