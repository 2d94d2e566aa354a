"""An object store that does not take what is written, or would lose it, is refused before anything is written."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from pyarrow import fs

from sfcdc_assets.lake.delta import commit_probe
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import CommitsNotAtomic, StoreRefused, StoreUnavailable
from sfcdc_assets.lake.store.object_stores import PREFIXES, STORES, refusal_of
from sfcdc_assets.lake.tables.organization import OrganizationLog, organization_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.same_organization import claim_warehouse
from sfcdc_assets_tests.lake.object_store import BUCKET, SECRET, ObjectStore, object_store
from sfcdc_assets_tests.store_login import forget_logins

ROOT = f"s3://{BUCKET}/warehouse"
ORGANIZATION = "00D000000000001EAA"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Of no store; and no metadata service is asked for a login, which would take long where there is none."""
    forget_logins(monkeypatch)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


@pytest.fixture(scope="module")
def served() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


def use(store: ObjectStore, environment: pytest.MonkeyPatch) -> None:
    for name, value in store.environment.items():
        environment.setenv(name, value)


def objects(warehouse: Warehouse) -> list[str]:
    found = warehouse.filesystem("").get_file_info(fs.FileSelector("", recursive=True, allow_not_found=True))
    return [info.path for info in found if info.type is fs.FileType.File]


def refused(root: str) -> str:
    with pytest.raises(StoreRefused) as error:
        Warehouse(root).check_writable()
    return str(error.value)


def test_every_scheme_has_a_store_with_the_variables_that_log_in() -> None:
    assert set(PREFIXES.values()) == set(STORES)
    for prefix, store in STORES.items():
        assert f"Set {prefix}" in store.login


def test_without_credentials_s3_is_refused_with_the_variables_to_set(environment: pytest.MonkeyPatch) -> None:
    said = refused(ROOT)
    assert said.startswith(f"SFCDC_WAREHOUSE: the warehouse {ROOT} cannot be used (no credentials of Amazon S3")
    assert "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY" in said


def test_without_an_account_azure_is_refused_with_the_variables_to_set() -> None:
    said = refused("az://container/warehouse")
    assert "no credentials of Azure storage" in said
    assert "Set AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY" in said


def test_without_a_key_file_google_is_refused_with_the_variable_to_set(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("GOOGLE_SERVICE_ACCOUNT", "/there/is/no/such.json")
    said = refused("gs://bucket/warehouse")
    assert "no credentials of Google Cloud Storage" in said
    assert "/there/is/no/such.json" in said
    assert "Set GOOGLE_SERVICE_ACCOUNT to the path" in said


def test_refused_credentials_are_said_to_be_refused_and_not_shown(
    served: ObjectStore, environment: pytest.MonkeyPatch
) -> None:
    use(served, environment)
    environment.setenv("AWS_ACCESS_KEY_ID", "of somebody else")
    said = refused(ROOT)
    assert "Amazon S3 refuses the credentials" in said
    assert f"Let them read, write, list and delete below {ROOT}" in said
    assert SECRET not in said


def test_a_table_is_not_damaged_where_the_store_refuses(served: ObjectStore, environment: pytest.MonkeyPatch) -> None:
    use(served, environment)
    environment.setenv("AWS_ACCESS_KEY_ID", "of somebody else")
    with pytest.raises(StoreRefused):
        Table.open(Warehouse(ROOT), "raw_events")


def test_a_store_that_does_not_answer_may_answer_later(environment: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        use(ObjectStore(closed.getsockname()[1]), environment)
        with pytest.raises(StoreUnavailable, match="does not answer"):
            Warehouse(ROOT).check_writable()


@pytest.mark.parametrize(
    ("root", "text", "said"),
    [
        (
            "abfss://c@account.dfs.core.windows.net/w",
            "Generic MicrosoftAzure error: Error performing token request: Error performing GET http://169.254.169.254/"
            "metadata/identity/oauth2/token in 3s - Server returned non-2xx status code: 403 Forbidden",
            "no credentials of Azure storage",
        ),
        (
            "gs://bucket/w",
            "Generic GCS error: Error performing token request: Error performing GET http://169.254.169.254/compute"
            "Metadata/v1/instance/service-accounts/default/token - error sending request",
            "no credentials of Google Cloud Storage",
        ),
        (
            "s3://bucket/w",
            "Generic S3 error: Error performing PUT http://s3/bucket/w - Server returned non-2xx status code: 404 Not "
            "Found: <Error><Code>NoSuchBucket</Code></Error>",
            "Amazon S3 has no such bucket",
        ),
        (
            "abfss://c@account.dfs.core.windows.net/w",
            "Object at location w not found: <Code>ContainerNotFound</Code>",
            "Azure storage has no such container",
        ),
    ],
)
def test_what_stores_answer_is_distinguished(root: str, text: str, said: str) -> None:
    assert said in str(refusal_of(root, OSError(text)))


def test_what_is_not_of_the_store_is_no_refusal() -> None:
    assert refusal_of(ROOT, OSError("not a Parquet file")) is None
    assert refusal_of("/a/folder", OSError("Generic S3 error: 403 Forbidden")) is None


def test_a_store_that_takes_a_file_is_asked_once_a_process(
    served: ObjectStore, environment: pytest.MonkeyPatch
) -> None:
    use(served, environment)
    Warehouse(f"{ROOT}-once").check_writable()
    assert objects(Warehouse(f"{ROOT}-once")) == []
    environment.setattr("sfcdc_assets.lake.store.store_options.TableFiles", None)
    Warehouse(f"{ROOT}-once").check_writable()


def test_a_store_that_would_lose_commits_is_refused_before_there_is_a_table(environment: pytest.MonkeyPatch) -> None:
    with object_store("--unconditional") as store:
        use(store, environment)
        with pytest.raises(CommitsNotAtomic, match=r"Nothing was written\. Use a store with conditional writes"):
            claim_warehouse(Warehouse(ROOT), ORGANIZATION, 1)
        assert objects(Warehouse(ROOT)) == []


def test_a_store_is_tried_once_for_a_warehouse_also_where_one_is_older_and_again_elsewhere(
    served: ObjectStore, environment: pytest.MonkeyPatch
) -> None:
    use(served, environment)
    tried: list[Warehouse] = []
    environment.setattr(commit_probe, "commits_accepted", lambda probe: tried.append(probe) or 1)
    older = Warehouse(f"{ROOT}-older")
    OrganizationLog(older).bind(ORGANIZATION, 1, {})
    for warehouse in (older, Warehouse(f"{ROOT}-new")):
        for _ in range(2):
            claim_warehouse(warehouse, ORGANIZATION, 1)
            assert organization_of(warehouse) == ORGANIZATION
            assert OrganizationLog(warehouse).commits_are_atomic
    assert [each.root.rpartition("/")[0] for each in tried] == [older.root, f"{ROOT}-new"]
    assert not OrganizationLog(Warehouse(f"{ROOT}-elsewhere")).commits_are_atomic
