"""The emulated org as clients see it: REST and Pub/Sub over TLS on loopback, and the settings to reach them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType

from starlette.routing import BaseRoute

from sfcdc_assets.emulator.cometd.allowances import Allowance
from sfcdc_assets.emulator.cometd.client_session import CometdTiming
from sfcdc_assets.emulator.cometd.service import CometdService
from sfcdc_assets.emulator.control.routes import all_control_routes
from sfcdc_assets.emulator.errors import EmulatorDirectoryError
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.event_feed import EventFeed
from sfcdc_assets.emulator.events.topic import ALL_CHANGE_EVENTS
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFaults
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.record_editing import RecordEditing
from sfcdc_assets.emulator.pages.routes import page_routes
from sfcdc_assets.emulator.pubsub.pubsub_server import PubSubServer
from sfcdc_assets.emulator.pubsub.pubsub_service import PubSubService
from sfcdc_assets.emulator.pubsub.stream_timing import StreamTiming
from sfcdc_assets.emulator.rest.api_usage import ApiUsage
from sfcdc_assets.emulator.rest.app import build_app
from sfcdc_assets.emulator.rest.limits import Limits, counted_limits
from sfcdc_assets.emulator.rest.rest_server import RestServer
from sfcdc_assets.emulator.scenarios.player import ScenarioStage
from sfcdc_assets.emulator.serving.certificate import LOOPBACK_NAMES, server_certificate
from sfcdc_assets.emulator.serving.client_settings import write_settings_file
from sfcdc_assets.emulator.serving.held_port import held_port
from sfcdc_assets.emulator.serving.jwt_key import JWT_KEY_FILE
from sfcdc_assets.emulator.serving.running_org import RunningOrg
from sfcdc_assets.emulator.serving.sessions import Sessions
from sfcdc_assets.emulator.traffic.traffic_switch import TrafficSwitch

_DURABLE = ("", "Durable")


class EmulatorServer:
    """Serves an org: a context manager, or call `start` and `stop`. It can be started again on the same ports.

    The org stays the caller's: stopping does not close it.
    """

    def __init__(  # noqa: PLR0913 - options of a server, most of which are left as they are
        self,
        org: EmulatedOrg,
        *,
        directory: Path,
        rest_port: int = 0,
        pubsub_port: int = 0,
        timing: StreamTiming | None = None,
        cometd_timing: CometdTiming | None = None,
        host_names: Sequence[str] = (),
        traffic_seed: int = 0,
    ) -> None:
        """`directory` holds certificates and `org.env`; port 0 takes a free one. Raises EmulatorDirectoryError.

        `host_names`: names beside localhost
        that the certificate is for, such as `login.salesforce.com`, for clients that are made to find the org there.
        `traffic_seed`: of the traffic that `traffic` switches on.
        """
        directory = directory.absolute()
        self.bus = EventBus(org)
        self.sessions = Sessions(org)
        self.service = PubSubService(
            org, self.bus, sessions=self.sessions, timing=timing, hosts=(*LOOPBACK_NAMES, *host_names)
        )
        self.meter = self.service.meter
        self.publisher = self.service.publisher
        """Publishes platform events, and has the log of them."""
        org.faults.on_armed(partial(commit_sudden_faults, self.bus, self.sessions))
        self.cometd = CometdService(org, self.bus, sessions=self.sessions, meter=self.meter, timing=cometd_timing)
        self.faults = org.faults
        """Faults of calls, streams and events; those of REST are `rest_faults`."""
        self.rest_faults = RestFaults()
        self.settings_file = directory / "org.env"
        self.warehouse = directory / "warehouse"
        """Where `org.env` has the copy of this org go: a warehouse belongs to one org."""
        self._org = org
        self._rest_port = rest_port
        self._pubsub_port = pubsub_port
        self.traffic = TrafficSwitch(org, traffic_seed)
        """What the org does by itself; off until it is set."""
        self.feed = EventFeed(org, self.bus, self.cometd.topics)
        """Decoded events, for people."""
        self.scenarios = ScenarioStage(org, self.faults, org.seed)
        running = RunningOrg(
            org=org,
            bus=self.bus,
            service=self.service,
            cometd=self.cometd,
            sessions=self.sessions,
            faults=self.faults,
            rest_faults=self.rest_faults,
            feed=self.feed,
            editing=RecordEditing(org),
            scenarios=self.scenarios,
            traffic=self.traffic,
            allowances=self._allowances,
            settings_file=self.settings_file,
        )
        self._usage = ApiUsage(org)
        self._app = build_app(
            org,
            sessions=self.sessions,
            measured_limits=self._limits,
            faults=self.rest_faults,
            schemas=self.bus,
            publisher=self.publisher,
            event_usage=self._event_usage,
            control=[*all_control_routes(running), *page_routes(running)],
            cometd=self.cometd,
            hosts=(*LOOPBACK_NAMES, *host_names),
        )
        self._rest: RestServer | None = None
        self._pubsub: PubSubServer | None = None
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._certificate = server_certificate(directory, host_names)
        except OSError as error:
            raise EmulatorDirectoryError(directory, error.strerror or "it cannot be written") from error

    def start(self) -> None:
        """Bind both ports, serve, then write `org.env`: who finds the file finds the org listening.

        One of an earlier start is removed first, as its ports may be others'. Raises PortInUseError, and then serves
        nothing.
        """
        self.cometd.start()
        self.feed.start()
        self._rest = RestServer(self._app, self._certificate, self._rest_port)
        try:
            self._pubsub = PubSubServer(self.service, self._certificate, self._pubsub_port)
            self._rest_port, self._pubsub_port = self._rest.port, self._pubsub.port
            self.settings_file.unlink(missing_ok=True)
            self._rest.start()
            self._pubsub.start()
            write_settings_file(
                self.settings_file, self.client_environment() | self.other_clients_environment(), self.other_logins()
            )
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End traffic, open streams and requests, long queries too, and free the ports. Harmless when not started."""
        pubsub, rest, self._pubsub, self._rest = self._pubsub, self._rest, None, None
        with self._org.database.taken_over():
            pass  # what would wait for a long query need not
        self.traffic.set(0)
        self.feed.stop()
        self.cometd.stop()
        if pubsub is not None:
            pubsub.stop()
        if rest is not None:
            rest.stop()

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Nothing answers while entered, and afterwards the same ports do: they are kept from other processes."""
        self.stop()
        with held_port(self._rest_port), held_port(self._pubsub_port):
            try:
                yield
            finally:
                self.start()

    def __enter__(self) -> EmulatorServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """All that answers by HTTP."""
        return self._app.routes

    @property
    def rest_url(self) -> str:
        """Base URL of REST and of logging in; known once started."""
        return f"https://localhost:{self._rest_port}"

    @property
    def pubsub_endpoint(self) -> str:
        """`host:port` of the Pub/Sub API; known once started."""
        return f"localhost:{self._pubsub_port}"

    @property
    def ca_file(self) -> Path:
        """PEM of the authority that clients must trust; the same over restarts."""
        return self._certificate.ca_file

    def client_environment(self) -> dict[str, str]:
        """Return the SFCDC_* settings of a client of this org. Holds the client secret."""
        credentials = self._org.settings.credentials
        return {
            "SFCDC_INSTANCE_URL": self.rest_url,
            "SFCDC_LOGIN_URL": self.rest_url,
            "SFCDC_CLIENT_ID": credentials.client_id,
            "SFCDC_CLIENT_SECRET": credentials.client_secret,
            "SFCDC_PUBSUB_ENDPOINT": self.pubsub_endpoint,
            "SFCDC_CA_FILE": str(self.ca_file),
            "SFCDC_CHANNELS": ALL_CHANGE_EVENTS,
            "SFCDC_WAREHOUSE": str(self.warehouse),
        }

    def other_logins(self) -> dict[str, str]:
        """Return the SFCDC_* settings of the logins that `client_environment` does not use. Holds secrets."""
        credentials = self._org.settings.credentials
        return {
            "SFCDC_USERNAME": credentials.username,
            "SFCDC_PASSWORD": credentials.password,
            "SFCDC_SECURITY_TOKEN": credentials.security_token,
            **({"SFCDC_PRIVATE_KEY_FILE": str(self._jwt_key_file)} if self._jwt_key_file else {}),
        }

    @property
    def _jwt_key_file(self) -> Path | None:
        """The private key of the folder, if the org checks assertions with a key."""
        file = self.settings_file.with_name(JWT_KEY_FILE)
        return file if self._org.settings.credentials.public_key and file.exists() else None

    def other_clients_environment(self) -> dict[str, str]:
        """Return what other clients ask for, under names of their kind. Holds secrets."""
        credentials = self._org.settings.credentials
        return {
            "SALESFORCE_INSTANCE_URL": self.rest_url,
            "SALESFORCE_USERNAME": credentials.username,
            "SALESFORCE_PASSWORD": credentials.password,
            "SALESFORCE_SECURITY_TOKEN": credentials.security_token,
            "SALESFORCE_CLIENT_ID": credentials.client_id,
            "SALESFORCE_CLIENT_SECRET": credentials.client_secret,
            "SALESFORCE_REFRESH_TOKEN": credentials.refresh_token,
            **({"SALESFORCE_JWT_KEY_FILE": str(self._jwt_key_file)} if self._jwt_key_file else {}),
        }

    def _event_usage(self, start: int, end: int) -> dict[str, int]:
        return {
            "CHANGE_EVENTS_PUBLISHED": self.bus.change_events_between(start, end),
            "CHANGE_EVENTS_DELIVERED": self.meter.delivered_between(start, end, platform_events=False),
            "PLATFORM_EVENTS_PUBLISHED": self.publisher.published_between(start, end),
            "PLATFORM_EVENTS_DELIVERED": self.cometd.allowances.platform_events_between(start, end),
        }

    def _allowances(self) -> Limits:
        return {**counted_limits(self._org, self._usage), **self._limits()}

    def _limits(self) -> Limits:
        settings, left = self._org.settings, self.publisher.left_in_this_hour
        streaming, clients = self.cometd.allowances, settings.concurrent_streaming_clients
        notifications = {
            kind: (streaming.most(kind), streaming.left(kind)) for kind in (Allowance.PUSH_TOPICS, Allowance.GENERIC)
        }
        connected = (clients, clients - self.cometd.subscribed_clients)
        return {
            # The same under the names of versions up to 36.0 and of those since.
            **{f"Daily{each}StreamingApiEvents": notifications[Allowance.PUSH_TOPICS] for each in _DURABLE},
            **{f"Daily{each}GenericStreamingApiEvents": notifications[Allowance.GENERIC] for each in _DURABLE},
            **{f"{each}StreamingApiConcurrentClients": connected for each in _DURABLE},
            "DailyDeliveredPlatformEvents": (settings.daily_event_deliveries, self.service.allowance_left),
            "DailyStandardVolumePlatformEvents": (
                streaming.most(Allowance.STANDARD_EVENTS),
                streaming.left(Allowance.STANDARD_EVENTS),
            ),
            "HourlyPublishedPlatformEvents": (settings.hourly_published_events, left()),
            "HourlyPublishedStandardVolumePlatformEvents": (
                settings.hourly_published_standard_events,
                left(high_volume=False),
            ),
        }


def commit_sudden_faults(bus: EventBus, sessions: Sessions) -> None:
    """Commit those that are armed now, each as often as it is armed. Called whenever a fault is armed."""
    while bus.faults.take(Fault.INSTANCE_MOVE):
        bus.move()
    while bus.faults.take(Fault.REPLAY_IDS_EXPIRED):
        bus.expire()
    while bus.faults.take(Fault.TOKENS_EXPIRED):
        sessions.expire_all()
