"""The one Spark session and its settings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from pyspark.sql import SparkSession

from sfcdc_assets.config import Settings
from sfcdc_assets.errors import SfcdcError

MINIMUM_JAVA = 17


class JavaMissing(SfcdcError):
    """Spark needs a Java runtime that this machine does not offer."""

    def __init__(self, found: str) -> None:
        self.found = found
        super().__init__(
            f"Spark needs Java {MINIMUM_JAVA} or newer, and {found}. Install one (Debian: apt-get install "
            "openjdk-17-jre-headless; macOS: brew install openjdk@17) and put it on PATH or name it in JAVA_HOME."
        )


def check_java() -> None:
    """Raise `JavaMissing` unless the Java that Spark would start is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        raise JavaMissing(f"JAVA_HOME={home} has no bin/java" if home else "no java is on PATH")
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaMissing(f"{java} does not run ({type(error).__name__})") from error
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    if version is None or int(version.group(1)) < MINIMUM_JAVA:
        raise JavaMissing(f"{java} is version {version.group(1) if version else 'unknown'}")


def spark_options(settings: Settings) -> dict[str, str]:
    """Options of the session: those measured to matter (facts/STORAGE.md section 6), then SFCDC_SPARK_CONF_*."""
    options = {
        "spark.app.name": "sfcdc_assets",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(3 * (os.cpu_count() or 2)),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.python.worker.reuse": "true",
        "spark.driver.memory": "1g",
    }
    if settings.spark_remote:
        options["spark.remote"] = settings.spark_remote
    else:
        options["spark.master"] = settings.spark_master
        if settings.spark_master.startswith("local"):
            options["spark.driver.host"] = "127.0.0.1"
            options["spark.driver.bindAddress"] = "127.0.0.1"
    return {**options, **settings.spark_conf}


def spark_session(settings: Settings) -> SparkSession:
    """The process's session, started on first use (a JVM; seconds). Raises `JavaMissing` before anything is started."""
    if not settings.spark_remote:
        check_java()
    builder = SparkSession.builder
    for option, value in spark_options(settings).items():
        builder = builder.config(option, value)
    session = builder.getOrCreate()
    if not settings.spark_remote:
        session.sparkContext.setLogLevel("ERROR")
    return session
