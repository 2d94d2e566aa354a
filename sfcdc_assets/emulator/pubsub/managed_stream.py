"""One ManagedSubscribe call: a Subscribe call whose place the org keeps, with commits between its requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sfcdc_assets.emulator.errors import OrgUnavailableError, ReplayIdCorruptedError, ReplayIdMissingError
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.pubsub.rpc_refusal import MANAGED
from sfcdc_assets.emulator.pubsub.subscription import Subscription
from sfcdc_assets.emulator.setup.managed_subscriptions import ManagedSubscription, ManagedSubscriptions
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb

_ID_LENGTHS = (15, 18)


def chosen_subscription(subscriptions: ManagedSubscriptions, first: pb.ManagedFetchRequest) -> ManagedSubscription:
    """Return the subscription that a first request names. Raises RpcRefusal."""
    if bool(first.subscription_id) == bool(first.developer_name):
        raise MANAGED["id.or.developer.name.empty"]()
    if first.auth_refresh:
        raise MANAGED["fetch.request.auth.request.restricted"]()
    if first.HasField("commit_replay_id_request"):
        raise MANAGED["fetch.request.commit.request.restricted"]()
    if first.num_requested <= 0:
        raise MANAGED["fetch.request.events.invalid"]()
    if first.subscription_id and len(first.subscription_id) not in _ID_LENGTHS:
        raise MANAGED["subscription.id.invalid"]()
    found = subscriptions.find(subscription_id=first.subscription_id, name=first.developer_name)
    if found is None:
        raise MANAGED["subscription.id.not.found" if first.subscription_id else "developer.name.not.found"]()
    if found.state == "STOP":
        raise MANAGED["config.stopped"]()
    return found


def first_request(bus: EventBus, chosen: ManagedSubscription, num_requested: int) -> pb.FetchRequest:
    """Begins after what was committed, or as the subscription is set up where nothing was or the place is lost."""
    request = pb.FetchRequest(topic_name=chosen.topic, num_requested=num_requested)
    if chosen.committed is None:
        request.replay_preset = pb.ReplayPreset.Value(chosen.default_replay)
        return request
    try:
        bus.start(pb.ReplayPreset.CUSTOM, chosen.committed)
    except ReplayIdCorruptedError:
        request.replay_preset = pb.ReplayPreset.Value(chosen.error_recovery_replay)
        return request
    request.replay_preset, request.replay_id = pb.ReplayPreset.CUSTOM, chosen.committed
    return request


class ManagedStream:
    """Hands requests and commits to `subscription`, and its responses to the client."""

    def __init__(
        self,
        bus: EventBus,
        subscriptions: ManagedSubscriptions,
        chosen: ManagedSubscription,
        subscription: Subscription,
        clock: Callable[[], int],
    ) -> None:
        self._bus = bus
        self._subscriptions = subscriptions
        self._chosen = chosen
        self._subscription = subscription
        self._clock = clock

    def put(self, request: pb.ManagedFetchRequest) -> None:
        """Take a request that has arrived: events, a commit, or both. A wrong one ends the call."""
        names = (request.subscription_id or self._chosen.id, request.developer_name or self._chosen.name)
        if names[0][:15] != self._chosen.id[:15] or names[1] != self._chosen.name:
            self._subscription.say(MANAGED["fetch.request.invalid"]())
        if request.num_requested < 0:
            self._subscription.say(MANAGED["fetch.request.events.invalid"]())
        if request.HasField("commit_replay_id_request"):
            self._subscription.say(self._committed(request.commit_replay_id_request))
        if request.num_requested > 0:
            self._subscription.put(pb.FetchRequest(num_requested=request.num_requested))

    def responses(self) -> Iterator[pb.ManagedFetchResponse]:
        """Yield responses until the call is over. Raises RpcRefusal, also when the subscription is stopped or deleted
        meanwhile."""
        latest = b""
        for response in self._subscription.responses():
            now = self._subscriptions.find(subscription_id=self._chosen.id)
            if now is None:
                raise MANAGED["config.deleted"]()
            if now.state == "STOP":
                raise MANAGED["config.stopped"]()
            if isinstance(response, pb.CommitReplayResponse):
                yield pb.ManagedFetchResponse(
                    commit_response=response,
                    latest_replay_id=latest or response.replay_id,  # clients read it in each response
                    rpc_id=self._subscription.rpc_id,
                    pending_num_requested=self._subscription.pending,
                )
            else:
                latest = response.latest_replay_id
                yield pb.ManagedFetchResponse(
                    events=response.events,
                    latest_replay_id=response.latest_replay_id,
                    rpc_id=response.rpc_id,
                    pending_num_requested=response.pending_num_requested,
                )

    def _committed(self, commit: pb.CommitReplayRequest) -> pb.CommitReplayResponse:
        response = pb.CommitReplayResponse(
            commit_request_id=commit.commit_request_id, replay_id=commit.replay_id, process_time=self._clock()
        )
        problem = self._problem(commit.replay_id)
        if problem is None:
            try:
                self._subscriptions.commit(self._chosen.name, commit.replay_id)
            except OrgUnavailableError:
                problem = "The commit failed. Try again later."
        if problem is not None:
            response.error.CopyFrom(pb.Error(code=pb.ErrorCode.COMMIT, msg=problem))
        return response

    def _problem(self, replay_id: bytes) -> str | None:
        try:
            place = self._bus.start(pb.ReplayPreset.CUSTOM, replay_id)
        except ReplayIdMissingError:
            return "The commit replay ID is missing."
        except ReplayIdCorruptedError:
            return "The commit replay ID is invalid or outside the retention window."
        now = self._subscriptions.find(subscription_id=self._chosen.id)
        if now is not None and now.committed is not None:
            try:
                if self._bus.start(pb.ReplayPreset.CUSTOM, now.committed) > place:
                    return "The commit replay ID is older than the one that was committed last."
            except ReplayIdCorruptedError:
                pass  # the last one has expired, so any is later
        return None
