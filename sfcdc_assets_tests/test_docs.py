"""What the README and docs/ say holds: commands run, settings and columns are the code's, links lead somewhere."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import sfcdc_assets
from sfcdc_assets.change_events.raw_event_rows import QUARANTINE, RAW_EVENTS
from sfcdc_assets.cli.demo_parts.emulated_org import open_emulated_org
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator
from sfcdc_assets.event_channels.event_rows import EVENT_COLUMNS, KEPT_COLUMNS
from sfcdc_assets.event_channels.push_topics.state_rows import STATE_COLUMNS
from sfcdc_assets.lake.tables.audits import AUDITS
from sfcdc_assets.lake.tables.channel_members import MEMBERS
from sfcdc_assets.lake.tables.consistent_cuts import CONSISTENT_CUTS
from sfcdc_assets.lake.tables.gap_reconciliation import LEDGER
from sfcdc_assets.lake.tables.lost_checkpoints import LOST_CHECKPOINTS
from sfcdc_assets.lake.tables.object_shapes import versioned
from sfcdc_assets.lake.tables.organization import ORGANIZATION
from sfcdc_assets.lake.tables.rolling_audits import ROLLING_AUDITS
from sfcdc_assets.lake.tables.schemas import SCHEMAS
from sfcdc_assets.lake.tables.snapshot_plan import SNAPSHOT_PLAN
from sfcdc_assets.lake.tables.snapshots import READ_OF_COLUMNS
from sfcdc_assets.salesforce.object_shape import SHAPE_TABLES
from sfcdc_assets.settings.settings import SECRET_FILES, Settings
from sfcdc_assets.timeline.read_rows import READ_COLUMNS
from sfcdc_assets.timeline.text_values import TEXT_FIELDS
from sfcdc_assets_tests.docs.written_tables import TYPES
from sfcdc_assets_tests.documentation import PAGES, ROOT, CodeBlock, code_blocks, links, table_under
from sfcdc_assets_tests.pipeline.failures.killed_sync import QUICK_JVM
from sfcdc_assets_tests.pipeline.fixtures import SPARK_OF_TESTS

README, TABLES = ROOT / "README.md", ROOT / "docs" / "tables.md"
BLOCKS = [block for page in PAGES for block in code_blocks(page)]
RUN = [block for block in BLOCKS if block.language in ("sh", "python") and "covered-by" not in block.options]
SETTINGS = {f"SFCDC_{name.upper()}" for name in Settings.model_fields} | {"SFCDC_SPARK_CONF_*"}
SECONDS = 540
QUICK = {
    "SFCDC_ENTITIES": "Account,Contact,Opportunity",
    "SFCDC_SETTLE_SECONDS": "1",
    "SFCDC_VISIBILITY_SECONDS": "0.2",
    **SPARK_OF_TESTS,
    "SFCDC_SPARK_CONF_spark.driver.extraJavaOptions": QUICK_JVM,
}
"""What the pages do not say: a reader's org is larger, and a reader can wait."""
TYPE_NAMES = {**TYPES, CONSISTENT_CUTS.field("lagging").type: "list of struct"}
SCHEMAS_OF_TABLES = {
    "`raw_events`": RAW_EVENTS,
    "`schemas`": SCHEMAS,
    "`quarantine`": QUARANTINE,
    "`lost_checkpoints`": LOST_CHECKPOINTS,
    "`snapshot/<Entity>`": pa.schema([*READ_COLUMNS, *READ_OF_COLUMNS]),
    "`text_fields/<Entity>`": TEXT_FIELDS,
    "`gap_reconciliation/<Entity>`": LEDGER,
    "`push_topic_state/<Topic>`": STATE_COLUMNS,
    "`organization`": ORGANIZATION,
    "`consistent_cuts`": CONSISTENT_CUTS,
    "`audits`": AUDITS,
    "`rolling_audits`": ROLLING_AUDITS,
    "`snapshot_plan`": SNAPSHOT_PLAN,
    "`channel_members`": MEMBERS,
    **{f"`{table.name}`": versioned(table) for table in SHAPE_TABLES},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A working folder as the pages assume it, beside a served emulated org, and the environment of its client."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copy(ROOT / "workspace.yaml", folder)
    (folder / "objects").mkdir()
    for block in BLOCKS:
        if block.language == "yaml" and block.text.startswith("name: Machine__c"):
            (folder / "objects" / "Machine__c.yaml").write_text(block.text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "DAGSTER_"))}
    # The pages of tables call it `warehouse`; the settings of the emulated org say where that is.
    (folder / "warehouse").symlink_to(folder / ".sfcdc" / "emulator" / "warehouse")
    org = open_emulated_org(folder / ".sfcdc" / "emulator", seed=1, records=20)
    with EmulatorServer(org, directory=folder / ".sfcdc" / "emulator") as server:
        TrafficGenerator(org, 1, bus=server.bus).run(events=60)
        yield (
            folder,
            {
                **kept,
                **server.client_environment(),
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}",
                **QUICK,
            },
        )
    org.close()


@pytest.mark.parametrize("block", RUN, ids=str)
def test_what_the_pages_have_the_reader_type_works(block: CodeBlock, folder: tuple[Path, dict[str, str]]) -> None:
    needed = block.options.get("needs")
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed, which {block} says it needs")
    where, environment = folder
    command = [sys.executable, "-c"] if block.language == "python" else ["bash", "-euo", "pipefail", "-c"]
    done = subprocess.run(
        [*command, block.text], cwd=where, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, f"{block}\n{block.text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("block", [block for block in BLOCKS if "covered-by" in block.options], ids=str)
def test_a_block_that_is_run_elsewhere_names_a_test_that_exists(block: CodeBlock) -> None:
    path, _, name = block.options["covered-by"].partition("::")
    names = {node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)}
    assert name in names, f"{block}: {path} has no {name}"


def test_the_readme_documents_every_setting_and_no_other() -> None:
    assert set(table_under(README, "Settings")) == SETTINGS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_setting_that_a_page_names_exists(page: Path) -> None:
    of_orgs = re.sub(r"\bSFCDC_(EMEA|APAC)_(?=[A-Z]|\.\.\.)", "SFCDC_", page.read_text())  # the orgs of the examples
    named = set(re.findall(r"SFCDC_[A-Z_]*[A-Z]", of_orgs))
    known = {name for name in named if name in SETTINGS | SECRET_FILES or name.startswith("SFCDC_SPARK_CONF")}
    assert named == known


def test_the_readme_tells_the_defaults_of_the_settings() -> None:
    reported = table_under(README, "Settings")
    for name, field in Settings.model_fields.items():
        if isinstance(field.default, str):
            assert reported[f"SFCDC_{name.upper()}"] == f"`{field.default}`"


@pytest.mark.parametrize("heading", SCHEMAS_OF_TABLES)
def test_the_page_of_tables_names_every_column_with_its_type(heading: str) -> None:
    schema = SCHEMAS_OF_TABLES[heading]
    assert {**table_under(TABLES, heading), **_also_listed(heading)} == {
        field.name: TYPE_NAMES[field.type] for field in schema
    }


def _also_listed(heading: str) -> dict[str, str]:
    """Columns that need few words, listed by their types in a sentence below the table or in its place."""
    section = TABLES.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    sentence = re.search(r"^(?:Also|Columns)[^:\n]*: (.*?)\.$", section, re.MULTILINE | re.DOTALL)
    kinds = " ".join(sentence[1].split()).split("; ") if sentence else []
    return {name: kind.split(" `")[0] for kind in kinds for name in re.findall("`([^`]+)`", kind)}


def test_the_page_of_tables_names_every_column_that_tables_of_events_share() -> None:
    schema = pa.schema([*EVENT_COLUMNS, *KEPT_COLUMNS])
    heading = "`push_topic_events`, `generic_events`, `platform_events`"
    reported = {**table_under(TABLES, heading), **_also_listed(heading)}
    assert reported.items() >= {field.name: TYPE_NAMES[field.type] for field in schema}.items()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_images_lead_to_files_that_are_there(page: Path) -> None:
    missing = [target for target in links(page) if not (page.parent / target.split("#")[0]).exists()]
    assert not missing


@pytest.mark.parametrize(
    ("page", "sentence"), [("benchmarks.md", "To measure your own: "), ("operating.md", "| figure |")]
)
def test_the_figures_that_a_page_names_are_in_materializations(page: str, sentence: str) -> None:
    named = re.findall(r"`([a-z_]+)`", (ROOT / "docs" / page).read_text().split(sentence)[1].split("\n\n")[0])
    sources = [path.read_text() for path in (ROOT / "sfcdc_assets" / "orchestration").rglob("*.py")]
    assert named
    assert [name for name in named if not any(f'"{name}"' in source for source in sources)] == []


def test_the_readme_names_commands_that_are_there() -> None:
    from sfcdc_assets.cli.main import COMMANDS  # noqa: PLC0415 - only this test needs the commands

    reported = set(re.findall(r"^\| `sfcdc ([\w-]+)`", README.read_text(), re.MULTILINE))
    assert reported
    assert reported <= set(COMMANDS)


def test_the_readme_lists_the_public_python_api_and_no_other() -> None:
    section = README.read_text().split("\n## From Python\n")[1].split("\nWith the code locations")[0]
    listed = {
        name for row in re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE) for name in re.findall("`([^`]+)`", row)
    }
    assert listed == set(sfcdc_assets.__all__)
    assert all(callable(getattr(sfcdc_assets, name)) for name in listed)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "emulator.md"], ids=lambda page: page.name)
def test_a_page_has_readers_import_the_public_api_alone(page: Path) -> None:
    code = "".join(block.text for block in code_blocks(page) if block.language == "python")
    assert not re.findall(r"from sfcdc_assets\.[\w.]+|import sfcdc_assets\.[\w.]+", code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pip_is_asked_for_the_package_by_its_name_with_extras_that_there_are(page: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = page.read_text()
    assert set(re.findall(r"sfcdc_assets\[([\w,]+)\]", text)) <= set(project["optional-dependencies"])
    assert not re.findall(r"install[^\n`]* '?\.\[", text)


def test_the_changelog_has_the_version_that_the_package_has() -> None:
    newest = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
