"""What is reported where Spark gave up a job because its workers were lost."""

from __future__ import annotations

import pytest

from sfcdc_assets.apply.task_failures import lost_workers

OF_YARN = (
    "Job aborted due to stage failure: Task 3 in stage 7.0 failed 4 times; Lost task 3.3 in stage 7.0 "
    "(TID 41) (10.0.0.7 executor 5): ExecutorLostFailure (executor 5 exited caused by one of the running tasks) "
    "Reason: Container killed by YARN for exceeding physical memory limits. 4.1 GB of 4 GB physical memory used.\n"
    "Driver stacktrace:"
)
OF_KUBERNETES = (
    "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: \n"
    "The executor with id 2 exited with exit code 137(SIGKILL, possible container OOM)."
)
OF_PYTHON = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat org.apache.spark..."


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (OF_YARN, "Container killed by YARN for exceeding physical memory limits. 4.1 GB of 4 GB physical memory used"),
        (OF_KUBERNETES, "The executor with id 2 exited with exit code 137(SIGKILL, possible container OOM)"),
        (OF_PYTHON, "Python worker exited unexpectedly"),
        ("java.lang.OutOfMemoryError: Java heap space", "OutOfMemoryError: Java heap space"),
    ],
    ids=["YARN", "Kubernetes", "a Python worker", "a JVM"],
)
def test_lost_workers_are_one_sentence_with_the_setting_that_helps(said: str, reason: str) -> None:
    found = lost_workers("Account", RuntimeError(said))
    assert found is not None
    assert (found.entity, found.reason) == ("Account", reason)
    assert str(found).startswith("Account: Spark gave up its batch")
    assert "spark.executor.memoryOverhead" in str(found)
    assert "\n" not in str(found)


def test_other_errors_of_a_job_stay_what_they_are() -> None:
    assert lost_workers("Account", RuntimeError("Job aborted: No space left on device")) is None
