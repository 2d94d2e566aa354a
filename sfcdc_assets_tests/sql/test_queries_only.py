"""`sfcdc sql` answers queries over the warehouse: nothing else is done, and no other file is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.sql.conftest import Asked

QUERIES = (
    "SELECT count(*) FROM account",
    "WITH a AS (FROM account) SELECT count(*) FROM a",
    "FROM account LIMIT 1",
    "VALUES (1)",
    "DESCRIBE account",
    "SUMMARIZE account",
    "SHOW TABLES",
    "EXPLAIN SELECT 1",
    "/* a comment */ EXPLAIN ANALYZE SELECT count(*) FROM account",
    'PIVOT account ON "_is_deleted" USING count(*)',
    "SELECT count(*) FROM account_as_of('2030-01-01')",
    "SELECT count(*) FROM raw_events",
)
STATEMENTS = (
    "COPY (SELECT 1) TO '{folder}/current_state/made.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/current_state/made.csv'",
    "/* */ EXPLAIN (ANALYZE) COPY (SELECT 1) TO '{folder}/current_state/made.csv'",
    "COPY (PIVOT account ON \"_is_deleted\" USING count(*)) TO '{folder}/current_state/made.csv'",
    "CREATE TABLE mine AS SELECT 1",
    "DROP VIEW account",
    "DELETE FROM account",
    "ATTACH '{folder}/current_state/made.duckdb'",
    "EXPORT DATABASE '{folder}/current_state/made'",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "PRAGMA enable_profiling",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CALL pragma_version()",
    "BEGIN",
    "PREPARE p AS SELECT 1",
)
READS = (
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_blob('{folder}/current_state/../.env')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM read_csv('https://example.com/a.csv')",
)


@pytest.fixture
def secret(tables_of_the_org: Asked, tmp_path: Path) -> Iterator[Path]:
    """A file beside the tables, in the root of the warehouse."""
    path = Path(tables_of_the_org.root) / ".env"
    path.write_text("SFCDC_CLIENT_SECRET=s3cr3t\n")
    yield path
    path.unlink()


def quoted(path: str) -> str:
    return path.replace("'", "''")


def files(root: str) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in Path(root).rglob("*") if path.is_file()}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_is_answered(tables_of_the_org: Asked, query: str) -> None:
    answered = sfcdc("sql", query)
    assert answered.exit_code == 0, answered.stderr
    assert answered.stdout


@pytest.mark.parametrize("statement", STATEMENTS)
def test_any_other_statement_is_refused_and_changes_no_file(tables_of_the_org: Asked, statement: str) -> None:
    before = files(tables_of_the_org.root)
    done = sfcdc("sql", statement.format(folder=quoted(tables_of_the_org.root)))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "only queries are answered here" in done.stderr
    assert files(tables_of_the_org.root) == before


@pytest.mark.parametrize("query", READS)
def test_no_file_beside_the_tables_is_read(tables_of_the_org: Asked, secret: Path, query: str) -> None:
    done = sfcdc("sql", query.format(secret=quoted(str(secret)), folder=quoted(tables_of_the_org.root)))
    assert (done.exit_code, done.stdout) == (1, "")
    assert any(each in done.stderr for each in ("disabled by configuration", "does not exist!"))
    assert "s3cr3t" not in done.stderr
