"""The definitions of one org of several, as a workspace names them: this module, and the org's name as attribute.

    - python_module:
        module_name: sfcdc_assets.orgs
        attribute: emea
        location_name: emea

Dagster loads a code location in a process of its own, and starts its runs from there with the same module and
attribute. So the name is all that a process has to be given to read the settings of its org (`SFCDC_EMEA_...`), and to
keep its assets, partitions and concurrency keys apart from those of the other orgs in the same Dagster instance.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.settings.setting_values import ORG, this_org
from sfcdc_assets.settings.settings import load_settings


def __getattr__(name: str) -> Any:
    """Return the `Definitions` of the org of this name; this process serves it from now on. Raises `SettingsError` for
    a name that is not among `SFCDC_ORGS`, and where the process serves another org already."""
    if name.startswith("_"):
        raise AttributeError(name)
    load_settings(name)
    os.environ.setdefault(ORG, name)
    if this_org() != name:
        problem = f"this process serves {this_org() or 'the one org of the settings'} already, not {name}"
        raise SettingsError(ORG, problem, "Give each org a code location, and so a process, of its own")
    return import_module("sfcdc_assets.definitions").defs
