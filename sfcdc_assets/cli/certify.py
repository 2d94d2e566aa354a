"""`sfcdc certify`: a certificate of what the tables hold at a cut, and its check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sfcdc_assets.cli.terminal.output import Screen, say
from sfcdc_assets.cli.terminal.stopping import drawing, stops_at_once
from sfcdc_assets.lake.certificates import certificate as certificates
from sfcdc_assets.lake.certificates.certificate import Certificate, numbers, path_of, read_certificate
from sfcdc_assets.lake.certificates.check_certificate import Checked
from sfcdc_assets.lake.certificates.check_certificate import check as check_certificate
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SettingsError, counted
from sfcdc_assets.runtime.progress import Fact, TableSearched, observing
from sfcdc_assets.settings.settings import load_settings

DIFFERS = 3
"""Exit code where a certificate does not hold, as that of `sfcdc verify` for drift."""


@stops_at_once
def certify(
    file: Annotated[
        Path | None, typer.Argument(help="With --check: the certificate, by default the newest of the warehouse.")
    ] = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="Check a certificate instead of writing one.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate, or the check, as JSON.")] = False,
) -> None:
    """Write a certificate of the newest consistent cut, or check one.

    A certificate is a file in `certificates/` of the warehouse: for each table of the cut how many rows it has and a
    hash of them in any order, the position, where the stream goes on, what is suspect, what was last compared with the
    org, hashes of the log entries it rests on, and the hash of the certificate before. Keep a copy elsewhere, or its
    last line: whoever has the hash can tell later whether the tables or the certificates were changed.

    --check computes all of it again, and follows the chain back to the first. Every row of the cut is read; memory
    holds one file. Makes no API calls. Exit code 3 where something is not as the certificate says, 1 where it cannot be
    checked any more, because the cut is not kept.
    """
    warehouse = Warehouse(load_settings().warehouse)
    if file is not None and not check:
        raise SettingsError("FILE", "is given without --check", "Certificates are written into the warehouse")
    with drawing() as terminal, Screen(file=terminal).status("Reading ...") as progress:

        def show(fact: Fact) -> None:
            if isinstance(fact, TableSearched):
                progress.update(f"{fact.table}: {counted(fact.rows, 'row')} read")

        with observing(show):
            if check:
                found = check_certificate(warehouse, _given(warehouse, file))
            else:
                warehouse.check_writable()
                made = certificates.certify(warehouse)
    if check:
        _show_check(found, as_json=as_json)
        return
    if as_json:
        say(json.dumps(made))
    else:
        _show(made)


def _given(warehouse: Warehouse, file: Path | None) -> Certificate:
    if file is None:
        newest = max(numbers(warehouse), default=0)
        found = read_certificate(warehouse, newest) if newest else None
        if found is None:
            raise SettingsError("--check", "the warehouse has no certificate", "`sfcdc certify` writes one")
        return found
    try:
        read = json.loads(file.read_bytes())
    except OSError as error:
        raise SettingsError("--check", f"{file} cannot be read: {error.strerror}", "Name a certificate") from None
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise SettingsError("--check", f"{file} is no certificate", "Name a file that `sfcdc certify` wrote")
    return read


def _show(made: Certificate) -> None:
    for cut in made["cuts"]:
        say(f"{cut['channel']} at position {cut['position']}:")
        for entity, each in cut["entities"].items():
            suspect = f", {each['in_doubt']} suspect" if each["in_doubt"] else ""
            say(f"  {entity}: {each['living']:,} living, {each['deleted']:,} deleted{suspect}")
    say(f"certificate {made['number']}: {path_of(made['number'])}, sha256 {made['sha256']}")


def _show_check(found: Checked, *, as_json: bool) -> None:
    if as_json:
        say(json.dumps(found.to_json()))
    else:
        for each in (*found.wrong, *found.gone):
            say(each)
        holds = "does not hold" if found.wrong else "cannot be checked whole any more" if found.gone else "holds"
        say(f"certificate {found.number} {holds}: {counted(found.tables, 'table')} compared.")
    if found.wrong:
        raise typer.Exit(DIFFERS)
    if found.gone:
        raise typer.Exit(1)
