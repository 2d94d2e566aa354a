"""What a user of a real org has beside a name and an address: preferences, and settings of the same kind (Change Data
Capture Developer Guide, "Change Events for Users").

Preferences are checkboxes in REST. Events have a list of the true ones, without their common beginning. The database
keeps 32 in a number, and a change of one publishes the true ones of its number.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sfcdc_assets.emulator.definitions.field_notation import field_definitions
from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition

_IN_A_GROUP = 32
_EMAIL = ("AutoBcc", "AutoBccStayInTouch", "StayInTouchReminder")
_USER = (
    "ActivityRemindersPopup", "EventRemindersCheckboxDefault", "TaskRemindersCheckboxDefault", "ReminderSoundOff",
    "DisableAllFeedsEmail", "DisableFollowersEmail", "DisableProfilePostEmail", "DisableChangeCommentEmail",
    "DisableLaterCommentEmail", "DisProfPostCommentEmail", "ContentNoEmail", "ContentEmailAsAndWhen",
    "ApexPagesDeveloperMode", "ReceiveNoNotificationsAsApprover", "ReceiveNotificationsAsDelegatedApprover",
    "HideCSNGetChatterMobileTask", "DisableMentionsPostEmail", "DisMentionsCommentEmail", "HideCSNDesktopTask",
    "HideChatterOnboardingSplash", "HideSecondChatterOnboardingSplash", "DisCommentAfterLikeEmail", "DisableLikeEmail",
    "SortFeedByComment", "DisableMessageEmail", "DisableBookmarkEmail", "DisableSharePostEmail",
    "EnableAutoSubForFeeds", "DisableFileShareNotificationsForApi", "ShowTitleToExternalUsers",
    "ShowManagerToExternalUsers", "ShowEmailToExternalUsers",
    # the second number
    "LightningExperiencePreferred", "HideSfxWelcomeMat", "HideS1BrowserUI", "PathAssistantCollapsed",
    "CacheDiagnostics", "ShowEmailToGuestUsers", "HideEndUserOnboardingAssistantModal", "PreviewLightning",
)  # fmt: skip
_PERMISSIONS = ("MarketingUser", "OfflineUser", "KnowledgeUser", "InteractionUser", "SupportUser")
_SETTINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("DefaultGroupNotificationFrequency", {"type": "picklist", "default": "N", "values": ["P", "D", "W", "N"]}),
    ("DigestFrequency", {"type": "picklist", "default": "D", "values": ["D", "W", "N"]}),
    ("ReceivesInfoEmails", {"type": "boolean", "default": True}),
    ("ReceivesAdminInfoEmails", {"type": "boolean", "default": True}),
    ("ForecastEnabled", {"type": "boolean"}),
    ("IsProfilePhotoActive", {"type": "boolean", "readonly": True}),
    ("IsSystemControlled", {"type": "boolean", "readonly": True}),
)


@cache
def preference_fields() -> tuple[FieldDefinition, ...]:
    """Return the fields in the order of the user's events."""
    options = [(f"EmailPreferences{name}", {"type": "boolean", "bit_group": "EmailPreferences"}) for name in _EMAIL]
    for place, name in enumerate(_USER):
        group = "UserPreferences" if place < _IN_A_GROUP else f"UserPreferences{place // _IN_A_GROUP + 1}"
        options.append((f"UserPreferences{name}", {"type": "boolean", "bit_group": group}))
    options += [
        (f"UserPermissions{name}", {"type": "boolean", "bit_group": "UserPermissions"}) for name in _PERMISSIONS
    ]
    return tuple(field for name, shape in (*options, *_SETTINGS) for field in field_definitions("User", name, shape))
