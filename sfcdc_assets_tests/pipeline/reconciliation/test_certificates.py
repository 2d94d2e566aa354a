"""A certificate of a real warehouse holds by our check and by one that does not know the package, and both see every
kind of tampering."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sfcdc_assets.cli.main import app
from sfcdc_assets.lake.certificates.certificate import hash_of
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process, copied, keep_clock, only_settings_of_tests

CHECKER = ROOT / "docs" / "check_certificate.py"


def certify(*arguments: str) -> tuple[int, Any]:
    done = CliRunner().invoke(app, ["certify", "--json", *arguments])
    return done.exit_code, json.loads(done.stdout) if done.stdout.startswith("{") else done.output


def stranger(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The page, in this process, of whose modules it imports none of the package's."""
    code = runpy.run_path(str(CHECKER))["main"](str(warehouse))
    return code, capsys.readouterr().out


def apart(warehouse: Path, *certificate: str) -> tuple[int, str]:
    """The page, in a process that could not import the package."""
    done = subprocess.run(
        [sys.executable, "-I", str(CHECKER), str(warehouse), *certificate], capture_output=True, text=True, check=False
    )
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def certified(day_zero: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An org and a warehouse with two certificates, made once for all tests, each of which has a copy."""
    folder = tmp_path_factory.mktemp("certified") / "org"
    with pytest.MonkeyPatch.context() as patch:
        only_settings_of_tests(patch)
        patch.setenv("SFCDC_VISIBILITY_SECONDS", "0.2")
        with batches_in_this_process(), copied(day_zero, folder, patch) as pipeline:
            assert certify()[0] == 0
            with pipeline.org.transaction() as one:
                one.update("Contact", ids(pipeline.org, "Contact")[0], {"Birthdate": "1815-12-10", "Phone": "1"})
                one.delete("Contact", ids(pipeline.org, "Contact")[1])
            pipeline.sync()
            assert certify()[0] == 0
            keep_clock(pipeline.org, folder)
    return folder


@pytest.fixture
def org(certified: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedPipeline]:
    monkeypatch.setenv("SFCDC_VISIBILITY_SECONDS", "0.2")
    with copied(certified, tmp_path / "org", monkeypatch) as pipeline:
        yield pipeline


def test_it_says_what_the_tables_hold_and_holds(org: EmulatedPipeline) -> None:
    certificate = json.loads((org.warehouse / "certificates" / "000002.json").read_text())
    first = json.loads((org.warehouse / "certificates" / "000001.json").read_text())
    (cut,) = certificate["cuts"]
    contact = cut["entities"]["Contact"]
    assert (cut["channel"], certificate["previous_sha256"]) == (CHANNEL, first["sha256"])
    assert (contact["living"], contact["deleted"], contact["in_doubt"]) == (29, 1, 0)
    assert contact["tables"]["current_state/Contact"]["rows"] == 30
    assert cut["resume"]["position"] == max(row["position"] for row in org.scan("raw_events"))
    assert contact["last_audit"] is None
    assert certify("--check") == (0, {"number": 2, "tables": 8, "wrong": [], "gone": [], "holds": True})
    assert apart(org.warehouse) == (0, "\ncertificate 2 holds\n")
    assert "sfcdc_assets" not in CHECKER.read_text()
    older = org.warehouse / "certificates" / "000001.json"
    assert certify("--check", str(older))[0] == 0, "its cut is kept"
    assert apart(org.warehouse, str(older))[0] == 0


def _of_rows(change: Callable[[pa.Table], pa.Table]) -> Callable[[EmulatedPipeline], None]:
    """Write a data file of contacts again, as somebody does who has the disk."""

    def tamper(org: EmulatedPipeline) -> None:
        (uri, *_) = org.table("current_state/Contact").file_uris()
        path = Path(uri.removeprefix("file://"))
        rows = pq.ParquetFile(path).read()
        pq.write_table(change(rows), path)

    return tamper


def _other_phone(rows: pa.Table) -> pa.Table:
    values = rows["Phone"].to_pylist()
    number = rows.schema.get_field_index("Phone")
    return rows.set_column(number, "Phone", pa.array(["000", *values[1:]], rows.schema.field(number).type))


def _null_for_a_value(rows: pa.Table) -> pa.Table:
    number = rows.schema.get_field_index("LastName")
    return rows.set_column(number, "LastName", pa.array([None, *rows["LastName"].to_pylist()[1:]], pa.string()))


def _rewrite(org: EmulatedPipeline, number: int, edit: Callable[[dict[str, Any]], object], *, signed: bool) -> None:
    """Edit the cut of a certificate; `signed`: and make its hash again, as anybody can."""
    path = org.warehouse / "certificates" / f"{number:06}.json"
    certificate = json.loads(path.read_text())
    edit(certificate["cuts"][0])
    if signed:
        certificate["sha256"] = hash_of(certificate)
    path.write_text(json.dumps(certificate))


def _edited(number: int, *, signed: bool) -> Callable[[EmulatedPipeline], None]:
    def edit(cut: dict[str, Any]) -> None:
        cut["entities"]["Contact"]["tables"]["current_state/Contact"]["rows"] += 1

    return lambda org: _rewrite(org, number, edit, signed=signed)


def _says(**said: Any) -> Callable[[EmulatedPipeline], None]:
    """The last certificate says something else of contacts, under a hash that is right."""
    return lambda org: _rewrite(org, 2, lambda cut: cut["entities"]["Contact"].update(said), signed=True)


def _goes_on(**said: Any) -> Callable[[EmulatedPipeline], None]:
    """The same of where the stream goes on."""
    return lambda org: _rewrite(org, 2, lambda cut: cut["resume"].update(said), signed=True)


def _of_cut(edit: Callable[[dict[str, Any]], object]) -> Callable[[EmulatedPipeline], None]:
    return lambda org: _rewrite(org, 2, edit, signed=True)


def _after_a_comparison(org: EmulatedPipeline) -> dict[str, Any]:
    """Make a third certificate, which has what `sfcdc verify` came to; return that of contacts."""
    assert CliRunner().invoke(app, ["verify", "--entity", "Contact"]).exit_code == 0
    with org.org.transaction() as one:
        one.update("Contact", ids(org.org, "Contact")[2], {"Phone": "2"})
    org.sync()
    code, made = certify()
    assert code == 0, made
    found: dict[str, Any] = made["cuts"][0]["entities"]["Contact"]["last_audit"]
    return found


def _another_comparison(org: EmulatedPipeline) -> None:
    found = {**_after_a_comparison(org), "differences": 7}
    _rewrite(org, 3, lambda cut: cut["entities"]["Contact"].update(last_audit=found), signed=True)


def _without_the_comparison(org: EmulatedPipeline) -> None:
    _after_a_comparison(org)
    _rewrite(org, 3, lambda cut: cut["entities"]["Contact"].update(last_audit=None), signed=True)


def _without_the_first(org: EmulatedPipeline) -> None:
    (org.warehouse / "certificates" / "000001.json").unlink()


def _other_log_entry(name: str) -> Callable[[EmulatedPipeline], None]:
    def tamper(org: EmulatedPipeline) -> None:
        entry = org.warehouse / name / "_delta_log" / f"{org.table(name).version():020}.json"
        entry.write_text(entry.read_text() + "\n")

    return tamper


LAG = {"position": 1, "as_of": None, "reason": "its copy is not complete"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (_of_rows(_other_phone), "current_state/Contact: its rows are not those"),
        (_of_rows(_null_for_a_value), "current_state/Contact: its rows are not those"),
        (_of_rows(lambda rows: rows.slice(1)), "current_state/Contact: it has"),
        (_of_rows(lambda rows: pa.concat_tables([rows, rows.slice(0, 1)])), "current_state/Contact: it has"),
        (_edited(2, signed=False), "certificate 2 was changed"),
        (_edited(2, signed=True), "current_state/Contact: it has"),
        (_edited(1, signed=False), "000001.json is not the one that certificate 2 follows"),
        (_edited(1, signed=True), "000001.json is not the one that certificate 2 follows"),
        (_without_the_first, "000001.json is missing"),
        (_other_log_entry("history/Contact"), "history/Contact: the log entry"),
        (_other_log_entry("raw_events"), "raw_events: the log entry"),
        (_says(living=30), "Contact: living is 29, not 30"),
        (_says(deleted=0), "Contact: deleted is 1, not 0"),
        (_says(in_doubt=1), "Contact: in_doubt is 0, not 1"),
        (_says(open_suspects={"gap_event": 1}), "Contact: open_suspects is {}, not {'gap_event': 1}"),
        (_says(lags=LAG), "Contact: lags is None, not {"),
        (_another_comparison, "Contact: last_audit is {"),
        (_without_the_comparison, "Contact: last_audit is {"),
        (_goes_on(position=1), "resume: position is"),
        (_goes_on(complete_position=1), "resume: complete_position is"),
        (_goes_on(replay_id="00"), "resume: replay_id is"),
        (_goes_on(version=1_000, position=1), "resume: raw_events has no version 1000"),
        (_of_cut(lambda cut: cut.update(resume=None)), "resume: it is missing"),
        (_of_cut(lambda cut: cut.update(commit_timestamp=None)), "cut: commit_timestamp is"),
        (_of_cut(lambda cut: cut["entities"].pop("Contact")), "cut: it names other tables"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_tampering_is_seen_by_both(
    org: EmulatedPipeline,
    capsys: pytest.CaptureFixture[str],
    tamper: Callable[[EmulatedPipeline], None],
    says: str,
) -> None:
    tamper(org)
    code, found = certify("--check")
    assert code == 3, found
    assert any(says in each for each in found["wrong"]), found
    code, said = stranger(org.warehouse, capsys)
    assert code == 3, said
    assert says in said


@pytest.mark.slow
def test_one_that_has_a_comparison_with_the_org_holds_and_older_ones_do(
    org: EmulatedPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _after_a_comparison(org)
    assert (found["entity_name"], found["in_org"], found["in_table"], found["differences"]) == ("Contact", 29, 29, 0)
    for number in (1, 2, 3):
        path = str(org.warehouse / "certificates" / f"{number:06}.json")
        assert certify("--check", path)[0] == 0
        assert runpy.run_path(str(CHECKER))["main"](str(org.warehouse), path) == 0, capsys.readouterr().out


def test_what_is_no_certificate_is_said(org: EmulatedPipeline, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    for text, says in (("[]", "is no certificate"), ("{", "is no certificate"), ("{}", "it is no sfcdc certificate")):
        file.write_text(text)
        code, said = certify("--check", str(file))
        assert code in (1, 3)
        assert says in str(said)
    assert certify(str(file))[0] == 1
