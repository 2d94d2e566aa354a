"""A dbt project downstream of the copy, in one graph of Dagster's: `dagster dev -f definitions.py`.

`sources.yml` says which asset each source is: a model depends on `salesforce/account`, and runs when that has changed.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
from dagster_dbt import DbtCliResource, DbtProject, dbt_assets

from sfcdc_assets import build_defs

PROJECT = DbtProject(project_dir=Path(__file__).parent, profiles_dir=Path(__file__).parent)
PROJECT.prepare_if_dev()
WRITE_VIEWS = [sys.executable, "-m", "sfcdc_assets", "views", "--duckdb"]


@dbt_assets(manifest=PROJECT.manifest_path, project=PROJECT)
def analytics(context: dg.AssetExecutionContext, dbt: DbtCliResource) -> Any:
    """Build the models, and test them: all of one cut, the newest, which has what the run was asked for."""
    subprocess.run([*WRITE_VIEWS, os.environ["SFCDC_VIEWS_FILE"]], check=True)
    yield from dbt.cli(["build"], context=context).stream()


defs = dg.Definitions.merge(
    build_defs(), dg.Definitions(assets=[analytics], resources={"dbt": DbtCliResource(project_dir=PROJECT)})
)
