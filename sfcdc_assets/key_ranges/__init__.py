"""The files of a table by record: each covers a range of Ids of its own, sorted by Id."""
