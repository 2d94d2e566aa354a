"""Objects that are not read like others, by name: what describe does not say of them, each row beside the error, or the
loss, that taught it.

Names may have `*`. The first row that fits holds. What a row does not say is as for any object; an object that has no
row is met with its describe and, at its first copy, with what the org answers (`readability`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

ALL_FIELDS = ("*",)
"""Any field may change without a stamp."""
PARENTS_PER_QUERY = 150
"""Ids in one condition: with their quotes they keep a query's conditions below 4,000 characters."""


@dataclass(frozen=True)
class ParentKey:
    """The object whose records are asked for, and the field by which an object's own records name them."""

    field: str
    parent: str


@dataclass(frozen=True)
class KnownObject:
    """What is known of the objects whose names match. `refused` and `instead`: why it cannot be read, and where what it
    holds is found. `no_bulk`: Bulk API 2.0 does not copy it. `parent`: it is read through that object's Ids alone.
    `unstamped`: fields that change and leave its stamp as it is. `not_worth_it`: why `*` leaves it out."""

    names: tuple[str, ...]
    refused: str | None = None
    instead: str | None = None
    no_bulk: bool = False
    parent: ParentKey | None = None
    unstamped: tuple[str, ...] = ()
    not_worth_it: str | None = None

    def fits(self, name: str) -> bool:
        """Return whether this row is about an object."""
        return any(fnmatchcase(name, each) for each in self.names)


_DESCRIBED = "what it says is in the tables `objects`, `fields`, `picklist_values`, `record_types` and `relationships`"
_PARTS = "it is computed, a part at a time"

KNOWN_OBJECTS = (
    # EXTERNAL_OBJECT_UNSUPPORTED_EXCEPTION: Getting all X is unsupported.
    KnownObject(("*__x",), "its records lie in another system, which gives single ones only", "copy them from there"),
    # A filter takes the fields of its index alone, in order and without gaps; nothing counts or sorts its records.
    KnownObject(
        ("*__b", "FieldHistoryArchive"),
        "it is a big object, which can be asked by its index alone and has no stamp",
        "export it by a Bulk API job of your own, where it was filled from",
    ),
    # No OR across fields, no queryMore; deploys replace records and stamp nothing.
    KnownObject(
        ("*__mdt",),
        "its records are custom metadata, a part of the org's setup",
        "retrieve them by the Metadata API (`sf project retrieve start -m CustomMetadata`)",
    ),
    KnownObject(
        ("*ChangeEvent", "*__e"),
        "it is an event and has no records",
        "name its channel in SFCDC_CHANNELS",
    ),
    # All rows have one Id, or none that is one; getAll does not support queryMore beyond 2,000 objects.
    KnownObject(("EntityDefinition",), "its records have no Ids of their own", _DESCRIBED),
    # "a filter on a reified column is required [EntityDefinitionId,DurableId]"
    KnownObject(
        (
            "FieldDefinition",
            "EntityParticle",
            "PicklistValueInfo",
            "RelationshipInfo",
            "RelationshipDomain",
            "RelatedListDefinition",
            "RelatedListColumnDefinition",
            "SearchLayout",
            "OwnerChangeOptionInfo",
        ),
        f"{_PARTS}, and a query has to name the part",
        _DESCRIBED,
    ),
    # "a filter on a reified column is required [DurableId]"
    KnownObject(
        (
            "SiteDetail",
            "FlowTestView",
            "FlowVersionView",
            "FlowVariableView",
            "ApexTypeImplementor",
            "ColorDefinition",
            "IconDefinition",
            "PlatformAction",
            "User*Access",
            "DataStatistics",
            "DatacloudAddress",
        ),
        f"{_PARTS}, and a query has to name the part",
        "ask for the part that is wanted by a query of your own",
    ),
    # EXTERNAL_OBJECT_UNSUPPORTED_EXCEPTION: The WHERE clause must contain a JobType field expression.
    KnownObject(("FlexQueueItem",), "it is the order of a queue at a moment", "poll AsyncApexJob: the jobs are there"),
    # EXTERNAL_OBJECT_UNSUPPORTED_EXCEPTION, INVALID_TYPE_FOR_OPERATION: entity type X does not support query.
    KnownObject(("OutgoingEmail", "OutgoingEmailRelation"), "it is written only, to send", "poll EmailMessage"),
    KnownObject(("ListViewChartInstance",), "it is computed for one list view", "poll ListViewChart"),
    KnownObject(
        ("ActivityHistory", "OpenActivity", "ActivityMetric", "EmailStatus"),
        "it is a list below a record, and no query may name it",
        "poll Task, Event and EmailMessage, of which it is made",
    ),
    KnownObject(
        (
            "Name",
            "AggregateResult",
            "NoteAndAttachment",
            "CombinedAttachment",
            "AttachedContentDocument",
            "LookedUpFromActivity",
        ),
        "it is a list below a record, and no query may name it",
        "poll the objects of which it is made",
    ),
    KnownObject(("FeedLike", "FeedSignal"), "it is a list below a feed item", "poll the feeds (*Feed), which count it"),
    # "Implementation restriction: ContentDocumentLink requires a filter by a single Id on ContentDocumentId or
    # LinkedEntityId using the equals operator or multiple Id's using the IN operator." (airbyte issue 30819)
    KnownObject(("ContentDocumentLink",), no_bulk=True, parent=ParentKey("ContentDocumentId", "ContentDocument")),
    KnownObject(("ContentFolderMember",), no_bulk=True, parent=ParentKey("ParentContentFolderId", "ContentFolder")),
    KnownObject(
        ("CollaborationGroupRecord",), no_bulk=True, parent=ParentKey("CollaborationGroupId", "CollaborationGroup")
    ),
    KnownObject(("IdeaComment",), no_bulk=True, parent=ParentKey("IdeaId", "Idea")),
    KnownObject(
        ("ContentFolderItem", "Vote", "FeedItem", "FeedRevision"),
        "a query has to name the record whose they are",
        "poll what shows them: ContentDocumentLink, Idea, the feeds of single objects (AccountFeed)",
    ),
    # INVALIDENTITY: Entity 'X' is not supported by the Bulk API. Others that are not learn it at their first copy.
    # Articles (`*__kav`) need no condition: since API version 47.0 a query without one gives drafts, published and
    # archived ones (Knowledge Developer Guide, "Salesforce Knowledge with SOQL and SOSL").
    KnownObject(
        (
            "*Status",
            "TaskPriority",
            "PartnerRole",
            "AcceptedEventRelation",
            "DeclinedEventRelation",
            "UndecidedEventRelation",
            "FieldSecurityClassification",
            "Attachment",
            "CaseTeam*",
            "ActivityFieldHistory",
            "Knowledge*",
        ),
        no_bulk=True,
    ),
    KnownObject(("RecentlyViewed",), no_bulk=True, not_worth_it="it says what the user of the login has looked at"),
    # Set by dates, and not flagged `calculated`.
    KnownObject(("Contract", "ServiceContract"), unstamped=("Status", "StatusCode")),
    KnownObject(("ContractLineItem",), unstamped=("Status",)),
    # About the org's deliveries and not its business; they move all the time.
    KnownObject(("EventBusSubscriber", "PlatformEventUsageMetric"), not_worth_it="it measures the org's own event bus"),
)

WRITTEN_ONCE = ("*History", "SetupAuditTrail")
"""Names of the objects whose records never change. Others that have no stamp but when they were created do, as nobody
says that they do not: AsyncApexJob, CronTrigger and test queue items until they are done, OauthToken and AuthProvider
until they are revoked."""


def is_written_once(name: str) -> bool:
    """Return whether an object's records are known never to change."""
    return any(fnmatchcase(name, each) for each in WRITTEN_ONCE)


def known_object(name: str) -> KnownObject:
    """Return what is known of an object; a row that says nothing where nothing is."""
    return next((each for each in KNOWN_OBJECTS if each.fits(name)), _LIKE_OTHERS)


_LIKE_OTHERS = KnownObject(("*",))
