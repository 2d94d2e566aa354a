"""`sfcdc emulator fault`: faults of an org that is being served."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from sfcdc_assets.cli.emulator_parts.control import AsJson, EmulatorControl, Folder, served_org
from sfcdc_assets.runtime.errors import SfcdcError

_REST = "rest:"


@dataclass(frozen=True)
class KnownFault:
    """A fault as the org describes it. `armed`: how often it will still happen; `struck`: how often it has."""

    fault: str
    what: str
    armed: int
    struck: int

    @property
    def path(self) -> str:
        """Its control resource."""
        if self.fault.startswith(_REST):
            return f"/rest-faults/{self.fault.removeprefix(_REST)}"
        return f"/faults/{self.fault}"


class UnknownFaultError(SfcdcError):
    """The org knows no fault of that name."""

    def __init__(self, name: str, known: Mapping[str, KnownFault]) -> None:
        self.name = name
        near = difflib.get_close_matches(name, known, 3, 0.5)
        hint = f"Do you mean {' or '.join(near)}?" if near else "`sfcdc emulator fault` lists them all."
        super().__init__(f"There is no fault {name}. {hint}")


class FaultOptionError(SfcdcError):
    """An option of a fault has no value."""

    def __init__(self, option: str) -> None:
        super().__init__(f"--set {option}: write it as OPTION=VALUE, such as --set seconds=30.")


def fault(
    *,
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Its name; those of REST begin with rest:.")] = None,
    times: Annotated[int, typer.Option(metavar="N", min=1, help="How often it happens before it is off again.")] = 1,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="OPTION=VALUE", help="An option that the list names; may be repeated."),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Switch it off, or without a name all of them.")] = False,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Arm a fault of the emulated org, or list them all with what each does.

    Each strikes at the next occasions: `sfcdc emulator fault silent_stream` makes an open stream fall silent,
    `sfcdc emulator fault rest:unavailable --times 3 --set path=/query` lets the next three queries fail.
    """
    with served_org(context, folder) as org:
        if name is None and off:
            org.delete("/faults")
        elif name is not None:
            known = {each.fault: each for each in _known(org)}
            chosen = known.get(name) or known.get(f"{_REST}{name}")
            if chosen is None:
                raise UnknownFaultError(name, known)
            if off:
                org.delete(chosen.path)
            else:
                org.post(chosen.path, {"times": times, **_given(options or [])})
            name = chosen.fault
        _show([each for each in _known(org) if name in (None, each.fault)], as_json=as_json)


def _given(options: list[str]) -> dict[str, str]:
    given = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise FaultOptionError(option)
        given[name] = value
    return given


def _known(org: EmulatorControl) -> list[KnownFault]:
    listing = org.get("/faults")
    armed: dict[str, int] = {}
    for each in listing["armed"]:
        prefix = _REST if "path" in each else ""
        armed[prefix + each["fault"]] = armed.get(prefix + each["fault"], 0) + each["times"]
    described = {**listing["faults"], **{_REST + name: what for name, what in listing["rest_faults"].items()}}
    struck = listing["struck"]
    return [KnownFault(name, what, armed.get(name, 0), struck.get(name, 0)) for name, what in described.items()]


def _show(faults: list[KnownFault], *, as_json: bool) -> None:
    for each in faults:
        if as_json:
            typer.echo(json.dumps(asdict(each)))
        else:
            armed = f"  armed {_times(each.armed)}" if each.armed else ""
            struck = f"  struck {_times(each.struck)}" if each.struck else ""
            typer.echo(typer.style(each.fault, bold=True) + typer.style(armed, fg="yellow", bold=True) + struck)
            typer.echo(f"    {each.what}")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
