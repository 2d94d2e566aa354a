"""Dagster accepts what it is given: an ephemeral instance does not check this, the UI does."""

from __future__ import annotations

import dagster as dg

from sfcdc_assets.definitions import defs


def test_the_code_location_loads() -> None:
    dg.Definitions.validate_loadable(defs)


def test_every_asset_says_what_it_is_whose_it_is_and_where_it_belongs() -> None:
    for spec in defs.resolve_all_asset_specs():
        assert spec.description, spec.key
        assert spec.owners, spec.key
        assert spec.kinds, spec.key
        assert spec.group_name not in (None, "default"), spec.key
