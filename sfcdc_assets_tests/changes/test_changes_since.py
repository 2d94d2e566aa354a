"""What consumers are told, through the whole pipeline against the emulated org."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from sfcdc_assets import ChangesExpired, changes_since, open_cut
from sfcdc_assets.changes import token as reasons
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

pytestmark = pytest.mark.slow

Changes = dict[str, dict[str, Any]]


def asked(org: EmulatedPipeline, since: Any, entity: str = "Account", **options: bool) -> tuple[Changes, str]:
    """The changes by record, and the next token."""
    reported, token = changes_since(str(org.warehouse), entity, since, **options)
    rows = reported.to_pylist()
    assert len({row["Id"] for row in rows}) == len(rows)
    return {row["Id"]: row for row in rows}, token


def in_sql(org: EmulatedPipeline, token: str, entity: str = "Account") -> Changes:
    with open_cut(str(org.warehouse)).duckdb() as views:
        rows = views.sql(f"FROM {entity.lower()}_changes_since('{token}')").to_arrow_table().to_pylist()
    return {row["Id"]: row for row in rows}


def table_of(org: EmulatedPipeline, entity: str = "Account") -> Table:
    found = Table.open(Warehouse(str(org.warehouse)), f"current_state/{entity}")
    assert found is not None
    return found


def test_each_kind_of_change_is_reported_once_from_what_the_record_was(org: EmulatedPipeline) -> None:
    everything, token = asked(org, None)
    assert everything.keys() == set(ids(org.org, "Account"))
    assert {row["_op"] for row in everything.values()} == {"insert"}
    changed, deleted, back, *_ = ids(org.org, "Account")
    was = everything[changed]
    with org.org.transaction() as work:
        work.delete("Account", back)
    org.sync()
    _, middle = asked(org, token)
    with org.org.transaction() as work:
        work.update("Account", changed, {"Phone": "1", "Industry": "Energy"})
        work.delete("Account", deleted)
        work.undelete("Account", back)
        new = work.create("Account", {"Name": "New"})
    with org.org.transaction() as work:
        work.update("Account", changed, {"Phone": "2"})
        short = work.create("Account", {"Name": "Short-lived"})
    with org.org.transaction() as work:
        work.delete("Account", short)
    org.sync()
    reported, last = asked(org, middle)
    assert {key: row["_op"] for key, row in reported.items()} == {
        changed: "update", deleted: "delete", back: "undelete", new: "insert", short: "delete",
    }  # fmt: skip
    assert sorted(reported[changed]["_changed_fields"]) == sorted(
        name for name in was if not name.startswith("_") and reported[changed][name] != was[name]
    )
    assert (reported[changed]["Phone"], reported[changed]["_before"]["Phone"]) == ("2", was["Phone"])
    assert reported[changed]["_before"]["Name"] is None, "it has not changed"
    assert (reported[deleted]["_deleted_reason"], reported[deleted]["Name"]) == ("deleted", everything[deleted]["Name"])
    assert reported[new]["_before"] is None
    assert {row["_certain"] for row in reported.values()} == {True}
    assert in_sql(org, middle) == reported
    assert asked(org, last) == ({}, last)
    versions, _ = changes_since(str(org.warehouse), "Account", middle, versions=True)
    steps = [(row["_op"], row["Phone"]) for row in versions.to_pylist() if row["Id"] == changed]
    assert steps == [("update", "1"), ("update", "2")]
    assert [row["_op"] for row in versions.to_pylist() if row["Id"] == short] == ["insert", "delete"]
    over_both, _ = asked(org, token)
    assert over_both.keys() == reported.keys()
    assert over_both[back]["_op"] == "update", "it was there at the token, and is there"


def test_several_entities_are_asked_at_one_cut_in_python_and_in_sql(org: EmulatedPipeline) -> None:
    before = open_cut(str(org.warehouse))
    tokens = {entity: before.changes_since(entity)[1] for entity in ("Account", "Contact")}
    (account, *_), (contact, *_) = ids(org.org, "Account"), ids(org.org, "Contact")
    with org.org.transaction() as work:
        work.update("Account", account, {"Phone": "7"})
        work.update("Contact", contact, {"Title": "CTO"})
    org.sync()
    cut = open_cut(str(org.warehouse))
    found = {entity: cut.changes_since(entity.lower(), token) for entity, token in tokens.items()}
    assert [reported["Id"].to_pylist() for reported, _ in found.values()] == [[account], [contact]]
    assert [reported.num_rows for reported, _ in (before.changes_since(e, t) for e, (_, t) in found.items())] == [0, 0]
    with cut.duckdb() as views:
        shown = dict(views.execute("SELECT entity, token FROM sfcdc_tokens").fetchall())
        assert shown == {entity: token for entity, (_, token) in found.items()}
        living = views.execute("SELECT count(*) FROM account_changes_since(NULL) WHERE _op = 'insert'").fetchone()
        assert living == (len(ids(org.org, "Account")),)
    from_a_file = sfcdc("views", "--duckdb", "views.duckdb")
    assert from_a_file.exit_code == 0, from_a_file.stderr
    with duckdb.connect("views.duckdb", read_only=True) as views:
        query = f"SELECT \"Id\", _before.Phone, _changed_fields FROM account_changes_since('{tokens['Account']}')"
        assert views.execute(query).fetchall()[0][0] == account
    said = sfcdc("sql", "--json", f"SELECT \"Id\" FROM contact_changes_since('{tokens['Contact']}')")
    assert json.loads(said.stdout) == [{"Id": contact}], said.stderr


def test_what_an_org_was_since_a_position_or_a_time_is_reported_by_its_versions(org: EmulatedPipeline) -> None:
    moment = datetime.fromtimestamp(org.org.clock() / 1000, UTC)
    position = Checkpoint.of(table_of(org), "/data/ChangeEvents").position
    first, second, *_ = ids(org.org, "Account")
    org.org.clock.advance(5_000)
    with org.org.transaction() as work:
        work.update("Account", first, {"Phone": "3"})
        work.delete("Account", second)
    org.sync()
    for since in (position, moment):
        reported, token = asked(org, since)
        assert {key: row["_op"] for key, row in reported.items()} == {first: "update", second: "delete"}, since
        assert reported[first]["_changed_fields"] == ["Phone"] or "Phone" in reported[first]["_changed_fields"]
        assert asked(org, token) == ({}, token)


def test_a_consumer_can_leave_out_the_changes_that_it_made_itself_in_python_and_in_sql(org: EmulatedPipeline) -> None:
    _, token = asked(org, None)
    loader = "com/salesforce/api/rest/65.0;client=Loader"
    own, others, both, *_ = ids(org.org, "Account")
    changes = ((own, loader), (others, ""), (both, ""), (both, loader))
    for number, (record_id, origin) in enumerate(changes):
        with org.org.transaction(change_origin=origin) as work:
            work.update("Account", record_id, {"Phone": str(number)})
    org.sync()
    reported, _ = asked(org, token)
    origins = {own: loader, others: "", both: loader}
    assert {key: row["_change_origin"] for key, row in reported.items()} == origins, "of the last change"
    assert {key: row["_change_origin"] for key, row in in_sql(org, token).items()} == origins
    versions, _ = changes_since(str(org.warehouse), "Account", token, versions=True)
    of_others = [row for row in versions.to_pylist() if not (row["_change_origin"] or "").endswith(";client=Loader")]
    assert sorted(row["Id"] for row in of_others) == sorted([others, both])


def test_a_record_is_reported_when_it_becomes_suspect_and_when_it_is_certain_again(org: EmulatedPipeline) -> None:
    _, token = asked(org, None)
    record, *_ = ids(org.org, "Account")
    org.server.faults.arm(Fault.INTERNAL_ERROR)  # a gap, which is read back
    with org.org.transaction() as work:
        work.update("Account", record, {"Phone": "hidden"})
    org.sync()
    reported, _ = asked(org, token)
    assert reported.keys() == {record}
    assert (reported[record]["Phone"], reported[record]["_certain"]) == ("hidden", True)
    assert in_sql(org, token) == reported


def test_a_rebuild_and_what_is_no_token_tell_a_consumer_to_begin_again_and_why(org: EmulatedPipeline) -> None:
    _, token = asked(org, None)
    _, of_contact = asked(org, None, "Contact")
    for wrong, reason in ((token[:-1], reasons.DAMAGED), (of_contact, reasons.OF_ANOTHER_ENTITY)):
        with pytest.raises(ChangesExpired) as error:
            asked(org, wrong)
        assert error.value.reason == reason
        with pytest.raises(duckdb.InvalidInputException, match=reason):
            in_sql(org, wrong)
    assert sfcdc("rebuild", "--entity", "Account").exit_code == 0
    org.sync()
    with pytest.raises(ChangesExpired, match=r"rebuilt since, .*Begin again") as error:
        asked(org, token)
    assert error.value.entity == "Account"
    with pytest.raises(duckdb.InvalidInputException, match="rebuilt since"):
        in_sql(org, token)
    everything, token = asked(org, None)
    assert everything.keys() == set(ids(org.org, "Account"))
    assert asked(org, token) == ({}, token)


def test_an_entity_that_is_not_known_is_named_with_those_that_are(org: EmulatedPipeline) -> None:
    with pytest.raises(LookupError, match=r"Acount is not in the cut\. Did you mean Account\?"):
        changes_since(str(org.warehouse), "Acount")
    with pytest.raises(LookupError, match="Entities that are: Account, Contact"):
        changes_since(str(org.warehouse), "Invoice__c")


def test_the_columns_are_those_that_are_promised(org: EmulatedPipeline) -> None:
    reported, token = changes_since(str(org.warehouse), "Account")
    promised = ["Id", "_op", "_before", "_changed_fields", "_commit_user", "_commit_timestamp", "_certain"]
    assert [name for name in reported.column_names if name in promised] == [
        "Id",
        "_op",
        *promised[2:4],
        "_certain",
        *promised[4:6],
    ]
    assert pa.types.is_struct(reported.schema.field("_before").type)
    assert reported.schema.equals(changes_since(str(org.warehouse), "Account", token)[0].schema)
