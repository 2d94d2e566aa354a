"""What lies about after, and beside, processes: texts in files in any form, on command lines, what others may read."""

from __future__ import annotations

import base64
import gzip
import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

import pyarrow.parquet as pq

NOBODY = 65534
_SQLITE = b"SQLite format 3\0"


def forms(text: str) -> set[bytes]:
    """How a text may be written: as it is, for a URL, for a form, in JSON, in XML, and within something in base64."""
    written = {text, quote(text), quote(text, safe=""), quote_plus(text), json.dumps(text)[1:-1], escape(text)}
    written.add(json.dumps(text, ensure_ascii=False)[1:-1])
    content = text.encode()
    for before in range(3):  # whatever stands before it shifts it by as many bytes
        whole = (before + len(content)) // 3 * 3
        inner = base64.b64encode(bytes(before) + content)[4 if before else 0 : whole // 3 * 4].decode()
        written |= {inner, inner.replace("+", "-").replace("/", "_")}
    return {each.encode() for each in written}


def contents(file: Path) -> Iterator[bytes]:
    """All that a file says: its bytes, and what is packed in them where it is Parquet, SQLite or gzip."""
    raw = file.read_bytes()
    yield raw
    if raw[:4] == b"PAR1" == raw[-4:]:
        yield repr(pq.ParquetFile(file).read().to_pylist()).encode()
    elif raw.startswith(_SQLITE):
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                for row in database.execute(f'SELECT * FROM "{table}"'):
                    yield from map(_unpacked, row)
    elif raw[:2] == b"\x1f\x8b":
        yield gzip.decompress(raw)


def _unpacked(cell: object) -> bytes:
    if not isinstance(cell, bytes):
        return str(cell).encode()
    with suppress(zlib.error):
        return zlib.decompress(cell)
    return cell


def files_with(texts: Mapping[str, str], *folders: Path) -> list[str]:
    """Which of the texts (by their names) are in which files below the folders, in whatever form."""
    wanted = {name: forms(text) for name, text in texts.items()}
    found = set()
    for file in (each for folder in folders for each in folder.rglob("*") if each.is_file() and not each.is_symlink()):
        for content in contents(file):
            found |= {f"{name} in {file}" for name, written in wanted.items() if any(one in content for one in written)}
    return sorted(found)


def texts_in(texts: Mapping[str, str], output: str) -> list[str]:
    """Which of the texts are in what was printed."""
    return [name for name, text in texts.items() if any(written in output.encode() for written in forms(text))]


def open_to_others(folder: Path) -> set[Path]:
    """What below the folder, which others may enter, others may read, write or enter; and what only a member of the
    group may. By the modes, and where root asks also as `nobody` finds it."""
    found, waiting = set[Path](), [folder]
    while waiting:
        with suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    mode = entry.stat(follow_symlinks=False).st_mode
                    if stat.S_ISLNK(mode):
                        continue
                    if mode & (0o022 if stat.S_ISSOCK(mode) else 0o077):  # who may not write cannot connect
                        found.add(Path(entry.path))
                    if stat.S_ISDIR(mode) and mode & 0o011:
                        waiting.append(Path(entry.path))
    if os.getuid() == 0:
        may = ["-not", "-type", "l", "(", "-writable", "-o", "-not", "-type", "s"]
        may += ["(", "-readable", "-o", "-executable", ")", ")"]
        asked = subprocess.run(
            ["find", str(folder), "-mindepth", "1", *may],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
        found |= {Path(line) for line in asked.stdout.splitlines()}
    return found


@dataclass
class Watched:
    """What was seen of processes while they were at work."""

    commands: set[str] = field(default_factory=set)
    """Their command lines, which every user of the machine may list."""
    open: set[Path] = field(default_factory=set)
    """What others could read meanwhile."""
    failed: BaseException | None = None


@contextmanager
def watching(marker: str, folder: Path) -> Iterator[Watched]:
    """Look at all processes whose environment has the marker, and at what lies in the folder, again and again."""
    seen, ended = Watched(), threading.Event()

    def look() -> None:
        try:
            while not ended.wait(0.25):
                seen.commands |= _commands(marker)
                seen.open |= open_to_others(folder)
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            seen.failed = error

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
    if seen.failed is not None:
        raise seen.failed


def _commands(marker: str) -> set[str]:
    """As `ps` prints them."""
    if not sys.platform.startswith("linux"):
        listed = subprocess.run(["ps", "-A", "-o", "args"], capture_output=True, text=True, check=True)
        return set(listed.stdout.splitlines())
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if marker.encode() in (process / "environ").read_bytes():
                found.add((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found - {""}
