"""Definitions for another project: beside its own, for several orgs in one process."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.workspace.autodiscovery import loadable_targets_from_python_file

from sfcdc_assets import build_defs
from sfcdc_assets.component import SalesforceCdcComponent
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets_tests.documentation import ROOT

SECRET = "s3cret-of-the-app"


def definitions(prefix: str, warehouse: Path) -> dg.Definitions:
    channels = ["/data/ChangeEvents", "/event/Order__e", "/topic/Energy"]
    return build_defs({"warehouse": str(warehouse / prefix), "channels": channels}, key_prefix=prefix)


def names(defs: dg.Definitions) -> Counter[str]:
    """All that an instance or a code location has once."""
    jobs, graph = (
        [each for each in defs.resolve_all_job_defs() if each.name != "__ASSET_JOB"],
        defs.resolve_asset_graph(),
    )
    found = Counter(f"job {job.name}" for job in jobs)
    found.update(f"node {node.name}" for job in jobs for node in job.all_node_defs)
    found.update(f"key {job.tags.get('sfcdc/concurrency_key')}" for job in jobs)
    found.update(f"sensor {each.name}" for each in defs.sensors or ())
    found.update(f"schedule {each.name}" for each in defs.schedules or ())
    found.update(f"resource {each}" for each in defs.resources or ())
    found.update(f"asset {key.to_user_string()}" for key in graph.get_all_asset_keys())
    found.update(f"group {group}" for group in {node.group_name for node in graph.asset_nodes})
    for node in graph.asset_nodes:
        found.update(f"pool {pool}" for pool in node.pools or ())
        if isinstance(node.partitions_def, dg.DynamicPartitionsDefinition):
            found[f"partitions {node.partitions_def.name}"] += 1
    return found


def test_two_orgs_and_a_users_own_definitions_are_merged_in_one_process_and_share_no_name(tmp_path: Path) -> None:
    @dg.op(required_resource_keys={"lake", "spark"})
    def land() -> None: ...

    @dg.job
    def sync() -> None:
        land()

    own = dg.Definitions(jobs=[sync], resources={"lake": 1, "spark": 2}, executor=dg.multiprocess_executor)
    emea, apac = definitions("emea", tmp_path), definitions("apac", tmp_path)
    merged = dg.Definitions.merge(own, emea, apac)
    dg.Definitions.validate_loadable(merged)
    assert names(emea).keys() & names(apac).keys() == {"key None"} & names(emea).keys()
    assert merged.executor is dg.multiprocess_executor, "other people's jobs keep theirs"
    assert merged.resolve_job_def("sync").executor_def is dg.multiprocess_executor
    assert merged.resolve_job_def("emea_sync").executor_def is dg.in_process_executor


def test_an_executor_with_a_process_for_each_step_is_refused() -> None:
    with pytest.raises(SettingsError, match="executor: multiprocess starts a process for each step of a run"):
        build_defs({}, executor=dg.multiprocess_executor)


def test_specs_are_changed_but_for_their_keys(tmp_path: Path) -> None:
    given = {"warehouse": str(tmp_path), "entities": ["Account"]}
    defs = build_defs(given, translation=lambda spec: spec.replace_attributes(group_name="crm"))
    assert {spec.group_name for spec in defs.resolve_all_asset_specs()} == {"crm"}
    with pytest.raises(SettingsError, match="Runs report under the key: change key_prefix instead"):
        build_defs(given, translation=lambda spec: spec.replace_attributes(key=["mine"])).resolve_all_asset_specs()


def test_given_settings_take_nothing_from_the_environment_and_name_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", "/data/Sales__chn")
    defs = build_defs({"warehouse": str(tmp_path)})
    assert next(sensor.name for sensor in defs.sensors or ()) == "salesforce_poll_ChangeEvents"
    with pytest.raises(SettingsError, match=r"client_secrt: is not a setting. Did you mean client_secret\?") as refused:
        build_defs({"client_secrt": SECRET})
    assert SECRET not in str(refused.value)
    with pytest.raises(SettingsError, match="poll_seconds: Input should be a valid number"):
        build_defs({"poll_seconds": "often"})


COMPONENT = """
warehouse: {warehouse}
key_prefix: [salesforce, emea]
client_id: an id
client_secret: "{{{{ env('SECRET_OF_TEST') }}}}"
entities: [Account, Invoice__c]
spark_conf: {{spark.sql.shuffle.partitions: "2", spark.ui.enabled: false}}
owners: [team:sales]
settings: {{freshness_minutes: 5}}
translation: {{tags: {{domain: "{{{{ name }}}}"}}}}
"""


def test_the_component_gives_the_same_and_shows_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SECRET_OF_TEST", SECRET)
    component = SalesforceCdcComponent.resolve_from_yaml(COMPONENT.format(warehouse=tmp_path))
    assert component.client_secret is not None
    assert component.client_secret.get_secret_value() == SECRET
    defs = component.build_defs(dg.ComponentTree.for_test().load_context)
    dg.Definitions.validate_loadable(defs)
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    door = specs["salesforce/emea/invoice__c"]
    assert (door.tags["domain"], list(door.owners), door.group_name) == (
        "invoice__c",
        ["team:sales"],
        "salesforce_emea",
    )
    for shown in (component, defs, defs.resources, [job.tags for job in defs.jobs or ()], component.model_dump()):
        assert SECRET not in repr(shown)


SECRET_SETTINGS = """
warehouse: {warehouse}
settings: {{hash: ["*.Email"], hash_key: "{{{{ env('SECRET_OF_TEST') }}}}"}}
spark_conf: {{spark.hadoop.fs.s3a.secret.key: "{{{{ env('SECRET_OF_TEST') }}}}", spark.ui.enabled: false}}
"""


def test_a_secret_among_other_settings_and_options_of_spark_is_shown_nowhere_and_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SECRET_OF_TEST", SECRET)
    component = SalesforceCdcComponent.resolve_from_yaml(SECRET_SETTINGS.format(warehouse=tmp_path))
    for shown in (component, component.model_dump()):
        assert SECRET not in repr(shown)
    settings = component.org_settings()
    assert settings.hash_key is not None
    assert settings.hash_key.get_secret_value() == SECRET
    assert settings.spark_conf == {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.ui.enabled": "false"}


@pytest.mark.parametrize("prefix", ["", [], ["salesforce", ""], "sales/force", "sales force", "büro"])
def test_a_prefix_that_dagster_takes_into_no_name_is_refused_with_one_that_it_takes(prefix: str | list[str]) -> None:
    with pytest.raises(SettingsError, match=r"key_prefix: .* Write it as salesforce, or as a list"):
        build_defs({}, key_prefix=prefix)


@pytest.mark.parametrize("name", sorted(SalesforceCdcComponent.model_fields))
def test_every_attribute_of_the_component_is_described(name: str) -> None:
    assert SalesforceCdcComponent.model_fields[name].description


def test_the_example_of_two_orgs_loads_as_a_module_of_dagsters(tmp_path: Path) -> None:
    """As it stands in docs/your-dagster.md: Dagster refuses a module that names several `Definitions`."""
    page = (ROOT / "docs/your-dagster.md").read_text()
    (example,) = [each for each in re.findall(r"```python[^\n]*\n(.*?)```", page, re.DOTALL) if "apac" in each]
    file = tmp_path / "two_orgs.py"
    file.write_text(example.replace("/data", str(tmp_path)))
    (found,) = loadable_targets_from_python_file(str(file))
    assert found.attribute == "defs"
    assert isinstance(found.target_definition, dg.Definitions)
    prefixes = {key.path[0] for key in found.target_definition.resolve_asset_graph().get_all_asset_keys()}
    assert {"emea", "apac"} <= prefixes
