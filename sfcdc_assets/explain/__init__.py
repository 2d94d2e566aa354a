"""Who set this value, and where an event lies, from the tables alone."""
