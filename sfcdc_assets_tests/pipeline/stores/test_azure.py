"""A warehouse in Azure's Blob service, as Microsoft emulates it: what holds in a folder and on S3 holds there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.lake.delta.commit_probe import check_commits
from sfcdc_assets.lake.errors import StoreRefused
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.pipeline.commits import another_memory, before_commit
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, quiet
from sfcdc_assets_tests.pipeline.simulation.read_tables import versions_of
from sfcdc_assets_tests.pipeline.stores.azurite import ACCOUNT, CONTAINER, azurite
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow
from sfcdc_assets_tests.store_login import log_in

__all__ = ["no_settings_but_the_tests_own"]

pytestmark = pytest.mark.slow

ROOTS = (f"az://{CONTAINER}/warehouse", f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/warehouse2")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with azurite(tmp_path_factory.mktemp("azurite") / "run") as served:
        yield served


@pytest.fixture(autouse=True)
def azure(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator's login, and nobody else's."""
    log_in(environment, monkeypatch)


@pytest.mark.parametrize("root", [ROOTS[0], pytest.param(ROOTS[1], marks=pytest.mark.soak)])
def test_snapshot_changes_a_race_and_a_rebuild_end_with_the_orgs_rows(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_commits(Warehouse(root))
    with quiet(tmp_path, monkeypatch, warehouse=root) as pipeline:
        pipeline.sync()

        def change(text: str) -> None:
            for record_id in pipeline.ids()[:3]:
                pipeline.update(record_id, Name=f"{text} {record_id}", Description=f"{text} " * 200)
            pipeline.clock.advance(1_000)

        def other() -> None:
            with another_memory():
                change("other's")
                pipeline.catch_up()

        change("own")
        with before_commit(5, other) as commits:
            pipeline.catch_up()
        assert commits.happened_at is not None
        pipeline.catch_up()
        pipeline.assert_equal()
        assert_versions_follow(versions_of(pipeline.warehouse, ENTITY))
        before = pipeline.layers()
        pipeline.rebuild()
        assert pipeline.layers() == before


def test_another_key_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "b2Ygc29tZWJvZHkgZWxzZQ==")
    with pytest.raises(StoreRefused, match="Azure storage refuses the credentials") as refused:
        Warehouse(ROOTS[0]).check_writable()
    assert "b2Ygc29tZWJvZHkgZWxzZQ" not in str(refused.value)


def test_a_container_that_is_not_there_is_named() -> None:
    with pytest.raises(StoreRefused, match="Azure storage has no such container"):
        Warehouse("az://another/warehouse").check_writable()
