"""The search for what lies about finds what lies about."""

from __future__ import annotations

import base64
import gzip
import os
import socket
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.leaks import files_with, forms, open_to_others, texts_in, watching

SECRET = "p@ss w/ö\"rd+&<1'"


@given(before=st.binary(max_size=7), after=st.binary(max_size=7))
def test_a_text_is_known_again_within_anything_in_base64(before: bytes, after: bytes) -> None:
    for encoded in (base64.b64encode, base64.urlsafe_b64encode):
        packed = encoded(before + SECRET.encode() + after)
        assert any(form in packed for form in forms(SECRET))


def test_a_text_is_found_in_each_kind_of_file(tmp_path: Path) -> None:
    content = f"<{quote_plus(SECRET)}>".encode()
    (tmp_path / "plain").write_bytes(b"\0" + content)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(content))
    rows = pa.table({"Name": [SECRET] * 500, "Raw": [b"x"] * 500})
    pq.write_table(rows, tmp_path / "rows.parquet", compression="zstd")
    with sqlite3.connect(tmp_path / "plain.db") as database:
        database.execute("CREATE TABLE told (body BLOB)")
        database.execute("INSERT INTO told VALUES (?)", (zlib.compress(content * 100),))
    database.close()
    (tmp_path / "other").write_text("nothing of the kind")
    found = files_with({"secret": SECRET, "another": "not there"}, tmp_path)
    assert found == [f"secret in {tmp_path / name}" for name in ("packed.gz", "plain", "plain.db", "rows.parquet")]
    assert texts_in({"secret": SECRET, "another": "not there"}, f"it is {SECRET}") == ["secret"]


@pytest.fixture
def entered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that everybody may enter, in one that nobody else may."""
    folder = tmp_path_factory.mktemp("entered")
    folder.chmod(0o755)
    return folder


def test_what_others_may_read_is_seen_and_what_a_closed_folder_holds_is_not(entered: Path) -> None:
    (entered / "closed").mkdir(mode=0o700)
    (entered / "closed" / "open").touch(0o644)
    (entered / "left").mkdir()
    (entered / "left").chmod(0o711)
    (entered / "left" / "open").touch()
    (entered / "left" / "open").chmod(0o604)
    (entered / "own").touch(0o600)
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(str(entered / "to read"))
        other.bind(str(entered / "to connect"))
        (entered / "to read").chmod(0o755)
        (entered / "to connect").chmod(0o702)
    assert open_to_others(entered) == {entered / name for name in ("left", "left/open", "to connect")}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_command_line_of_a_process_is_seen(entered: Path) -> None:
    marker = f"_MARKER={entered}"
    with watching(marker, entered) as seen:
        process = subprocess.Popen(["sleep", "600.25"], env={**os.environ, "_MARKER": str(entered)})
        try:
            assert eventually(lambda: any("sleep 600.25" in line for line in list(seen.commands)), "the process")
            (entered / "shown").touch(0o644)
            assert eventually(lambda: entered / "shown" in seen.open, "the file")
        finally:
            process.kill()
            process.wait()
