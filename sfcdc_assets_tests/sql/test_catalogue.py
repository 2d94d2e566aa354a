"""The catalogue for other tools: what an org's labels say commands none of them."""

from __future__ import annotations

import pytest
import yaml
from jinja2 import Environment

from sfcdc_assets.sql.catalogue import DbtSource, DescribedColumn, DescribedView, sources_yml


@pytest.mark.parametrize(
    "label", ["{{ env_var('HOME') }}", "{% if %}", "{# a", "{{{ a }}} {", "a\nb \x1b ' \" | #} }}", "plain"]
)
def test_a_label_is_no_template_for_dbt(label: str) -> None:
    view = DescribedView("account", f"{label}: the live records.", (DescribedColumn("Id", "VARCHAR", label),), True)
    (source,) = yaml.safe_load(sources_yml([view], DbtSource("salesforce", "main")))["sources"]
    (table,) = source["tables"]
    # As dbt renders descriptions.
    as_dbt = Environment().from_string
    assert as_dbt(table["description"]).render() == f"{label}: the live records."
    assert as_dbt(table["columns"][0]["description"]).render() == label
