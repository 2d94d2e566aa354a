"""docs/scenarios.md from the scenarios' files."""

from __future__ import annotations

from collections.abc import Iterable

from sfcdc_assets.emulator.scenarios.scenario import FOLDER, scenarios

_PAGE = """\
# Scenarios

What happens in Salesforce orgs, and what a subscriber has to make of it. The [emulated org](emulator.md) plays each
scenario by its name, as often as you like; its records are new ones each time.

## Play one

While you watch, in an org that starts with it and then goes on until Ctrl-C:

```sh covered-by=sfcdc_assets_tests/cli/test_emulator_control.py::test_a_scenario_is_played_by_an_org_that_starts_with_it
sfcdc emulator --scenario hard-delete
```

Or in an org that is being served, with your pipeline behind it:

```sh
sfcdc emulator scenario                       # what there is
sfcdc emulator scenario lead-conversion       # each step, and the change events that it raises, decoded
sfcdc emulator scenario merge --json          # a line of JSON for each step: step, transactions, events
```

The buttons on the org's page *Scenarios* do the same, and so does `POST /emulator/scenarios/NAME` of its control resource.
What a scenario needs (a custom field, person accounts) it sets up by itself.

## All scenarios

<!-- Written by `make reference` from sfcdc_assets/emulator/scenarios. -->

{scenarios}

Tests play each, and compare the events with what is promised here, and the tables of a pipeline with the org.

## Write one

A scenario is one file in `sfcdc_assets/emulator/scenarios`. This is `lead-conversion.yaml`:

```yml
{example}```

A step is a verb with what it acts on, and options. `as` names a record, which later steps call so; a name may stand for
several records (a list, or `times`). Steps under `together` are one transaction. `faults` strike the step's own
transaction, `origin` is the client that `changeOrigin` names, and `later` lets seconds pass.

| verbs | what they do |
|---|---|
| `create`, `update`, `delete`, `undelete`, `hard_delete`, `merge`, `convert`, `reschedule`, `geocode`, `archive` | change records |
| `enable`, `field`, `retype`, `rename_value`, `encrypt`, `channel` | what an administrator sets up |
| `traffic` | one transaction of a kind of the org's own traffic |

A value may be `{{record: name}}`, the id of a record; `{{day: 7}}`, the date in a week, with `at: "19:00"` a moment of it;
`{{lines: 40, but: {{3: text}}}}`, a long text; or `{{unique: "jane{{}}@example.com"}}`. A file that says nonsense stops the
command with one sentence that names the step.

## The sample messages of the vendor's guides

Tests compare every change event that the Change Data Capture Developer Guide (52.0) shows, field by field, with the event of
a scenario, and the other messages of that guide and of the Streaming API Developer Guide (41.0) with what the org sends.
`sfcdc_assets_tests/emulator/guide_samples.yaml` says with which, and what differs and why.
"""  # noqa: E501 - the lines of the pages are longer


def scenarios_page() -> str:
    """Return the text of docs/scenarios.md."""
    return _PAGE.format(
        scenarios="\n\n".join(_sections()),
        example=(FOLDER / "lead-conversion.yaml").read_text(),
    )


def _sections() -> Iterable[str]:
    for each in scenarios().values():
        yield f"**`{each.name}`: {each.title}.** {each.happens}<br>*Received:* {each.received}"
