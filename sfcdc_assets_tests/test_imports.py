"""The way of the data is in the folders: imports point back along it, and third parties have one edge each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import sfcdc_assets
from sfcdc_assets.cli.emulator_parts.extra import PACKAGES as EMULATOR_PACKAGES

PACKAGE = Path(sfcdc_assets.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "proto" not in path.parts)

ORDER = (
    "runtime",
    "settings",
    "webserver",
    "spark",
    "salesforce",
    "streams",
    "change_events",
    "text_diff",
    "event_channels",
    "snapshot",
    "polls",
    "key_ranges",
    "timeline",
    "formulas",
    "lake",
    "org_connection",
    "schema_evolution",
    "entities",
    "landing",
    "org_reads",
    "apply",
    "reconciliation",
    "event_channels.tables",
    "changes",
    "status",
    "notices",
    "sql",
    "explain",
    "consistent_cut",
    "doctor",
    "orchestration",
    "component",
    "definitions",
    "orgs",
    "emulator",
    "cli",
    "code_server",
    "__main__",
)
"""A module imports from its own place and from those before it. docs/architecture.md says what each place is for."""

WITHOUT_TABLES = ORDER[: ORDER.index("lake")]
"""What works on values and data frames, and can be used without Delta Lake and Dagster."""


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path): path for path in MODULES}


def place(name: str) -> str | None:
    """Where a module stands in `ORDER`; None for the package itself."""
    found = [each for each in ORDER if name == each or name.startswith(f"{each}.")]
    return max(found, key=len, default=None)


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Full names of what a module imports, at its top or inside, also those of types alone."""
    return tuple(_imports(ast.parse(path.read_text())))


def _imports(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        else:
            yield from _imports(child)


def ours(path: Path) -> set[str]:
    """The modules of this package that one imports."""
    found = set()
    for name in imports(path):
        inside = name.removeprefix("sfcdc_assets.")
        if inside != name:
            found.add(inside if inside in NAMES else inside.rpartition(".")[0])
    return found & NAMES.keys() - {""}


def test_every_module_has_a_place() -> None:
    assert [name for name in NAMES if name and place(name) is None] == []


def test_no_import_points_ahead_of_its_place() -> None:
    ahead = [
        f"{name} imports {other}"
        for name, path in NAMES.items()
        if name
        for other in ours(path)
        if ORDER.index(str(place(other))) > ORDER.index(str(place(name)))
    ]
    assert ahead == []


def test_no_modules_import_one_another_in_a_circle() -> None:
    """Not in an annotation either: what a part needs of its whole has a name of its own."""
    try:
        TopologicalSorter({name: ours(path) for name, path in NAMES.items()}).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


def test_only_its_commands_and_those_that_serve_one_know_the_emulated_org() -> None:
    know = {name for name, path in NAMES.items() if any(place(other) == "emulator" for other in ours(path))}
    outside = {name for name in know if place(name) != "emulator"}
    parts = ("cli.emulator", "cli.emulator_parts", "cli.demo", "cli.demo_parts", "cli.dev")
    assert [name for name in outside if not name.startswith(parts)] == []


def test_the_emulated_org_shares_only_the_wire_with_what_it_serves() -> None:
    for name, path in NAMES.items():
        if place(name) == "emulator":
            others = {other for other in ours(path) if place(other) != "emulator"}
            assert {
                other for other in others if not other.startswith(("streams.pubsub.proto", "webserver", "runtime"))
            } == set()


@pytest.mark.parametrize(
    ("library", "places"),
    [
        ("deltalake", {"lake"}),
        ("obstore", {"lake"}),
        ("dagster", {"orchestration", "webserver", "component", "definitions", "code_server", "cli"}),
        (
            "pyspark",
            {
                "spark",
                "org_connection",
                "key_ranges",
                "schema_evolution",
                "apply",
                "explain",
                "orchestration",
            },
        ),
        ("grpc", {"streams", "code_server", "emulator"}),
        ("fastavro", {"change_events", "emulator"}),
        ("simple_salesforce", {"salesforce"}),
        ("starlette", {"emulator", "webserver"}),
        ("uvicorn", {"emulator", "webserver"}),
        ("prometheus_client", {"status"}),
        *((library, {"emulator"}) for library in EMULATOR_PACKAGES if library not in ("starlette", "uvicorn")),
    ],
)
def test_a_library_is_met_only_where_it_belongs(library: str, places: set[str]) -> None:
    met = {name for name, path in NAMES.items() if any(f"{each}.".startswith(f"{library}.") for each in imports(path))}
    assert [name for name in met if place(name) not in places] == []


def test_what_comes_before_the_tables_knows_neither_them_nor_dagster() -> None:
    for name, path in NAMES.items():
        if place(name) in WITHOUT_TABLES and place(name) != "webserver":
            assert not any(each.split(".")[0] in {"dagster", "deltalake"} for each in imports(path)), name


def test_one_module_makes_the_transport_and_the_rest_knows_no_protocol() -> None:
    protocols = ("streams.pubsub", "streams.cometd")
    knows = {
        name
        for name, path in NAMES.items()
        if not name.startswith((*protocols, "emulator")) and any(other.startswith(protocols) for other in ours(path))
    }
    assert knows == {"streams.open_transport"}


@pytest.mark.parametrize("module", ["decode", "header", "bitmap"])
def test_avro_is_one_form_of_payload_that_nothing_after_decoding_knows(module: str) -> None:
    knows = {name for name, path in NAMES.items() if f"change_events.{module}" in ours(path)}
    assert {place(name) for name in knows} <= {"change_events", "emulator"}


READS_ITS_ENVIRONMENT = (
    "__init__",  # has gRPC fork safely before anything imports it
    "settings",
    "spark",  # Java and Spark are found and told by theirs
    "runtime.native_memory",  # allocators are told by theirs, before they are loaded
    "lake.store.store_options",  # deltalake takes an object store's credentials from there
    *("doctor", "orchestration", "definitions", "orgs", "emulator", "cli", "code_server"),
)
"""Places that know how a process was started: where settings are read, and the edges where work begins. All others are
given what they need (`RunContext`)."""


def test_nothing_below_the_edge_reads_the_environment() -> None:
    reading = re.compile(r"\bload_settings\(|\bos\.environ\b|\bgetenv\(|\bdotenv\w*\(|\benvironment\(\)")
    readers = {name or "__init__" for name, path in NAMES.items() if reading.search(path.read_text())}
    assert [name for name in sorted(readers) if not name.startswith(READS_ITS_ENVIRONMENT)] == []
