"""What keeps a question from being answered."""

from __future__ import annotations

from sfcdc_assets.runtime.errors import SfcdcError


class DuckDbNotInstalled(SfcdcError):
    """DuckDB is an extra."""

    def __init__(self, wanted: str) -> None:
        super().__init__(
            f"{wanted} needs DuckDB, which is not installed. Install it with: pip install 'sfcdc_assets[sql]'"
        )


class QueryFailed(SfcdcError):
    """DuckDB does not take a statement, or fails at it. Its text has the line and the column, so it is kept whole."""

    def __init__(self, said: str, remedy: str = "") -> None:
        self.said = said
        super().__init__("\n".join(part for part in (said.strip(), remedy) if part))


class NotAQuery(SfcdcError):
    """A statement that is no query: it could change or write something."""

    def __init__(self, statement: str) -> None:
        self.statement = statement
        shown = " ".join(statement.split())
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]} ..."
        super().__init__(
            f"{shown}: only queries are answered here. Use --format csv or json for a file of results, and "
            "`sfcdc views` for a database of your own with the views in it."
        )


_SHOWN = 60
"""Characters of a statement in a message."""


class FileNotWritten(SfcdcError):
    """The DuckDB file for other tools could not be written."""

    def __init__(self, path: str, said: str, remedy: str = "") -> None:
        self.path = path
        usual = "Make the folder, close programs that have the file open for writing, or name another one."
        super().__init__(f"The views could not be written to {path} ({' '.join(said.split())}). {remedy or usual}")
