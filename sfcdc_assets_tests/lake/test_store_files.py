"""Files of an object store by one request each: as deltalake reads and writes them, and with its logins."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from sfcdc_assets.lake.store import store_client, store_files
from sfcdc_assets.lake.store.store_client import client_of
from sfcdc_assets.lake.store.store_files import StoreFiles
from sfcdc_assets.lake.store.store_options import TableFiles, storage_options
from sfcdc_assets_tests.lake.object_store import BUCKET, SECRET, Failure, ObjectStore, object_store
from sfcdc_assets_tests.store_login import log_in

URI = f"s3://{BUCKET}/warehouse/table"


@pytest.fixture(scope="module")
def served() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def files(served: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> fs.FileSystem:
    """Those of a table, with the credentials of this process."""
    log_in(served.environment, monkeypatch)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setattr(store_client, "_KNOWN", {})
    return fs.PyFileSystem(StoreFiles(URI, storage_options(URI)))


def write(filesystem: fs.FileSystem, path: str, content: bytes) -> None:
    with filesystem.open_output_stream(path) as sink:
        sink.write(content)


def read(filesystem: fs.FileSystem, path: str) -> bytes:
    with filesystem.open_input_file(path) as source:
        return bytes(source.read())


@pytest.mark.parametrize("path", ["a.parquet", "part=of a folder/50%.parquet", "part=%20/ü.parquet"])
def test_names_mean_the_object_that_they_mean_to_deltalake(files: fs.FileSystem, path: str) -> None:
    deltalakes = fs.PyFileSystem(TableFiles(URI, storage_options(URI)))
    write(files, path, b"first")
    assert read(deltalakes, path) == b"first"
    write(deltalakes, path, b"second")
    assert read(files, path) == b"second"
    infos = [each.get_file_info(path) for each in (files, deltalakes)]
    assert {(info.type, info.size) for info in infos} == {(fs.FileType.File, len(b"second"))}


def test_opening_reading_writing_and_asking_are_a_request_each(files: fs.FileSystem, served: ObjectStore) -> None:
    def kinds() -> dict[str, int]:
        found = served.requests - before
        return {kind: number for (kind, _), number in found.items()}

    write(files, "once.json", b"{}")
    before = served.requests
    write(files, "once.json", b"[]")
    assert kinds() == {"PUT": 1}
    before = served.requests
    assert read(files, "once.json") == b"[]"
    assert kinds() == {"GET": 1}
    before = served.requests
    found = files.get_file_info(["once.json", "_delta_log/_last_checkpoint", "none.json"])
    assert [info.type for info in found] == [fs.FileType.File, fs.FileType.NotFound, fs.FileType.NotFound]
    assert kinds() == {"HEAD": 3}


def test_a_larger_file_is_read_by_parts_and_is_the_same(files: fs.FileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_files, "READ_AT_FIRST", 1_000)
    dice = Random(7)
    content = dice.randbytes(5_000)
    write(files, "large", content)
    with files.open_input_file("large") as source:
        assert source.size() == len(content)
        for _ in range(50):
            first, count = dice.randrange(5_200), dice.randrange(3_000)
            source.seek(first)
            assert source.read(count) == content[first : first + count]
        source.seek(0)
        assert source.readall() == content
    rows = pa.table({"number": range(3_000), "text": [str(dice.random()) for _ in range(3_000)]})
    with files.open_output_stream("rows.parquet") as sink:
        pq.write_table(rows, sink, row_group_size=500)
    assert pq.read_table("rows.parquet", filesystem=files, columns=["text"]) == rows.select(["text"])


def test_a_folder_is_one_and_a_missing_file_is_said_to_be_missing(files: fs.FileSystem) -> None:
    write(files, "folder/inside.json", b"{}")
    assert files.get_file_info("folder").type is fs.FileType.Directory
    assert files.get_file_info("another").type is fs.FileType.NotFound
    with pytest.raises(FileNotFoundError):
        files.open_input_file("folder/none.json")


def test_what_the_client_is_refused_is_asked_of_deltalake_which_has_the_last_word(
    files: fs.FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its logins are more than the client knows. From then on the client is not asked."""
    another = {"access_key_id": "another's", "secret_access_key": "", "token": None, "expires_at": None}
    monkeypatch.setattr(store_client, "_login", lambda *_, **__: lambda: another)
    write(files, "a.json", b"content")
    assert client_of(URI, storage_options(URI)) is None
    assert read(files, "a.json") == b"content"
    assert files.get_file_info("a.json").size == len(b"content")


def test_what_both_are_refused_is_deltalakes_error_and_shows_no_secret(
    files: fs.FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of somebody else")
    refused = fs.PyFileSystem(StoreFiles(URI, storage_options(URI)))
    with pytest.raises(OSError, match="403") as error:
        read(refused, "a.json")
    assert SECRET not in str(error.value)


def test_the_settings_that_are_given_are_all_and_those_of_the_process_are_not_added(
    files: fs.FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a worker's of a cluster, which may have a login of its own."""
    options = storage_options(URI)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of another login")
    theirs = fs.PyFileSystem(StoreFiles(URI, options))
    write(theirs, "theirs.json", b"{}")
    assert read(theirs, "theirs.json") == b"{}"
    assert client_of(URI, options) is not None


def test_settings_of_deltalake_that_the_client_does_not_know_are_left_out(files: fs.FileSystem) -> None:
    options = storage_options(URI) | {"AWS_S3_LOCKING_PROVIDER": "dynamodb", "AWS_PAGER": "", "AWS_TIMEOUT": "20s"}
    assert client_of(URI, options) is not None


def test_where_deltalake_would_log_in_by_a_profile_there_is_no_client(files: fs.FileSystem) -> None:
    options = {name: value for name, value in storage_options(URI).items() if "KEY" not in name}
    assert client_of(URI, options | {"AWS_PROFILE": "of mine"}) is None


def test_it_is_pickled_with_what_opens_the_store_and_shows_none_of_it(files: fs.FileSystem) -> None:
    write(files, "a.json", b"{}")
    handler = StoreFiles(URI, storage_options(URI))
    again = pickle.loads(pickle.dumps(fs.PyFileSystem(handler)))
    assert read(again, "a.json") == b"{}"
    assert SECRET not in f"{handler!r} {again!r} {client_of(URI, storage_options(URI))!r}"


def test_a_key_of_azure_is_the_login_and_is_not_shown(files: fs.FileSystem) -> None:
    uri = "abfss://container@account.dfs.core.windows.net/warehouse"
    key = "b2Ygc29tZWJvZHkgZWxzZQ=="
    client = client_of(uri, {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_ACCOUNT_KEY": key})
    assert client is not None
    assert key not in repr(client)


def test_a_part_of_a_file_that_the_client_is_refused_is_read_by_deltalake_whose_error_counts(
    files: fs.FileSystem, served: ObjectStore
) -> None:
    content = Random(1).randbytes(store_files.READ_AT_FIRST + 1_000)
    write(files, "large.parquet", content)
    with files.open_input_file("large.parquet") as source:
        with served.failing(Failure(403, "AccessDenied", "Access Denied"), times=1):
            assert bytes(source.read()) == content
        source.seek(len(content) - 10)
        with (
            served.failing(Failure(403, "AccessDenied", "Access Denied")),
            pytest.raises(OSError, match="403 Forbidden"),
        ):
            source.read(10)
