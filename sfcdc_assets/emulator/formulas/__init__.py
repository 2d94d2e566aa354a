"""Formula fields: a text in Salesforce's formula language, computed each time a record is read."""
