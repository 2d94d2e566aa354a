"""What a worker lacks, from the words in which Spark reports it."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkRuntimeError

from sfcdc_assets.spark.workers import INSTALL, PYTHON, what_they_lack

OTHER_PYTHON = str(
    PySparkRuntimeError(
        errorClass="PYTHON_VERSION_MISMATCH",
        messageParameters={"worker_version": "3.12", "driver_version": "3.11"},
    )
)


@pytest.mark.parametrize(
    ("trace", "lack", "remedy"),
    [
        ("ModuleNotFoundError: No module named 'polars'", "a worker's Python has no module polars", INSTALL),
        (OTHER_PYTHON, "the workers' Python is 3.12 where this one is 3.11", PYTHON),
        (
            'java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory',
            "a worker has no /opt/python",
            PYTHON,
        ),
        (
            "AttributeError: Can't get attribute 'what_they_lack' on <module 'sfcdc_assets.spark.workers' from '/a'>",
            "a worker has another release of sfcdc_assets",
            INSTALL,
        ),
        (
            "ImportError: cannot import name 'code' from 'sfcdc_assets.spark.standing' (/opt/a)",
            "a worker has another release of sfcdc_assets",
            INSTALL,
        ),
    ],
    ids=["no package", "another Python", "no Python", "a function that is new", "a name that is new"],
)
def test_what_a_worker_lacks_is_named_with_its_remedy(trace: str, lack: str, remedy: str) -> None:
    assert what_they_lack(f"Job aborted due to stage failure:\n{trace}\n\tat org.apache.spark") == (lack, remedy)


def test_anything_else_is_left_as_spark_says_it() -> None:
    assert what_they_lack("Job aborted due to stage failure: ZeroDivisionError") is None
