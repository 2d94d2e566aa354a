"""Asking the tables with SQL: DuckDB over exactly the files of one consistent cut, with the views analysts expect."""
