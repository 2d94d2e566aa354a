"""What the steps of one run have in common: connections that stay open from step to step, and values in memory."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import dagster as dg
from pydantic import PrivateAttr

from sfcdc_assets.errors import SfcdcError


class RunScope(dg.ConfigurableResource):
    """Keeps what a step opens until the run is over: a login and a subscription for all steps, not one for each."""

    _stack: ExitStack = PrivateAttr(default_factory=ExitStack)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Nothing is open yet."""
        self._stack = ExitStack()

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Close all, last opened first. What fails then fails no run: its work is done, and what is not landed comes
        again. A run that is interrupted waits for nothing."""
        try:
            self._stack.__exit__(*sys.exc_info())
        except SfcdcError as error:
            if context.log is not None:
                context.log.warning(f"A connection could not be closed well: {error}")

    @contextmanager
    def kept_if_done(self) -> Iterator[ExitStack]:
        """What is opened in this block is closed when the run ends, or at once when the block raises."""
        with ExitStack() as opened:
            yield opened
            self._stack.push(opened.pop_all())


class NotInMemory(SfcdcError):
    """A step was started again without the step before it."""

    def __init__(self, step: str) -> None:
        self.step = step
        super().__init__(
            f"What the step {step} found is not in this process: the steps of a run hand it on in memory. Launch the "
            "job again as a whole; what is applied already is not applied again."
        )


class InMemory(dg.IOManager):
    """Hands values from step to step of a run in one process. Nothing is written, and nothing outlives the run."""

    def __init__(self) -> None:
        self._values: dict[Sequence[str], Any] = {}

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Keep it."""
        self._values[tuple(context.get_identifier())] = obj

    def load_input(self, context: dg.InputContext) -> Any:
        """Raises `NotInMemory`."""
        output = context.upstream_output
        assert output is not None
        key = tuple(output.get_identifier())
        if key not in self._values:
            raise NotInMemory(output.step_key)
        return self._values[key]


@dg.io_manager
def in_memory(_: dg.InitResourceContext) -> InMemory:
    """A new one for each run."""
    return InMemory()
