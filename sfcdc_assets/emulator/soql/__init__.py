"""SOQL of the emulated org: text -> syntax tree -> SQLite query. Whatever is not understood is MALFORMED_QUERY."""
