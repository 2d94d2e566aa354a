"""A process is known by its number and by when it began."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sfcdc_assets.runtime.process_identity import is_there, process_began

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system does not say when a process began")


def test_this_process_is_there_and_one_that_has_ended_is_not() -> None:
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    assert is_there(os.getpid(), process_began(os.getpid()))
    assert is_there(os.getpid(), None)
    assert not is_there(ended.pid, None)
    assert process_began(ended.pid) is None


@linux
def test_another_process_of_the_same_number_is_not_the_one_that_began_earlier() -> None:
    began = process_began(os.getpid())
    assert began is not None
    assert not is_there(os.getpid(), began - 1)
