"""What a JVM writes while it starts does not reach the terminal, unless it does not start."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from sfcdc_assets.spark.session import JvmMessages

NOISE = (
    b"WARNING: Using incubator modules: jdk.incubator.vector\n"
    b'Setting default log level to "WARN".\n'
    b"26/11/22 05:00:00 WARN Utils: Your hostname resolves to a loopback address\n"
)


@contextmanager
def jvm() -> Iterator[tuple[IO[bytes], JvmMessages]]:
    """What it writes to, and what reads it; at the end it is gone, and all is read."""
    before = set(threading.enumerate())
    messages = JvmMessages()
    reader = next(thread for thread in threading.enumerate() if thread not in before)
    with os.fdopen(os.dup(messages.writable), "wb", buffering=0) as stream:
        yield stream, messages
    reader.join()


def test_the_noise_of_a_start_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with jvm() as (stream, messages):
        stream.write(NOISE)
        messages.has_started()
    assert capsys.readouterr().err == ""


def test_what_is_said_later_is_shown_but_for_warnings_of_java(capsys: pytest.CaptureFixture[str]) -> None:
    with jvm() as (stream, messages):
        messages.has_started()
        stream.write(b"WARNING: sun.misc.Unsafe is deprecated\njava.lang.OutOfMemoryError: Java heap space\n")
    assert capsys.readouterr().err == "java.lang.OutOfMemoryError: Java heap space\n"


def test_all_is_shown_where_it_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    with jvm() as (stream, messages):
        stream.write(NOISE + b"Error: Could not create the Java Virtual Machine.\n")
        stream.close()
        messages.has_failed()
    assert capsys.readouterr().err == (NOISE + b"Error: Could not create the Java Virtual Machine.\n").decode()
