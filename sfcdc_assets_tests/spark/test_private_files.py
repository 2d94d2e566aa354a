"""What another user of the machine can read of a Spark of ours: nothing. Real Java reads back what we write for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.settings.settings import is_secret
from sfcdc_assets.spark.private_files import (
    LOCAL_DIR,
    LocalFolderNotPrivate,
    local_folder,
    make_local_folder,
    properties_file,
)
from sfcdc_assets_tests.eventually import BOUND_SECONDS

pytestmark = pytest.mark.slow

SECRET = "hunter2-of-the-test"
PROGRAM = """
import json, os, subprocess, sys
from pathlib import Path
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.private_files import local_folder
from sfcdc_assets.spark.session import spark_session

session = spark_session(load_settings())
context = session.sparkContext

worker_file = str(Path(sys.argv[1], "by a worker"))
context.parallelize([1]).foreachPartition(lambda rows: open(worker_file, "w").close())
rows = [(number % 4, f"customer{number}@example.com") for number in range(2000)]
frame = session.createDataFrame(rows, "key long, address string")
assert frame.repartition(4, "key").groupBy("key").count().count() == 4
files = [path for path in local_folder().rglob("*") if path.is_file() and "shuffle" in path.name]
as_nobody = {"user": 65534} if os.getuid() == 0 else {}
find = ["find", str(local_folder())]
seen = subprocess.run(find, capture_output=True, text=True, **as_nobody).stdout if as_nobody else ""
commands = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True).stdout
print(json.dumps({
    "shuffled": len(files),
    "open to others": [str(path) for path in files if path.stat().st_mode & 0o077],
    "folder": local_folder().stat().st_mode & 0o777,
    "seen by nobody": [line for line in seen.splitlines() if line != str(local_folder())],
    "on a command line": [line for line in commands.splitlines() if "hunter2-of-the-" + "test" in line],
    "option": context.getConf().get("spark.hadoop.fs.s3a.secret.key"),
    "authenticates": context.getConf().get("spark.authenticate"),
    "by a worker": Path(worker_file).stat().st_mode & 0o777,
    "left": [path.name for path in Path(os.environ["TMPDIR"]).glob("sfcdc-spark-*.conf")],
}))
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's folder of temporary files, as everybody may write to it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_shuffled_rows_and_secret_options_are_this_users_alone_and_workers_write_as_it_does(
    temporary: Path, tmp_path: Path
) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SFCDC_")}
    settings = {
        "SFCDC_WAREHOUSE": str(tmp_path / "warehouse"),
        "SFCDC_SPARK_MASTER": "local[2]",
        "SFCDC_SPARK_CONF_spark.hadoop.fs.s3a.secret.key": SECRET,
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**kept, **settings},
        cwd=tmp_path,
        umask=0o022,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("shuffled") > 0
    assert found == {
        "open to others": [],
        "folder": 0o700,
        "seen by nobody": [],
        "on a command line": [],
        "option": SECRET,
        "authenticates": "true",
        "by a worker": 0o644,
        "left": [],
    }


def test_options_that_a_killed_process_left_are_deleted_by_the_next_one_and_those_in_use_are_not(
    temporary: Path,
) -> None:
    with properties_file({"secret": SECRET}) as in_use:
        left = temporary / f"{in_use.name}.conf"
        left.write_text(SECRET)
        others = temporary / "another.conf"
        others.touch()
        for each in (left, others):
            os.utime(each, (0, 0))
        with properties_file({}):
            assert in_use.exists()
            assert not left.exists()
            assert others.exists()


def test_a_folder_that_somebody_else_put_there_is_refused(temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    local_folder().symlink_to(tmp_path / "theirs")
    with pytest.raises(LocalFolderNotPrivate, match="it is no folder"):
        make_local_folder({LOCAL_DIR: str(local_folder())})


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(temporary: Path) -> None:
    local_folder().mkdir(mode=0o700)
    os.chown(local_folder(), 65534, 65534)
    with pytest.raises(LocalFolderNotPrivate, match="belongs to the user 65534"):
        make_local_folder({LOCAL_DIR: str(local_folder())})


def test_a_folder_that_was_opened_is_closed_again(temporary: Path) -> None:
    local_folder().mkdir()
    local_folder().chmod(0o755)
    make_local_folder({LOCAL_DIR: str(local_folder())})
    assert local_folder().stat().st_mode & 0o777 == 0o700


def test_a_folder_that_a_person_names_is_left_as_it_is(temporary: Path, tmp_path: Path) -> None:
    make_local_folder({LOCAL_DIR: str(tmp_path / "own")})
    assert not local_folder().exists()


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("SFCDC_SPARK_CONF_spark.hadoop.fs.s3a.secret.key", True),
        ("SFCDC_SPARK_CONF_SPARK__HADOOP__FS__S3A__ACCESS__KEY", True),
        ("SFCDC_SPARK_CONF_spark.ssl.keyStorePassword", True),
        ("SFCDC_EMEA_SPARK_CONF_spark.connect.authenticate.token", True),
        ("SFCDC_SPARK_CONF_spark.executor.memory", False),
    ],
)
def test_options_that_hold_a_secret_are_secrets(name: str, is_one: bool) -> None:
    assert is_secret(name, ["emea"]) is is_one


_TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.dictionaries(_TEXTS.filter(bool), _TEXTS, max_size=6))
def test_what_java_reads_of_the_file_is_what_was_written(options: dict[str, str]) -> None:
    with properties_file(options) as file:
        assert file.stat().st_mode & 0o777 == 0o600
        assert _read_as_java_does(file.read_bytes().decode("latin-1")) == options
    assert not file.exists()


def _read_as_java_does(text: str) -> dict[str, str]:
    """java.util.Properties.load, for lines without comments or continuations."""
    found = {}
    for line in text.split("\n")[:-1]:
        name, _, value = line.partition("=")
        found[_unescaped(name)] = _unescaped(value)
    return found


def _unescaped(text: str) -> str:
    return text.encode("ascii").decode("unicode_escape").encode("utf-16", "surrogatepass").decode("utf-16")
