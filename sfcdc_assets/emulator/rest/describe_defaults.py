"""What a describe says of all objects and fields of this org alike, because it has nothing else of the kind. Clients
look these up by name (`inspectdb` of django-salesforce reads `relationshipOrder`), so they are there, as in Salesforce:
https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/dome_sobject_describe.htm"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OF_ANY_OBJECT: Mapping[str, Any] = {
    "associateEntityType": None,
    "associateParentEntity": None,
    "deepCloneable": False,
    "isInterface": False,
}
"""Also in the list of all objects."""

OF_ONE_OBJECT: Mapping[str, Any] = {
    "actionOverrides": [],
    "compactLayoutable": False,
    "defaultImplementation": None,
    "extendedBy": None,
    "extendsInterfaces": None,
    "implementedBy": None,
    "implementsInterfaces": None,
    "listviewable": None,
    "lookupLayoutable": None,
    "namedLayoutInfos": [],
    "networkScopeFieldName": None,
    "searchLayoutable": False,
    "sobjectDescribeOption": "FULL",
    "supportedScopes": [{"label": "All records", "name": "everything"}],
}

OF_ANY_FIELD: Mapping[str, Any] = {
    "aiPredictionField": False,
    "cascadeDelete": False,
    "controllerName": None,
    "defaultValueFormula": None,
    "displayLocationInDecimal": False,
    "filteredLookupInfo": None,
    "formulaTreatNullNumberAsZero": False,
    "highScaleNumber": False,
    "mask": None,
    "maskType": None,
    "queryByDistance": False,
    "referenceTargetField": None,
    "relationshipOrder": None,
    "restrictedDelete": False,
    "searchPrefilterable": False,
    "writeRequiresMasterRead": False,
}
