"""A rebuild takes the place of the tables at its end; failing, being killed or being overtaken before costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from sfcdc_assets.apply.apply_changes import ApplyReport, ToApply, apply_entity
from sfcdc_assets.cli.main import app
from sfcdc_assets.lake.delta.rebuild_claim import RebuildAtWork, RebuildOvertaken
from sfcdc_assets.lake.delta.shadow_tables import PREFIX
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.reconciliation.rebuild import LAYERS, rebuild_entity
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import copied, keep_clock, only_settings_of_tests, session_of_tests
from sfcdc_assets_tests.process_death import Died
from sfcdc_assets_tests.run_contexts import run_on

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def changed_once(day_zero: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with a history; tests work on copies, never on them."""
    folder = tmp_path_factory.mktemp("changed_once") / "org"
    with pytest.MonkeyPatch.context() as patch:
        only_settings_of_tests(patch)
        patch.chdir(folder.parent)
        patch.setenv("SFCDC_VISIBILITY_SECONDS", "0.2")
        with copied(day_zero, folder, patch) as pipeline:
            change(pipeline, "first")
            keep_clock(pipeline.org, folder)
    return folder


@pytest.fixture
def org(changed_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedPipeline]:
    """A copy of these tables; batches are applied in this process."""
    monkeypatch.setenv("SFCDC_VISIBILITY_SECONDS", "0.2")
    with copied(changed_once, tmp_path / "org", monkeypatch) as pipeline:
        yield pipeline


def change(org: EmulatedPipeline, name: str) -> None:
    """A change that is applied when this returns."""
    with org.org.transaction() as one:
        one.update("Account", ids(org.org, "Account")[0], {"Name": name, "Description": name * 600})
        one.create("Account", {"Name": f"new with {name}"})
    org.sync()


def apply(tables: Warehouse) -> ApplyReport:
    return apply_entity(run_on(tables, spark=session_of_tests), ToApply("Account", CHANNEL))


def rebuild(org: EmulatedPipeline, by: Callable[[Warehouse], ApplyReport] = apply) -> None:
    rebuild_entity(Warehouse(str(org.warehouse)), "Account", CHANNEL, by)


def layers(org: EmulatedPipeline) -> dict[str, list[dict[str, Any]]]:
    """The rows of each layer, in an order of their own, without the batch that wrote them."""
    found = {
        layer: [{**row, "_batch": None, "_first_batch": None} for row in org.scan(f"{layer}/Account")]
        for layer in LAYERS
    }
    return {layer: sorted(rows, key=str) for layer, rows in found.items()}


def versions(org: EmulatedPipeline) -> dict[str, int]:
    return {layer: org.table(f"{layer}/Account").version() for layer in LAYERS}


def being_built(org: EmulatedPipeline) -> list[Path]:
    """Folders in which tables are or were being built."""
    return list(org.warehouse.glob(f"*/Account/{PREFIX}*/_delta_log"))


@contextmanager
def at_commit(number: int, of: str, happen: Callable[[], None]) -> Iterator[list[str]]:
    """Have something happen at the n-th commit to a present table whose path ends so; gives the commits seen."""
    original, commits = DeltaTable.create_write_transaction, []

    def committing(table: DeltaTable, *arguments: Any, **options: Any) -> None:
        uri = table.table_uri.rstrip("/")
        if uri.endswith(of):
            commits.append(uri)
            if len(commits) == number:
                happen()
        original(table, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", committing)
        yield commits


def test_rebuilt_tables_have_the_same_rows_and_go_on_with_the_versions_of_those_before(org: EmulatedPipeline) -> None:
    before, at = layers(org), versions(org)
    files = {name: set(org.table(f"{name}/Account").file_uris()) for name in LAYERS}
    rebuild(org)
    assert layers(org) == before
    assert all(versions(org)[name] > at[name] for name in LAYERS)
    for name in LAYERS:
        assert not files[name] & set(org.table(f"{name}/Account").file_uris()), "every file is a new one"
        old = DeltaTable(str(org.warehouse / name / "Account"), version=at[name])
        assert set(old.file_uris()) == files[name], "the version of before is still there"
    assert being_built(org) == []
    change(org, "after it")
    org.assert_equal_to_the_org()
    again = layers(org)
    rebuild(org)
    assert layers(org) == again


def test_a_rebuild_that_cannot_read_what_it_needs_leaves_the_tables_as_they_were(org: EmulatedPipeline) -> None:
    before, at = layers(org), versions(org)
    (page, *_) = org.warehouse.glob("snapshot/Account/_snapshot=1/*.parquet")
    kept = page.read_bytes()
    page.write_bytes(kept[: len(kept) // 2])
    result = CliRunner().invoke(app, ["rebuild", "--entity", "Account"])
    assert result.exit_code == 1
    assert (layers(org), versions(org)) == (before, at)
    page.write_bytes(kept)
    rebuild(org)
    assert layers(org) == before
    assert being_built(org) == [], "what the failed one left is gone"


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_rebuild_that_is_killed_at_any_of_its_commits_is_made_up_for_by_the_next_run(
    org: EmulatedPipeline, number: int
) -> None:
    def die() -> None:
        raise Died

    before = layers(org)
    with pytest.raises(Died), at_commit(number, "/Account", die) as commits:
        rebuild(org)
    assert len(commits) == number
    assert layers(org) == before, "readers see nothing of it"
    change(org, "after it was killed")
    org.assert_equal_to_the_org()
    before = layers(org)
    rebuild(org)
    assert layers(org) == before
    assert being_built(org) == []


def test_a_rebuild_takes_in_what_other_runs_apply_meanwhile(org: EmulatedPipeline) -> None:
    meanwhile = iter(["while it is built", "once more"])

    def overtaken(tables: Warehouse) -> ApplyReport:
        report = apply(tables)
        if name := next(meanwhile, None):
            change(org, name)
        return report

    rebuild(org, overtaken)
    org.assert_equal_to_the_org()
    before = layers(org)
    assert [row["Name"] for row in before["history"] if row["Id"] == ids(org.org, "Account")[0]][-1:]
    rebuild(org)
    assert layers(org) == before, "no version is missing"


def test_a_run_at_work_may_not_move_current_state_on_over_layers_that_were_replaced_by_older_ones(
    org: EmulatedPipeline,
) -> None:
    """The run has committed its texts and versions and comes to `current_state`. A rebuild that knows nothing of its
    events replaces texts and versions, and is killed."""
    applied = max(row["_position"] for row in org.scan("current_state/Account"))

    def older(tables: Warehouse) -> ApplyReport:
        return apply_entity(run_on(tables, spark=session_of_tests), ToApply("Account", CHANNEL, applied))

    def die() -> None:
        raise Died

    def killed_rebuild() -> None:
        with pytest.raises(Died), at_commit(4, "/Account", die):
            rebuild(org, older)

    with at_commit(1, "current_state/Account", killed_rebuild) as commits:
        change(org, "in flight")
    assert len(commits) >= 3, "the rebuild's, the refused one and its repetition"
    org.assert_equal_to_the_org()
    before = layers(org)
    rebuild(org)
    assert layers(org) == before, "no version is missing"


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_that_lost_a_file_or_its_log_is_put_in_place_again(org: EmulatedPipeline, layer: str) -> None:
    before = layers(org)
    for path in list((org.warehouse / layer / "Account").glob("*.parquet")):
        path.unlink()
    rebuild(org)
    assert layers(org) == before
    for path in (org.warehouse / layer / "Account" / "_delta_log").glob("*.json"):
        path.write_text("{")
    rebuild(org)
    assert layers(org) == before
    change(org, "after it")
    org.assert_equal_to_the_org()


def test_a_rebuild_from_the_org_begins_history_again_and_keeps_nothing_of_before(org: EmulatedPipeline) -> None:
    old = {path for layer in (*LAYERS, "snapshot") for path in (org.warehouse / layer / "Account").rglob("*.parquet")}
    from_org = ["rebuild", "--from-org", "--entity", "Account"]
    result = CliRunner().invoke(app, from_org)
    assert result.exit_code == 0, result.output
    org.assert_equal_to_the_org()
    assert {row["_change_type"] for row in org.all_versions("Account")} == {"SNAPSHOT"}
    assert not any(path.exists() for path in old)
    change(org, "after it")
    org.assert_equal_to_the_org()
    before = layers(org)
    rebuild(org)
    assert layers(org) == before
    assert CliRunner().invoke(app, from_org).exit_code == 0
    org.assert_equal_to_the_org()


@pytest.mark.parametrize("is_begun", ["while it is built", "while it is put in place"])
def test_a_second_rebuild_of_an_entity_is_refused_and_takes_nothing_from_the_first(
    org: EmulatedPipeline, is_begun: str
) -> None:
    before, refused = layers(org), []

    def begin_another() -> None:
        with pytest.raises(RebuildAtWork) as error:
            rebuild(org)
        refused.append(str(error.value))

    def at_work(tables: Warehouse) -> ApplyReport:
        if is_begun == "while it is built":
            begin_another()
        return apply(tables)

    with at_commit(2, "current_state/Account", lambda: None if refused else begin_another()):
        rebuild(org, at_work)
    assert len(refused) == 1
    assert (layers(org), being_built(org)) == (before, [])
    change(org, "after both")
    org.assert_equal_to_the_org()


def test_what_was_built_and_is_gone_is_not_put_in_place(org: EmulatedPipeline) -> None:
    before, at = layers(org), versions(org)

    def lose_a_file(tables: Warehouse) -> ApplyReport:
        done = apply(tables)
        next(org.warehouse.glob(f"history/Account/{PREFIX}*/*.parquet")).unlink()
        return done

    with pytest.raises(RebuildOvertaken):
        rebuild(org, lose_a_file)
    assert (layers(org), versions(org)) == (before, at)
    rebuild(org)
    assert layers(org) == before
