"""The same work for each of many, some of them at a time, and its outcomes: what each returned, or what it raised."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def outcome_of(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T | Exception:
    """Do it. The end of the process (`KeyboardInterrupt`, `SystemExit`) is raised all the same."""
    try:
        return work(*arguments, **options)
    except Exception as error:  # noqa: BLE001 - the caller tells whose it is, and raises it when all others are done
        return error


S = TypeVar("S")


def all_side_by_side(work: Callable[[S], T], of_each: Sequence[S], at_once: int) -> list[T]:
    """Return what the work gives for each, in their order. Raises the first that it raises, when all are done."""
    found: list[T] = []
    for outcome in list(side_by_side(work, of_each, at_once)):
        if isinstance(outcome, Exception):
            raise outcome
        found.append(outcome)
    return found


def side_by_side(work: Callable[[S], T], of_each: Sequence[S], at_once: int) -> Iterator[T | Exception]:
    """Yield the outcome of the work for each, in their order. Of one, or one at a time, it is done in this thread;
    otherwise each has a copy of this thread's context."""
    if len(of_each) <= 1 or at_once == 1:
        yield from (outcome_of(work, each) for each in of_each)
        return

    def in_context(context: Context, each: S) -> T | Exception:
        return context.run(lambda: outcome_of(work, each))

    with ThreadPoolExecutor(at_once) as threads:
        waiting = [threads.submit(in_context, copy_context(), each) for each in of_each]
        yield from (each.result() for each in waiting)
