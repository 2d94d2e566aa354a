"""The archive of Spark's classes: used where it fits, made whole or not at all, and quick."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sfcdc_assets.spark import class_archive
from sfcdc_assets.spark.class_archive import OPTION, NoClassArchive, Recording, archive_path, with_archive
from sfcdc_assets_tests.documentation import ROOT

OURS = {OPTION: "-XX:+UseSerialGC"}


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python environment without an archive, with a space in its name."""
    folder = tmp_path / "an environment"
    folder.mkdir()
    monkeypatch.setattr(sys, "prefix", str(folder))
    return folder


def made(text: str = "classes") -> Path:
    path = archive_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_an_archive_the_options_stay_as_they_are(environment: Path) -> None:
    assert with_archive(OURS) == OURS


def test_an_archive_is_mapped_beside_the_other_options(environment: Path) -> None:
    path = made()
    options = with_archive(OURS)[OPTION]
    assert options.startswith("-XX:+UseSerialGC ")
    assert f"'-XX:SharedArchiveFile={path}'" in options


def test_an_archive_that_the_settings_name_is_left_to_them(environment: Path) -> None:
    made()
    named = {OPTION: "-XX:SharedArchiveFile=/srv/classes.jsa"}
    assert with_archive(named) == named


def test_another_java_has_another_archive(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = archive_path()
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("another")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert archive_path() != before


def test_a_recording_that_is_kept_takes_the_place_of_older_ones(environment: Path) -> None:
    older = made().with_name("spark-of-another-java.jsa")
    older.write_text("old")
    recording = Recording()
    part = Path(recording.options(OURS)[OPTION].split("ArchiveClassesAtExit=")[1].split("'")[0])
    part.write_text("new")
    assert recording.keep(0).read_text() == "new"
    assert sorted(each.name for each in archive_path().parent.iterdir()) == [archive_path().name]


def test_a_java_that_died_leaves_the_archive_of_before(environment: Path) -> None:
    path = made("old")
    recording = Recording()
    part = Path(recording.options(OURS)[OPTION].split("ArchiveClassesAtExit=")[1].split("'")[0])
    part.write_text("half of it")
    with pytest.raises(NoClassArchive, match="Java ended with 137"):
        recording.keep(137)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.read_text() == "old"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_an_environment_of_somebody_else_is_named(environment: Path) -> None:
    environment.chmod(0o500)
    with pytest.raises(NoClassArchive, match="run it as the owner"):
        Recording()


def test_a_folder_that_cannot_be_made_is_named(environment: Path) -> None:
    (environment / "share").write_text("a file is in the way")
    with pytest.raises(NoClassArchive, match="run it as the owner"):
        Recording()


PREPARE = """
import sys
from sfcdc_assets.settings.settings import load_settings
sys.prefix = sys.argv[1]
from sfcdc_assets.spark.warm_up import prepare
print(prepare(load_settings()))
"""
USE = """
import sys
from sfcdc_assets.settings.settings import load_settings
sys.prefix = sys.argv[1]
from sfcdc_assets.spark.session import own_session, spark_options
from sfcdc_assets.spark.warm_up import warm_up
session = own_session(spark_options(load_settings()))
warm_up(session)
from pathlib import Path
print(Path(f"/proc/{session.sparkContext._gateway.proc.pid}/maps").read_text())
"""


@pytest.mark.slow
def test_a_java_process_maps_what_an_earlier_one_recorded_and_says_nothing_of_it(environment: Path) -> None:
    def run(script: str) -> str:
        command = [sys.executable, "-c", script, str(environment)]
        return subprocess.run(
            command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=540, check=True
        ).stdout

    path = Path(run(PREPARE).strip())
    assert path == class_archive.archive_path()
    maps = run(USE)
    assert str(path) in maps
    assert "[cds]" not in maps
