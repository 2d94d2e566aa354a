"""Query errors in the form Salesforce gives them: the line, a caret below the place, row and column, then the
reason."""

from __future__ import annotations

from sfcdc_assets.emulator.errors import QueryError


def refusal(error_code: str, text: str, position: int, reason: str) -> QueryError:
    """Return an error at an offset of the query (docs/salesforce-streams.md, "REST errors")."""
    before = text[:position]
    row = before.count("\n") + 1
    column = position - (before.rfind("\n") + 1) + 1
    line = text.split("\n")[row - 1]
    return QueryError(error_code, f"\n{line}\n{' ' * column}^\nERROR at Row:{row}:Column:{column}\n{reason}")


def no_such_column(text: str, position: int, column: str, entity: str) -> QueryError:
    """INVALID_FIELD for a field the object does not have."""
    return refusal(
        "INVALID_FIELD",
        text,
        position,
        f"No such column '{column}' on entity '{entity}'. If you are attempting to use a custom field, be sure to "
        f"append the "
        "'__c' after the custom field name. Please reference your WSDL or the describe call for the appropriate names.",
    )


def no_such_object(text: str, position: int, entity: str) -> QueryError:
    """INVALID_TYPE for an object the org does not have, or does not show."""
    return refusal(
        "INVALID_TYPE",
        text,
        position,
        f"sObject type '{entity}' is not supported. If you are attempting to use a custom object, be sure to append "
        "the '__c' after the entity name. Please reference your WSDL or the describe call for the appropriate names.",
    )
