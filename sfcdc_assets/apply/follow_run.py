"""A run that goes on with what its sensor lands meanwhile.

To start a run takes Dagster some seconds of processor time, to apply a second's changes takes one. On a busy stream a
run that ended after one batch would spend most of its time being started, and changes would wait for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.landing.run_lander import Lander
from sfcdc_assets.org_connection.run_context import RunContext
from sfcdc_assets.runtime import clock

FOLLOW_SECONDS = 600.0
"""How long a run goes on. Then it ends, so that no run is without end, and another one takes over (`hand_over`)."""
QUIET_SECONDS = 20.0
"""How long it waits for more. Dagster's daemon looks at its sensors every five seconds, later when the machine is busy;
to wait for some ticks costs next to nothing, to start another run seconds."""
LOOK_SECONDS = 0.25


class Following:
    """Whether a run is to go on: for `seconds` at most, not at all for 0, and not when it is to give way to others.

    `entities` are the run's, `known` all that there are; each with its channel.
    """

    def __init__(
        self,
        run: RunContext,
        lander: Lander,
        entities: Mapping[str, str],
        known: Mapping[str, str],
        seconds: float,
        gives_way: Callable[[], bool],
    ) -> None:
        self._run = run
        self._lander = lander
        self._entities = entities
        channels = set(entities.values())
        self._of_the_channels = {entity: of for entity, of in known.items() if of in channels}
        self._gives_way = gives_way
        self._until = clock.current().monotonic() + seconds

    def has_more(self, drained: Mapping[str, int], at_most: float | None = None) -> bool:
        """Wait for complete transactions after these positions (channel -> position), or for `at_most` seconds where
        something is to be done then without any; whether there is something, and nothing that this run could not do.
        That would be left waiting: the sensor asks for one run at a time."""
        begun = clock.current().monotonic()
        give_up = min(self._until, begun + QUIET_SECONDS)
        while (now := clock.current().monotonic()) < give_up:
            is_time = at_most is not None and now >= begun + at_most
            if is_time or any(
                self._lander.land(channel).complete_position > position for channel, position in drained.items()
            ):
                return not (self._gives_way() or self._others_wait())
            clock.sleep(LOOK_SECONDS)
        return False

    @property
    def seconds_left(self) -> float:
        """Until its time is over."""
        return max(0.0, self._until - clock.current().monotonic())

    @property
    def is_over(self) -> bool:
        """Whether its time is: it was not for lack of changes that it ended."""
        return clock.current().monotonic() >= self._until

    def _others_wait(self) -> bool:
        states = entity_states(self._run.warehouse, self._of_the_channels, privacy=self._run.privacy)
        return any(state.needs_snapshot or (state.has_work and state.entity not in self._entities) for state in states)
