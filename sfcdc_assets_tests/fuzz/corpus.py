"""Inputs that are kept for each target: by name those that failed once or that a person wrote, and of those that
fuzzing found as many as together reach all the code that it reached.

`corpus/TARGET/` has the former as files; `corpus/TARGET.found` the latter, one a line in base64: a few hundred files
of some bytes would hide everything else.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from hashlib import sha1
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


def named(name: str) -> list[bytes]:
    """Return those of a target that have a name."""
    return [file.read_bytes() for file in sorted((CORPUS / name).iterdir())]


def found(name: str) -> list[bytes]:
    """Return those of a target that fuzzing found."""
    file = CORPUS / f"{name}.found"
    return [base64.b64decode(line) for line in file.read_text().splitlines()] if file.exists() else []


def keep(name: str, inputs: Iterable[bytes]) -> None:
    """Keep these as the ones that fuzzing found, in place of those before."""
    lines = sorted(base64.b64encode(each).decode() for each in inputs)
    (CORPUS / f"{name}.found").write_text("".join(f"{line}\n" for line in lines))


def unpack(name: str, folder: Path) -> None:
    """Write those that fuzzing found as files, for the next search to begin with."""
    for each in found(name):
        (folder / sha1(each).hexdigest()).write_bytes(each)
