"""Queries that people write, each with the answer of the emulated org: `works`, or the error code."""

from __future__ import annotations

EXAMPLES: tuple[tuple[str, str], ...] = (
    ("SELECT Id, Name FROM Account", "works"),
    ("SELECT FIELDS(ALL) FROM Account LIMIT 200", "works"),
    ("SELECT FIELDS(STANDARD) FROM Account", "works"),
    (
        "SELECT Id FROM Account WHERE Name LIKE 'A%' AND (Rating = 'Hot' OR Rating = 'Cold') AND (NOT Phone = null)",
        "works",
    ),
    ("SELECT Id FROM Account WHERE Name LIKE 'A%' AND Rating = 'Hot' OR Rating = 'Cold'", "MALFORMED_QUERY"),
    ("SELECT Id FROM Account WHERE Regions__c INCLUDES ('North;East', 'West')", "works"),
    (
        "SELECT Id FROM Account WHERE CreatedDate = LAST_N_DAYS:30 ORDER BY Name DESC NULLS LAST LIMIT 5 OFFSET 1",
        "works",
    ),
    ("SELECT Id FROM Account WHERE CreatedDate = THIS_FISCAL_QUARTER", "works"),
    ("SELECT Id, Account.Name, Account.Owner.Name FROM Contact", "works"),
    ("SELECT Id, (SELECT LastName FROM Contacts WHERE Email != null ORDER BY LastName LIMIT 2) FROM Account", "works"),
    ("SELECT Id, (SELECT Id, (SELECT Id FROM Cases) FROM Contacts) FROM Account", "MALFORMED_QUERY"),
    ("SELECT Id FROM Account WHERE Id IN (SELECT AccountId FROM Contact)", "works"),
    ("SELECT Id FROM Account WHERE Id NOT IN (SELECT AccountId FROM Contact)", "works"),
    ("SELECT Id FROM Account WHERE Id IN (SELECT AccountId FROM Contact) OR Name = 'x'", "MALFORMED_QUERY"),
    ("SELECT COUNT() FROM Account", "works"),
    (
        "SELECT Type, COUNT(Id) n, MAX(AnnualRevenue) FROM Account GROUP BY Type HAVING COUNT(Id) > 1 "
        "ORDER BY COUNT(Id)",
        "works",
    ),
    ("SELECT COUNT_DISTINCT(Type), SUM(AnnualRevenue), AVG(AnnualRevenue), MIN(Name) FROM Account", "works"),
    ("SELECT Type FROM Account GROUP BY ROLLUP(Type)", "MALFORMED_QUERY"),
    ("SELECT Type FROM Account GROUP BY CUBE(Type)", "MALFORMED_QUERY"),
    ("SELECT COUNT() FROM Account ORDER BY Name", "MALFORMED_QUERY"),
    (
        "SELECT DAY_ONLY(CreatedDate), WEEK_IN_MONTH(CreatedDate) FROM Account "
        "GROUP BY DAY_ONLY(CreatedDate), WEEK_IN_MONTH(CreatedDate)",
        "works",
    ),
    ("SELECT Id FROM Account WHERE CALENDAR_YEAR(CreatedDate) = THIS_YEAR", "INVALID_FIELD"),
    ("SELECT Id FROM Account WHERE CreatedDate = N_FISCAL_QUARTERS_AGO:2 OR CreatedDate < LAST_N_WEEKS:3", "works"),
    ("SELECT Id FROM Account WHERE Parent.Is_Partner__c = null ORDER BY Rating", "works"),
    ("SELECT Id FROM Account WHERE Id IN (SELECT ParentId FROM Account)", "MALFORMED_QUERY"),
    ("SELECT Name n FROM Account", "MALFORMED_QUERY"),
    ("SELECT CALENDAR_YEAR(CreatedDate), COUNT(Id) FROM Account GROUP BY CALENDAR_YEAR(CreatedDate)", "works"),
    ("SELECT Id FROM Account WHERE HOUR_IN_DAY(convertTimezone(CreatedDate)) < 12", "works"),
    ("SELECT toLabel(Type), FORMAT(AnnualRevenue) FROM Account", "works"),
    ("SELECT convertCurrency(AnnualRevenue) FROM Account", "MALFORMED_QUERY"),
    ("SELECT TYPEOF What WHEN Account THEN Phone ELSE Name END FROM Task", "works"),
    ("SELECT Id FROM Account WHERE DISTANCE(Office__c, GEOLOCATION(1, 1), 'mi') < 20", "MALFORMED_QUERY"),
    ("SELECT Id FROM Account USING SCOPE everything", "works"),
    ("SELECT Id FROM Account WITH SECURITY_ENFORCED", "works"),
    ("SELECT Id FROM Account WITH DATA CATEGORY Geography__c AT usa__c", "MALFORMED_QUERY"),
    ("SELECT Id FROM Account FOR VIEW", "works"),
    ("SELECT Id FROM Account FOR UPDATE", "works"),
    ("SELECT Id FROM Account ALL ROWS", "works"),
    ("SELECT DurableId, QualifiedApiName FROM EntityDefinition WHERE QualifiedApiName = 'Account'", "works"),
    (
        "SELECT QualifiedApiName, DataType FROM FieldDefinition WHERE EntityDefinition.QualifiedApiName = 'Account'",
        "works",
    ),
    ("SELECT * FROM Account", "MALFORMED_QUERY"),
)
