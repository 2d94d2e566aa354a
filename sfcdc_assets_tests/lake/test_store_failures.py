"""What an object store refuses, or does not do for a while, is reported as that: it says nothing of the tables."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from sfcdc_assets.apply.task_failures import TaskFailed, report_file_damage
from sfcdc_assets.lake.delta.handles import HANDLES
from sfcdc_assets.lake.delta.shadow_tables import open_if_readable
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit, StoreRefused, StoreUnavailable
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.store.object_stores import refusal_of
from sfcdc_assets.lake.tables.damage import damage_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.lake.object_store import BUCKET, EXPIRED, SLOW_DOWN, Failure, ObjectStore, object_store
from sfcdc_assets_tests.store_login import log_in

WAREHOUSE = Warehouse(f"s3://{BUCKET}/warehouse")
NAME = "current_state/Account"
ROWS = pa.table({"Id": ["001000000000001AAA"]})
DENIED = Failure(403, "AccessDenied", "Access Denied")
CHANNEL = "/data/ChangeEvents"


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    """With one table of one row."""
    with pytest.MonkeyPatch.context() as patch, object_store() as served:
        log_in(served.environment, patch)
        Table.open_or_create(WAREHOUSE, NAME, ROWS.schema).append(ROWS, {CHANNEL: 1}, {})
        yield served


def table() -> Table:
    found = Table.open(WAREHOUSE, NAME)
    assert found is not None
    return found


def opened_anew() -> object:
    HANDLES._idle.clear()
    return Table.open(WAREHOUSE, NAME)


USES: dict[str, Callable[[Table], object]] = {
    "open": lambda _: Table.open(WAREHOUSE, NAME),
    "open anew": lambda _: opened_anew(),
    "open an older version": lambda _: Table.open(WAREHOUSE, NAME, 0),
    "whether it can be rebuilt in its place": lambda _: open_if_readable(WAREHOUSE, NAME),
    "create": lambda _: Table.open_or_create(WAREHOUSE, "current_state/Contact", ROWS.schema),
    "list": lambda _: WAREHOUSE.entities("current_state"),
    "scan": lambda opened: opened.scan(),
    "read files": lambda opened: opened.read_files([file.path for file in opened.files()], ["Id"]),
    "append": lambda opened: opened.append(ROWS, {CHANNEL: 2}, {}),
    "commit no rows": lambda opened: opened.append(ROWS.slice(0, 0), {CHANNEL: 2}, {}),
    "upsert": lambda opened: opened.upsert(ROWS, ["Id"], {}),
    "delete": lambda opened: opened.delete_rows("Id = '001000000000001AAA'", {}),
    "set a property": lambda opened: opened.keep(log_hours=5),
    "vacuum": lambda opened: opened.vacuum(orphans=True),
    "checkpoint": lambda opened: opened.checkpoint(),
    "look for damage": lambda _: damage_of(WAREHOUSE, "Account", thorough=True),
    "maintain": lambda _: list(maintain(WAREHOUSE, Retention(7), 1)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("failure", [EXPIRED, DENIED], ids=lambda failure: failure.code)
def test_a_table_is_never_damaged_because_the_store_refuses(store: ObjectStore, failure: Failure, use: str) -> None:
    opened = table()
    with store.failing(failure), pytest.raises(StoreRefused) as refused:
        USES[use](opened)
    assert str(refused.value).startswith(f"SFCDC_WAREHOUSE: the warehouse {WAREHOUSE.root} cannot be used (Amazon S3 ")
    if failure is EXPIRED:
        assert "expired" in str(refused.value)
        assert "Start whatever runs here again with new ones" in str(refused.value)
    assert table().scan().num_rows == 1


def test_a_store_that_is_too_busy_for_long_may_answer_later(store: ObjectStore) -> None:
    opened = table()
    with (
        store.failing(SLOW_DOWN),
        pytest.raises(StoreUnavailable, match=r"does not answer \((SlowDown: Please|503 Ser)"),
    ):
        USES["append"](opened)
    assert table().scan().num_rows == 1


def test_a_store_that_is_busy_for_a_moment_is_asked_again(store: ObjectStore) -> None:
    with store.failing(SLOW_DOWN, times=2):
        assert table().scan().num_rows == 1


def test_a_commit_that_the_store_made_and_answered_with_an_error_is_made_once(store: ObjectStore) -> None:
    name = "raw_events"
    opened = Table.open_or_create(WAREHOUSE, name, ROWS.schema)
    made = Failure(500, "InternalError", "We encountered an internal error.", "PUT", r".*\.json", is_done=True)
    with store.failing(made, times=1), pytest.raises(ConcurrentCommit):
        opened.append(ROWS, {CHANNEL: 1}, {})
    found = Table.open(WAREHOUSE, name)
    assert found is not None
    assert (found.transaction_version(CHANNEL), found.scan().num_rows) == (1, 1)


def test_a_token_that_the_store_sends_back_is_shown_nowhere() -> None:
    said = (
        "Generic S3 error: Error performing GET http://s3/b/w in 3ms - Server returned non-2xx status code: 400 Bad "
        "Request: <Error><Code>InvalidToken</Code><Message>The provided token is malformed.</Message><Token-0>IQoJ"
        "</Token-0></Error>"
    )
    reported = pytest.raises(StoreRefused, match="InvalidToken: The provided token is malformed")
    with reported as refused, report_file_damage(WAREHOUSE, "Account"):
        raise TaskFailed("Account", f"OSError: {said}")
    assert "IQoJ" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "text",
    [
        "Object at location w/x.parquet not found: Error performing GET http://s3/b/w/x.parquet in 403.2µs - Server "
        "returned non-2xx status code: 404 Not Found: <Error><Code>NoSuchKey</Code></Error>",
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "Parquet error: Invalid Parquet file. Corrupt footer",
        "",
    ],
)
def test_what_is_no_answer_of_the_store_to_a_login_is_no_refusal(text: str) -> None:
    assert refusal_of(WAREHOUSE.root, text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Generic S3 error: Error performing GET http://s3/b in 30s, after 2 retries - HTTP error: operation timed out",
        "Generic S3 error: Error performing PUT http://s3/b in 1s - Server returned non-2xx status code: 429 Too Many "
        "Requests: <Error><Code>SlowDown</Code></Error>",
        "Generic S3 error: Error performing PUT http://s3/b in 1s - Server returned non-2xx status code: 504 Gateway "
        "Timeout: ",
    ],
)
def test_what_passes_by_itself_is_tried_again(text: str) -> None:
    assert isinstance(refusal_of(WAREHOUSE.root, text), StoreUnavailable)
