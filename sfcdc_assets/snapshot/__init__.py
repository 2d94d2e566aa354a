"""A copy of an object as values: its query, its pages, the tables they become, and how far it has come."""
