"""The way of the data is in the folders: imports go leftwards along it, and third parties have one edge each."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import sfcdc_assets
from sfcdc_assets.cli.emulator_extra import PACKAGES as EMULATOR_PACKAGES

PACKAGE = Path(sfcdc_assets.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "proto" not in path.parts)

STAGES = [
    "streams",
    "pubsub",
    "salesforce",
    "cometd",
    "change_events",
    "typed_events",
    "push_topics",
    "text_diff",
    "snapshot",
    "state",
    "reconciliation",
]
"""Packages that do the work on values and DataFrames, in the order of the flow."""

ROOT = {
    "channel_kinds",
    "clock",
    "errors",
    "config",
    "setting_names",
    "setting_types",
    "setting_values",
    "outcome",
    "observation",
    "side_by_side",
}

MAY_IMPORT = {
    "streams": {"streams"},
    "pubsub": {"streams", "pubsub"},
    "salesforce": {"salesforce"},
    "cometd": {"streams", "salesforce", "cometd"},
    "change_events": {"streams", "salesforce", "change_events"},
    "typed_events": {"streams", "salesforce", "change_events", "typed_events"},
    "push_topics": {"salesforce", "change_events", "push_topics"},
    "text_diff": {"text_diff"},
    "snapshot": {"salesforce", "change_events", "snapshot"},
    "state": {"change_events", "text_diff", "state"},
    "reconciliation": {"salesforce", "change_events", "text_diff", "snapshot", "state", "reconciliation"},
    "spark": {"spark"},
    "lake": {"streams", "salesforce", "change_events", "typed_events", "push_topics", "snapshot", "state", "lake"},
    "emulator": {"emulator", "pubsub.proto"},
    "transports": {"streams", "pubsub", "cometd", "salesforce"},
}


@cache
def imports(path):
    """Full names of the modules that a module imports, at its top or inside."""
    return tuple(_imports(path))


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def package_of(path):
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_a_package_imports_only_what_lies_left_of_it(package):
    allowed = {f"sfcdc_assets.{name}" for name in MAY_IMPORT[package] | ROOT}
    for path in MODULES:
        if package_of(path) == package:
            for name in imports(path):
                if name.startswith("sfcdc_assets."):
                    assert any(name == one or name.startswith(f"{one}.") for one in allowed), (path, name)


@pytest.mark.parametrize(
    ("library", "packages"),
    [
        ("deltalake", {"lake"}),
        (
            "dagster",
            {
                "assets",
                "sensors",
                "checks",
                "resources",
                "cli",
                "jobs",
                "schedules",
                "definitions",
                "partitions",
                "table_metadata",
            },
        ),
        ("pyspark", {"spark", "state", "reconciliation", "pipeline", "resources"}),
        ("grpc", {"pubsub", "emulator"}),
        ("fastavro", {"change_events", "emulator"}),
        ("simple_salesforce", {"salesforce"}),
        *((library, {"emulator"}) for library in EMULATOR_PACKAGES),
    ],
)
def test_a_library_is_met_only_where_it_belongs(library, packages):
    for path in MODULES:
        if any(name == library or name.startswith(f"{library}.") for name in imports(path)):
            assert package_of(path) in packages, path


def test_the_stages_know_neither_dagster_nor_the_tables():
    for path in MODULES:
        if package_of(path) in STAGES:
            for name in imports(path):
                assert name.split(".")[0] not in {"dagster", "deltalake"}, path
                assert not name.startswith("sfcdc_assets.lake"), path


def test_one_module_makes_the_transport_and_the_rest_knows_no_protocol():
    knows = {
        path.relative_to(PACKAGE).as_posix()
        for path in MODULES
        if package_of(path) not in {"pubsub", "cometd", "emulator"}
        and any(name.startswith(("sfcdc_assets.pubsub", "sfcdc_assets.cometd")) for name in imports(path))
    }
    assert knows == {"transports.py"}


@pytest.mark.parametrize("module", ["decode", "header", "bitmap"])
def test_avro_is_one_form_of_payload_that_nothing_after_decoding_knows(module):
    for path in MODULES:
        if package_of(path) not in {"change_events", "emulator"}:
            assert f"sfcdc_assets.change_events.{module}" not in imports(path), path
