"""How one emulated org is set up: who may log in, how long things last, how much a day allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sfcdc_assets.emulator.org.ids import EMPTY_ID

HOUR = 3_600_000
DAY = 24 * HOUR


@dataclass(frozen=True)
class Credentials:
    """The one connected app and the one integration user of the org. Secrets have no readable form in repr."""

    client_id: str = "sfcdc-emulator-client"
    client_secret: str = field(default="sfcdc-emulator-client-secret", repr=False)
    username: str = "integration@emulator.example"
    password: str = field(default="sfcdc-emulator-password", repr=False)
    security_token: str = field(default="sfcdcEmulatorToken", repr=False)
    refresh_token: str = field(default="sfcdcEmulatorRefreshToken", repr=False)
    """Stands for an approval of the app by the user that was given before."""
    public_key: str | None = field(default=None, repr=False)
    """PEM of the RSA key (or certificate) whose private half signs JWT bearer assertions; None: that flow is not
    set up."""


@dataclass(frozen=True)
class OrgSettings:
    """Times are in milliseconds."""

    credentials: Credentials = Credentials()
    api_versions: tuple[int, ...] = tuple(range(31, 68))
    is_sandbox: bool = False
    """What Organization and the login say the org is."""
    token_lifetime: int = 2 * HOUR
    """How long an access token lives."""
    query_locator_lifetime: int = 2 * DAY
    """How long a query's next page can be asked for."""
    bulk_result_lifetime: int = 7 * DAY
    """How long a bulk job and its results are kept."""
    bulk_step: int = 0
    """How long a bulk job stays in each state, by the clock; 0: each poll of the job moves it one state on."""
    has_bulk_v1: bool = True
    """Whether the first version of the Bulk API answers; otherwise each of its requests is refused."""
    recycle_bin_lifetime: int = 15 * DAY
    """After it, the org empties the bin of a record by itself; `deleted` goes back as far."""
    purged_shown: int = 0
    """How long queryAll still shows a record that was removed from the recycle bin; about a day on the real thing,
    which documents it nowhere."""
    replication_window: int = 30 * DAY
    """How far `updated` goes back."""
    deletes_known_since: int = 0
    """When (epoch ms) the log of deletes was last trimmed, as it is where there are too many: what was deleted before
    is in no answer of `deleted`."""
    most_replicated_ids: int = 600_000
    """How many ids `updated` and `deleted` give at once."""
    sets_audit_fields: bool = False
    """Whether clients may give CreatedDate, CreatedById, LastModifiedDate and LastModifiedById of a record that they
    create, as migrations do: those dates can be long ago, SystemModstamp never is."""
    longest_transaction: int = 0
    """How much older than its commit the stamps of a transaction's records may be: it is drawn for each by the org's
    seed. Records become visible in another order than that of their stamps."""
    daily_api_requests: int = 100_000
    """Requests of REST, SOAP and bulk APIs in 24 hours; then REQUEST_LIMIT_EXCEEDED."""
    daily_bulk_query_jobs: int = 10_000
    """Query jobs of Bulk API 2.0 in 24 hours; then LIMIT_EXCEEDED."""
    daily_bulk_batches: int = 15_000
    """Batches of Bulk API jobs that write, and of all jobs of its first version."""
    daily_bulk_query_mb: int = 976_562
    """Results of Bulk API 2.0 queries."""
    data_storage_mb: int = 10_240
    """What all records may take; then creating one is refused with STORAGE_LIMIT_EXCEEDED."""
    daily_event_deliveries: int = 50_000
    """Events delivered in 24 hours, summed over all subscribers; then subscription.limit.exceeded. The largest
    editions have 50,000; an add-on brings 100,000 more (docs/salesforce-streams.md, "Delivery limits")."""
    daily_standard_event_deliveries: int = 10_000
    """Platform events of standard volume delivered in 24 hours; then as with PushTopics."""
    daily_push_topic_deliveries: int = 1_000_000
    """Notifications of PushTopics delivered in 24 hours; then 403::Organization total events daily limit exceeded."""
    daily_generic_deliveries: int = 1_000_000
    """The same of generic channels."""
    hourly_published_events: int = 50_000
    """Platform events that may be published in an hour; then LIMIT_EXCEEDED."""
    hourly_published_standard_events: int = 1_000
    """The same for events of standard volume."""
    concurrent_streaming_clients: int = 2_000
    """Sessions of the Streaming API that may be subscribed at once."""
    push_topics: int = 100
    """Active PushTopics that the org may have."""
    streaming_channels: int = 1_000
    """Generic channels that the org may have."""
    dynamic_streaming_channels: bool = False
    """Whether subscribing to a generic channel that does not exist makes it."""
    cometd_event_uuids: bool = True
    """Whether events by CometD carry their EventUuid, as those of platform events do."""
    diff_convention: Literal["java-diff-utils", "posix", "mixed"] = "java-diff-utils"
    """How hunks of text diffs are numbered; `mixed` draws one for each diff, by the org's seed. Both are seen."""
    max_event_bytes: int = 1_048_576
    """An event with more payload becomes a gap event."""
    overflow_threshold: int = 100_000
    """Changes of one transaction that give ordinary events: each updated field is one, as is any other change."""
    overflow_keeps_first: bool = True
    """Whether the changes up to the threshold give their events, as documented, or all are in overflow events."""
    overflow_record_id: str = EMPTY_ID
    """What an overflow event names; one of the vendor's samples has 17 characters, 00000000000000AAA."""
    reencryption_moves_modstamp: bool = False
    """Whether SystemModstamp moves when values are encrypted again in the background, which is not documented."""
    wildcard_names_field: bool = True
    """Whether the bitmaps of an event for all records (`001*`) name the field that was nulled, or are empty."""
    publishing_lag: int = 0
    """How long after its commit a change event is on the bus. What was committed and is not there yet is in no answer
    of a stream, nor in what an empty response says."""
    publishing_spread: int = 0
    """How much later than its first events the last event of a transaction of several is there. What was committed
    after it comes after it."""
    late_last_events: bool = False
    """Whether the last event of a transaction of several is dated (commitTimestamp) a second after the others, as in
    some of the vendor's samples."""
    enriched_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Flat API names by object: its update and delete events carry them too, and come ungrouped
    (docs/salesforce-streams.md, "Enrichment")."""
    siblings_share_event_id: bool = True
    """Whether the events into which a merged one is taken apart have one event uuid, beside the one replay id."""
    channels_share_replay_ids: bool = True
    """Whether an event on several channels has one replay id on all of them; its uuid is the same anyway."""
    hidden_fields_in_bitmaps: bool = False
    """Whether changedFields names fields that field-level security hides; they have no value in events anyway."""
    rest_delay: int = 0
    """How long ago was what REST shows of the records (not of the events), from the next commit on; 0: it shows now,
    unless the fault `rest_lag` holds."""
    most_request_bytes: int = 16_384
    """A request whose line (method, address, protocol) is longer is answered with 414; one whose line and headers are,
    with 431. Salesforce's own limit; many a proxy has 8,192."""
    spoiled_records: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By record id: fields whose value REST and bulk queries give as text that is no value of their type; without
    fields, any REST request that would give the record fails with an internal error."""
    most_rows_in_time: int | None = None
    """Of more records than that no query is answered that sorts or counts them: QUERY_TIMEOUT. Salesforce gives up
    after two minutes; none is as slow here."""
    most_formula_text: int = 1_000_000
    """A query of formula fields whose texts have more characters together is too complicated for the org."""
    most_ids_in_retrieve: int = 2_000
    """Retrieving more ids at once by composite/sobjects is answered with 414, as a proxy does; 2,000 is Salesforce's
    own limit, with an error of its own."""
