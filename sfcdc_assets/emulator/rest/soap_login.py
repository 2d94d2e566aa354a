"""What `login` and `getUserInfo` of the SOAP APIs answer.

Clients read both by position, the vendor's own Python sample among them, so each has all elements of the WSDL in its
order: https://developer.salesforce.com/docs/atlas.en-us.api.meta/api/sforce_api_calls_login_loginresult.htm
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from xml.sax.saxutils import escape

from sfcdc_assets.emulator.ids import instance_characters, to_15
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.person_account import has_person_accounts
from sfcdc_assets.emulator.profiles import profiles
from sfcdc_assets.emulator.rest.rest_context import RestContext


def is_right_password(context: RestContext, username: str, password: str) -> bool:
    """Whether the user's password, with the security token at its end, is right."""
    credentials = context.org.settings.credentials
    expected = credentials.password + credentials.security_token
    is_right_user = hmac.compare_digest(username.lower().encode(), credentials.username.lower().encode())
    return hmac.compare_digest(password.encode(), expected.encode()) and is_right_user


def login_result(context: RestContext, server: str, api: str, version: str) -> str:
    """The elements inside `result`, with a new session of the integration user. `server`: the URL of the SOAP APIs up
    to their letters; `api`: the letter of the one that was asked."""
    org = context.org
    tail = f"{version}/{to_15(org.organization_id)}"
    values = {
        "metadataServerUrl": f"{server}/m/{tail}",
        "passwordExpired": "false",
        "sandbox": "true" if org.settings.is_sandbox else "false",
        "serverUrl": f"{server}/{api}/{tail}",
        "sessionId": context.sessions.issue(org.users.integration),
        "userId": org.users.integration,
    }
    return f"{_elements(values)}<userInfo>{user_info(org)}</userInfo>"


def user_info(org: EmulatedOrg) -> str:
    """The elements of `GetUserInfoResult`."""
    account = org.definitions.get("Account")
    return _elements(
        {
            "accessibilityMode": "false",
            "chatterExternal": "false",
            "currencySymbol": "$",
            "orgAttachmentFileSizeLimit": "5242880",
            "orgDefaultCurrencyIsoCode": "USD",
            "orgDefaultCurrencyLocale": "en_US",
            "orgDisallowHtmlAttachments": "false",
            "orgHasPersonAccounts": "true" if account is not None and has_person_accounts(account) else "false",
            "organizationId": org.organization_id,
            "organizationMultiCurrency": "false",
            "organizationName": "Emulated org",
            "profileId": profiles(instance_characters(org.seed))[0].id,
            "roleId": None,
            "sessionSecondsValid": str(org.settings.token_lifetime // 1000),
            "userDefaultCurrencyIsoCode": None,
            "userEmail": org.settings.credentials.username,
            "userFullName": "Integration User",
            "userId": org.users.integration,
            "userLanguage": "en_US",
            "userLocale": "en_US",
            "userName": org.settings.credentials.username,
            "userTimeZone": "GMT",
            "userType": "Standard",
            "userUiSkin": "Theme3",
        }
    )


def _elements(values: Mapping[str, str | None]) -> str:
    return "".join(
        f'<{name} xsi:nil="true"/>' if value is None else f"<{name}>{escape(value)}</{name}>"
        for name, value in values.items()
    )
