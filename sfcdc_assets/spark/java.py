"""The Java that Spark would start: found, and new enough. Imports nothing that has to be installed, because `make`
asks it before anything else is done (`python3 -m sfcdc_assets.spark.java`)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache

from sfcdc_assets.runtime.errors import SfcdcError

MINIMUM_JAVA = 17


class JavaMissing(SfcdcError):
    """Spark needs a Java runtime that this machine does not offer."""

    def __init__(self, found: str) -> None:
        self.found = found
        super().__init__(
            f"Spark needs Java {MINIMUM_JAVA} or newer, and {found}. Install one (Debian: apt-get install "
            "openjdk-17-jre-headless; macOS: brew install openjdk@17) and put it on PATH or name it in JAVA_HOME."
        )


def check_java() -> int:
    """Return the major version of the Java that Spark would start; raises `JavaMissing` unless it is new enough."""
    return _version_of(java_path())


def java_path() -> str:
    """Return the program that Spark would start; raises `JavaMissing` if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        raise JavaMissing(f"JAVA_HOME={home} has no bin/java" if home else "no java is on PATH")
    return java


@cache
def _version_of(java: str) -> int:
    """Asked once: every sync and every session checks, and each time a JVM would start for it."""
    try:
        description = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaMissing(f"{java} does not run ({type(error).__name__})") from error
    version = re.search(r'version "(?:1\.)?(\d+)', description)
    if version is None or int(version.group(1)) < MINIMUM_JAVA:
        raise JavaMissing(f"{java} is version {version.group(1) if version else 'unknown'}")
    return int(version.group(1))


if __name__ == "__main__":
    try:
        check_java()
    except JavaMissing as error:
        sys.exit(str(error))
