"""Tables within pages whose texts are the code's: what settings mean, what a row's own columns hold, what each reason
for a suspect means and does, which faults and checks there are, what the
emulated org's settings are, what each folder of the package is for. Each stands
between two comments, and `make reference` writes it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from json import dumps
from pathlib import Path

import pyarrow as pa

from sfcdc_assets.emulator.control.setting_control import changeable
from sfcdc_assets.emulator.faults.fault_advice import ADVICE, REST_ADVICE
from sfcdc_assets.emulator.faults.faults import DESCRIPTIONS, Fault
from sfcdc_assets.emulator.faults.rest_faults import DESCRIPTIONS as REST_DESCRIPTIONS
from sfcdc_assets.emulator.faults.rest_faults import REFUSALS, RestFault
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.emulator.pubsub.refusal_codes import CODES
from sfcdc_assets.orchestration.checks.evaluations import CHECKS
from sfcdc_assets.schema_evolution.column_descriptions import OF_THE_SYSTEM
from sfcdc_assets.timeline.suspect import Reason
from sfcdc_assets.timeline.suspect_behaviour import BEHAVIOUR
from sfcdc_assets.timeline.version_columns import END_COLUMNS, SYSTEM_COLUMNS
from sfcdc_assets_tests.docs.settings_reference import settings_table, texts_below
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.test_imports import NAMES, ORDER

TYPES: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.list_(pa.string()): "list of string",
    pa.map_(pa.string(), pa.int64()): "map of string to long",
    pa.map_(pa.string(), pa.timestamp("us", "UTC")): "map of string to timestamp",
}
"""How pages call the types of columns."""
_ABOUT = {"record": "record", "entity": "entity", "read": "read of the entity"}
_WAITS = {(True, True): "yes", (False, False): "no", (True, False): "wait only", (False, True): "marked only"}


def with_written_tables(page: Path) -> str:
    """The page with each of its tables as the code has it. A name that no table here has is a KeyError."""
    return re.sub(
        r"(<!-- (\w+): written by `make reference` -->\n\n).*?(\n\n<!-- end of \2 -->)",
        lambda found: f"{found[1]}{_TABLES[found[2]]()}{found[3]}",
        page.read_text(),
        flags=re.DOTALL,
    )


PAGES = tuple(
    ROOT / page
    for page in (
        *("README.md", "docs/architecture.md", "docs/operating.md", "docs/tables.md", "docs/faults.md"),
        "docs/emulator-resources.md",
    )
)
"""The pages that have such tables."""


def _table(heads: str, rows: Iterable[Iterable[str]]) -> str:
    lines = (f"| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([f"| {heads} |", "|---" * (heads.count("|") + 1) + "|", *lines])


def _columns(schema: pa.Schema) -> str:
    return _table(
        "column | type | what it holds",
        ((f"`{each.name}`", TYPES[each.type], OF_THE_SYSTEM[each.name]) for each in schema),
    )


def _places() -> str:
    def sentence(name: str) -> str:
        return _first_sentence(ast.get_docstring(ast.parse(NAMES[name].read_text())) or "")

    folders = {name: NAMES[name].name == "__init__.py" for name in ORDER}
    rows = (
        (f"`{name.replace('.', '/')}{'/' if is_folder else '.py'}`", sentence(name))
        for name, is_folder in folders.items()
    )
    return _table("place | what is there", rows)


def _first_sentence(docstring: str) -> str:
    paragraph, *_ = docstring.split("\n\n")
    return re.split(r"(?<=[^.]\.) (?=[A-Z])", " ".join(paragraph.split()), maxsplit=1)[0]


def _meanings() -> dict[str, str]:
    """Each reason's first sentence, which stands below its name."""
    (of_class,) = ast.parse(inspect.getsource(Reason)).body
    assert isinstance(of_class, ast.ClassDef)
    return {
        Reason[ast.unparse(before.targets[0])]: _first_sentence(ast.literal_eval(ast.unparse(said)))
        for before, said in pairwise(of_class.body)
        if isinstance(before, ast.Assign) and isinstance(said, ast.Expr)
    }


def _reasons() -> str:
    meanings = _meanings()
    return _table(
        "reason | what was seen | suspect | later events wait, rows are marked `_in_doubt` | answered by",
        (
            (
                f"`{reason.value}`",
                meanings[reason],
                _ABOUT[each.about],
                _WAITS[each.blocks, each.marks],
                each.answered_by,
            )
            for reason, each in BEHAVIOUR.items()
        ),
    )


def _faults() -> str:
    rows = [
        *((f"`{fault}`", DESCRIPTIONS[fault], ADVICE[fault]) for fault in Fault),
        *((f"`rest:{fault}`", REST_DESCRIPTIONS[fault], REST_ADVICE[fault]) for fault in RestFault),
    ]
    return _table("fault | what happens | what a robust client does", rows)


def _org_settings() -> str:
    """Those of the emulated org that can be changed while it runs."""
    values = changeable(OrgSettings())
    texts = texts_below(OrgSettings, list(values))
    return _table(
        "setting | default | meaning", ((f"`{name}`", f"`{dumps(values[name])}`", texts[name]) for name in values)
    )


_TABLES: Mapping[str, Callable[[], str]] = {
    "settings": settings_table,
    "places": _places,
    "checks": lambda: _table("check | does", ((f"`{each.NAME}`", each.DESCRIPTION) for each in CHECKS)),
    "current_state": lambda: _columns(SYSTEM_COLUMNS),
    "history": lambda: _columns(END_COLUMNS),
    "reasons": _reasons,
    "faults": _faults,
    "org_settings": _org_settings,
    "stream_codes": lambda: _table("code | status", ((f"`{code}`", each.status.name) for code, each in CODES.items())),
    "rest_codes": lambda: _table("code | status", ((f"`{code}`", str(each.status)) for code, each in REFUSALS.items())),
}
