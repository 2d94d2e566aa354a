"""Files of a Spark of our own that other users of the machine may not read: its options, and what it shuffles.

Options may hold credentials, and a process's command line is everybody's to read. Shuffled changes are customers' data,
and Spark writes them with the usual permissions below a folder that everybody may enter ("Spark Security" in Spark's
documentation leaves local storage to whoever sets `spark.local.dir`).
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from sfcdc_assets.runtime.errors import SfcdcError

LOCAL_DIR = "spark.local.dir"
UMASK = "_SFCDC_WORKER_UMASK"
"""Variable with the umask of the process that started the JVM, in octal: workers write tables with it, while the JVM's
own files are its user's alone. It does not begin as settings do: other threads read those while it is set."""


_BEGINS, _ENDS = "sfcdc-spark-", ".conf"
_LEFT_SECONDS = 3_600.0
"""No JVM takes so long to start: a file of options that is older is nobody's any more."""


class LocalFolderNotPrivate(SfcdcError):
    """The folder for Spark's temporary files belongs to somebody else."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(
            f"Spark's temporary files cannot be kept from other users in {path}: {reason}. Remove it, or name a folder "
            "of your own in SFCDC_SPARK_CONF_SPARK__LOCAL__DIR."
        )


def local_folder() -> Path:
    """Return this user's folder for Spark's temporary files; the same for all processes, so that none is left behind.
    Spark removes what it puts there."""
    return Path(tempfile.gettempdir()) / f"sfcdc-spark-{os.getuid()}"


def make_local_folder(options: Mapping[str, str]) -> None:
    """Make this user's folder, if the options name it and no other one. Raises `LocalFolderNotPrivate`."""
    path = local_folder()
    if options.get(LOCAL_DIR) != str(path):
        return
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()  # not followed: anybody can put a link into the folder of temporary files
        if not stat.S_ISDIR(found.st_mode):
            raise LocalFolderNotPrivate(path, "it is no folder")
        if found.st_uid != os.getuid():
            raise LocalFolderNotPrivate(path, f"it belongs to the user {found.st_uid}")
        if stat.S_IMODE(found.st_mode) != 0o700:
            path.chmod(0o700)
    except OSError as error:
        raise LocalFolderNotPrivate(path, error.strerror or str(error)) from error


@contextmanager
def properties_file(options: Mapping[str, str]) -> Iterator[Path]:
    """Yield the options as a file of Java properties that this user alone may read, gone at the end: Spark has read it
    when its JVM answers. What a process that was killed meanwhile has left goes with the next one."""
    _delete_leftovers(Path(tempfile.gettempdir()))
    with tempfile.NamedTemporaryFile("w", prefix=_BEGINS, suffix=_ENDS, encoding="ascii") as file:
        file.writelines(f"{_escaped(name)}={_escaped(value)}\n" for name, value in options.items())
        file.flush()
        yield Path(file.name)


def _delete_leftovers(folder: Path) -> None:
    for path in folder.glob(f"{_BEGINS}*{_ENDS}"):
        with suppress(OSError):  # another user's, or gone meanwhile
            found = path.lstat()
            if found.st_uid == os.getuid() and time.time() - found.st_mtime > _LEFT_SECONDS:
                path.unlink()


def _escaped(text: str) -> str:
    """Escape as `java.util.Properties.load` reads it back, which takes a file for Latin-1."""
    units = memoryview(text.encode("utf-16-be", "surrogatepass"))
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\u{code:04x}" for code in codes)
