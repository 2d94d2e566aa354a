"""What keeps a question from being answered."""

from __future__ import annotations

from sfcdc_assets.errors import SfcdcError


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


class FileNotWritten(SfcdcError):
    """The DuckDB file for other tools could not be written."""

    def __init__(self, path: str, said: str) -> None:
        self.path = path
        super().__init__(
            f"The views could not be written to {path} ({' '.join(said.split())}). Close other programs that have it "
            "open, or name another file."
        )
