"""Where settings come from, and who else can read them. Values are never shown."""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from sfcdc_assets.config import Settings, is_secret
from sfcdc_assets.doctor.finding import Finding, ok, warning
from sfcdc_assets.setting_names import PREFIX

SETTINGS, FILES = "settings", "files with secrets"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def sources(environment: Mapping[str, str], dotenv: Mapping[str, str], file: Path) -> Finding:
    """The names that are set, by where they are; the environment wins."""
    in_environment = sorted({name.upper() for name, value in environment.items() if _is_set(name, value)})
    in_file = sorted({name.upper() for name, value in dotenv.items() if _is_set(name, value)})
    parts = []
    if in_environment:
        parts.append(f"from the environment {', '.join(in_environment)}")
    if in_file:
        parts.append(f"from {file.absolute()} {', '.join(in_file)}")
    both = sorted(set(in_environment) & set(in_file))
    if both:
        return warning(
            SETTINGS,
            "; ".join(parts),
            f"{', '.join(both)} {'is' if len(both) == 1 else 'are'} set in both, and the environment wins: keep one.",
        )
    return ok(SETTINGS, "; ".join(parts) or "none is set: every default holds")


def secret_files(settings: Settings, dotenv: Mapping[str, str], file: Path) -> Iterator[Finding]:
    """`.env` if it has a secret, and the private key: readable by nobody else."""
    in_file = sorted(name.upper() for name, value in dotenv.items() if is_secret(name, settings.orgs) and value)
    if in_file:
        yield _readable_by(file, in_file)
    if settings.private_key_file is not None:
        yield _readable_by(settings.private_key_file, ["the private key"])


def _readable_by(file: Path, secrets: Collection[str]) -> Finding:
    mode = stat.S_IMODE(file.stat().st_mode)
    has = f"{file} has {', '.join(secrets)} and mode {mode:o}"
    if mode & _OTHERS:
        return warning(FILES, f"{has}: other users of this machine may read it.", f"Run: chmod 600 {file}")
    return ok(FILES, has)


def _is_set(name: str, value: str) -> bool:
    return name.upper().startswith(PREFIX) and bool(value)
