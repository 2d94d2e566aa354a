"""Whatever mentions a setting names the variable that has to be set for the org that the process serves."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

import sfcdc_assets
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.doctor.finding import of_error, warning
from sfcdc_assets.lake.errors import WarehouseNotWritable
from sfcdc_assets.runtime.errors import SettingsError, SfcdcError
from sfcdc_assets.salesforce.login_choice import chosen_grant
from sfcdc_assets.settings import setting_values
from sfcdc_assets.settings.setting_values import OF_ONE_ORG, as_set_here
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import sfcdc

OF_NO_ORG = re.compile(rf"\bSFCDC_(?:{'|'.join(sorted(OF_ONE_ORG)).upper()}|\*)\b")
PACKAGE = Path(sfcdc_assets.__file__).parent
FACTS = {"channel": "/topic/Invoices"}
"""What is not made of just anything."""


@pytest.fixture
def emea(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """This process serves one of two orgs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFCDC_ORGS", "emea,apac")
    monkeypatch.setenv("SFCDC_ORG", "emea")
    monkeypatch.setenv("SFCDC_EMEA_WAREHOUSE", "/data/emea")
    return tmp_path


def error_classes() -> list[type[SfcdcError]]:
    """Every one of the package's whose source mentions a setting."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text()
        if "SFCDC_" not in source or path.is_relative_to(PACKAGE / "emulator"):
            continue
        classes = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.ClassDef)]
        names = [each.name for each in classes if "SFCDC_" in (ast.get_source_segment(source, each) or "")]
        if names:
            name = ".".join(("sfcdc_assets", *path.relative_to(PACKAGE).with_suffix("").parts))
            found += [getattr(import_module(name), each, None) for each in names]
    return [each for each in found if isinstance(each, type) and issubclass(each, SfcdcError)]


def made(wanted: Any) -> Any:
    """Some value of a type, or the error that its facts make."""
    origin, among = get_origin(wanted), get_args(wanted)
    if origin is Union or type(wanted).__name__ == "UnionType":
        return made(among[0])
    if origin in (tuple, Sequence, list):
        return (made(among[0]),)
    if origin is Mapping:
        return {}
    if wanted in (str, int, float, bool, bytes, Path):
        return wanted("1") if wanted is Path else wanted(1)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return next(iter(wanted))
    if isinstance(wanted, type) and (is_dataclass(wanted) or issubclass(wanted, Exception)):
        hints = get_type_hints(wanted if is_dataclass(wanted) else wanted.__init__)
        needed = inspect.signature(wanted).parameters.values()
        wanted_facts = [each.name for each in needed if each.kind is not each.VAR_POSITIONAL]
        facts = {name: FACTS[name] if name in FACTS else made(hints[name]) for name in wanted_facts}
        return wanted(**facts)
    raise AssertionError(f"an error is made of {wanted}: say here how one is made")


def test_every_error_names_the_variables_of_the_org_that_the_process_serves(emea: Path) -> None:
    classes = error_classes()
    assert len(classes) > 20, "this finds them"
    for each in classes:
        said = str(made(each))
        assert not OF_NO_ORG.search(said), f"{each.__name__}: {said}"
    assert "SFCDC_EMEA_WAREHOUSE" in str(WarehouseNotWritable("/data", "no room"))


def test_what_a_process_with_one_org_says_has_no_name_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFCDC_ORG", raising=False)
    assert as_set_here("Set SFCDC_CLIENT_ID, or another of SFCDC_*.") == "Set SFCDC_CLIENT_ID, or another of SFCDC_*."


def test_a_setting_of_all_orgs_has_the_orgs_name_where_the_orgs_own_counts(
    emea: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert as_set_here("SFCDC_CHANNELS of SFCDC_ORGS") == "SFCDC_CHANNELS of SFCDC_ORGS"
    monkeypatch.setenv("SFCDC_EMEA_CHANNELS", "/data/Sales__chn")
    assert as_set_here("SFCDC_CHANNELS of SFCDC_ORGS") == "SFCDC_EMEA_CHANNELS of SFCDC_ORGS"
    assert as_set_here("SFCDC_EMEA_WAREHOUSE, SFCDC_APAC_WAREHOUSE") == "SFCDC_EMEA_WAREHOUSE, SFCDC_APAC_WAREHOUSE"
    assert as_set_here("the SFCDC_* settings") == "the SFCDC_EMEA_* settings"


def test_a_process_that_has_loaded_its_settings_reads_nothing_to_name_them(
    emea: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_settings()
    monkeypatch.setattr(setting_values, "environment", lambda: pytest.fail("the environment is read"))
    assert "SFCDC_EMEA_WAREHOUSE" in str(WarehouseNotWritable("/data", "no room"))


def test_a_name_that_a_file_gives_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SFCDC_ORG", raising=False)
    (tmp_path / ".env").write_text("SFCDC_ORG=apac\nSFCDC_APAC_HASH=Contact.Email\n")
    assert as_set_here("SFCDC_USERNAME, SFCDC_HASH, SFCDC_EXCLUDE") == (
        "SFCDC_APAC_USERNAME, SFCDC_APAC_HASH, SFCDC_EXCLUDE"
    )


def test_a_login_that_is_missing_is_asked_for_by_the_names_of_the_org(emea: Path) -> None:
    with pytest.raises(SettingsError) as raised:
        chosen_grant(load_settings(), lambda: 0.0)
    assert raised.value.setting == "SFCDC_EMEA_CLIENT_ID"
    assert "SFCDC_EMEA_CLIENT_ID" in raised.value.remedy
    found = of_error("login", raised.value)
    assert not OF_NO_ORG.search(f"{found.found} {found.fix}")
    assert "SFCDC_EMEA_USERNAME" in found.fix


def test_two_orgs_with_one_warehouse_are_told_apart(emea: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_WAREHOUSE", "/data/emea/")
    with pytest.raises(SettingsError, match="SFCDC_EMEA_WAREHOUSE: is the warehouse of the settings without"):
        load_settings()
    monkeypatch.delenv("SFCDC_WAREHOUSE")
    monkeypatch.setenv("SFCDC_APAC_WAREHOUSE", "/data/emea")
    with pytest.raises(SettingsError, match="is the warehouse of SFCDC_APAC_WAREHOUSE too"):
        load_settings()


def test_the_doctor_names_the_variables_of_the_org(emea: Path) -> None:
    found = warning("storage", "The disk is full.", "Make room, or set SFCDC_WAREHOUSE to a larger disk.")
    assert found.fix == "Make room, or set SFCDC_EMEA_WAREHOUSE to a larger disk."


def test_help_names_the_variables_of_the_org(emea: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_EMEA_CUT_RETENTION_DAYS", "14")
    assert "SFCDC_EMEA_CUT_RETENTION_DAYS" in sfcdc("maintain", "--help").stdout


def test_status_names_the_variables_of_the_org(emea: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_EMEA_WAREHOUSE", str(emea / "tables"))
    monkeypatch.setenv("SFCDC_EMEA_EXCLUDE", "Contact.Email")
    shown = sfcdc("status")
    assert shown.exit_code == 0, shown.stderr
    assert Privacy.of(load_settings()).excluded
    assert "SFCDC_EMEA_EXCLUDE or SFCDC_HASH: Contact.Email names no column" in shown.stdout
